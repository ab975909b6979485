"""What becomes of a stack on another version of its files: verdicts, their places and words, merges and intents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kz_build.git.object_types import Blob
from kz_build.patch.apply import Stack
from kz_build.patch.change import Hunk, Patch, split_lines
from kz_build.patch.intent_checks import IntentCheck
from kz_build.patch.judge import (
    Image,
    _diff,
    find_run,
    images,
    judge,
    judge_without_merges,
    required_lines,
    with_merges,
)
from kz_build.patch.text import without
from kz_build.patch.verdict import Judgement, Verdict
from tests.patch.gitapply import reader
from tests.patch.test_binary import LITERAL, SMALL
from tests.patch.test_diff import HUNK, NAMES, one, read
from tests.patch.test_stack import ABC, ABC_AFTER, chmod, create, delete, edit, file, link, move

Tree = Mapping[str, Blob]


def lines(letters: str) -> Blob:
    """A file with one line for each letter."""
    return file(b"".join(letter.encode() + b"\n" for letter in letters))


def patch(*diffs: bytes, name: str = "0001-x.patch") -> Patch:
    return Patch(name, "A <a@b>", "today", "T\n", read(b"".join(diffs)))


def stack(*patches: Patch, checks: tuple[IntentCheck, ...] = ()) -> Stack:
    return Stack("l", "s", "patches/l/s", patches, checks, "")


def no_merge(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    return None


def judged(
    found: Stack, tree: Tree, on: Tree | None = None, merge: Callable[[bytes, bytes, bytes], bytes | None] = no_merge
) -> tuple[Judgement, ...]:
    """Judge a stack on a tree; `on` is the tree that it was written for."""
    origin = images(found.patches, lambda path: reader(on, path)) if on is not None else {}
    return judge(found, lambda path: reader(tree, path), origin, merge, {})


def verdict(diff: bytes, tree: Tree) -> tuple[Verdict, str, int, int, str]:
    (found,) = judged(stack(patch(diff)), tree)
    assert found.patch == "0001-x.patch"
    return found.verdict, found.path, found.line, found.offset, found.reason


MIDDLE = one(b"@@ -4,5 +4,5 @@\n d\n e\n-f\n+F\n g\n h\n", b"index 1..2 100644", *NAMES)
"""Changes f of `abcdefghijk`."""


def stands(line: str, what: str) -> str:
    return f"it requires `{line}`, which {what}"


@pytest.mark.parametrize(
    ("there", "found", "offset", "reason"),
    [
        ("abcdefghijk", Verdict.CLEAN, 0, ""),
        ("abcxxdefghijk", Verdict.OFFSET, 2, ""),
        ("defghijk", Verdict.OFFSET, -3, ""),
        ("abcdeFghijk", Verdict.UPSTREAMED, 0, "what it changes is there already"),
        ("abcdxfghijk", Verdict.CONTEXT, 0, "only the lines around it changed"),
        ("abcxefghijk", Verdict.CONTEXT, 0, "only the lines around it changed"),
        ("f", Verdict.CONTEXT, 0, "only the lines around it changed"),
        ("abcdexghijk", Verdict.CONTENT, 0, stands("f", "is gone")),
        ("", Verdict.CONTENT, 0, stands("f", "is gone")),
    ],
)
def test_the_verdict_on_a_changed_line(there: str, found: Verdict, offset: int, reason: str) -> None:
    place = ("", 0) if found is Verdict.CLEAN else ("f", 5)
    assert verdict(MIDDLE, {"f": lines(there)}) == (found, *place, offset, reason)


def test_a_line_whose_white_space_changed_is_said_so() -> None:
    tree = {"f": file(b"a\nb\nc\nd\ne\n  f\ng\nh\n")}
    assert verdict(MIDDLE, tree)[4] == stands("f", "has other white space now")
    indented = one(b"@@ -1,3 +1,1 @@\n-gone \xff\n-  kept\n c\n", *NAMES)
    # The line that is gone whole says more than the one that was only indented.
    assert verdict(indented, {"f": file(b"kept\nc\n")})[4] == stands("gone \ufffd", "is gone")
    both = {"f": file(b"kept\n gone \xff\nc\n")}
    assert verdict(indented, both)[4] == stands("gone \ufffd", "has other white space now")


def test_lines_that_are_no_longer_together() -> None:
    both = one(b"@@ -1,4 +1,2 @@\n a\n-b\n-c\n d\n", *NAMES)
    assert verdict(both, {"f": lines("abxcd")})[4] == "the lines that it requires are no longer together"
    apart = one(b"@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n-d\n+D\n e\n", *NAMES)
    assert verdict(apart, {"f": lines("dxb")})[4] == "the lines that it requires are no longer together"
    assert verdict(apart, {"f": lines("bxd")})[:1] == (Verdict.CONTEXT,)
    insertion = one(b"@@ -1,2 +1,3 @@\n a\n+b\n c\n", *NAMES)
    assert verdict(insertion, {"f": lines("axc")})[4] == "the lines that it requires are no longer together"
    assert verdict(insertion, {"f": lines("xac")})[0] is Verdict.CONTEXT
    two = one(HUNK + b"@@ -11,3 +11,3 @@\n k\n-l\n+L\n m\n", *NAMES)
    assert verdict(two, {"f": lines("xbckxm")})[4] == stands("l", "is gone")


@pytest.mark.parametrize(
    ("diff", "tree", "found"),
    [
        (edit("f"), {}, (Verdict.MISSING, "f", 5, 0, "the file is not there")),
        (edit("f"), {"f/x": ABC}, (Verdict.MISSING, "f", 5, 0, "the file is not there")),
        (move("old", "new"), {}, (Verdict.MISSING, "old", 1, 0, "the file is not there")),
        (move("old", "new"), {"old": ABC, "new": ABC}, (Verdict.CONTENT, "new", 1, 0, "the file it creates is there already")),
        (create("f"), {"f": ABC}, (Verdict.CONTENT, "f", 5, 0, "the file it creates is there already")),
        (create("f"), {"f": file(b"x\n")}, (Verdict.UPSTREAMED, "f", 5, 0, "what it changes is there already")),
        (delete("f"), {"f": ABC}, (Verdict.CONTENT, "f", 5, 0, "its lines are not there")),
        (delete("f"), {}, (Verdict.UPSTREAMED, "f", 5, 0, "what it changes is there already")),
        (edit("f"), {"f": link(b"x")}, (Verdict.CONTENT, "f", 5, 0, "it is a symbolic link")),
        (chmod("f"), {"f": file(b"", "100755")}, (Verdict.UPSTREAMED, "f", 0, 0, "what it changes is there already")),
        (LITERAL, {"f": ABC}, (Verdict.CONTENT, "f", 1, 0, "it is not the binary that the patch was made for")),
        (LITERAL, {"f": file(SMALL[0])}, (Verdict.CLEAN, "", 0, 0, "")),
    ],
)  # fmt: skip
def test_the_verdict_on_other_changes(diff: bytes, tree: Tree, found: tuple[Any, ...]) -> None:
    assert verdict(diff, tree) == found


def test_the_widest_offset_is_named() -> None:
    body = HUNK + b"@@ -11,3 +11,3 @@\n k\n-l\n+L\n m\n@@ -20,3 +20,3 @@\n t\n-u\n+U\n v\n"
    diff = one(body, *NAMES)
    found = verdict(diff, {"f": lines("abcdefghijxxklmnoqrstuvwz")})
    assert found == (Verdict.OFFSET, "f", 9, 2, "")
    assert verdict(diff, {"f": lines("abcdefghklmnopqrtuvwz")})[:4] == (Verdict.OFFSET, "f", 14, -3)


def test_a_patch_is_as_bad_off_as_the_worst_of_its_files() -> None:
    both = edit("f") + edit("g")
    assert verdict(both, {"f": lines("xbc"), "g": ABC}) == (
        Verdict.CONTEXT,
        "f",
        5,
        0,
        "only the lines around it changed",
    )
    assert verdict(both, {"f": lines("xbc"), "g": lines("xyz")}) == (
        Verdict.CONTENT,
        "g",
        14,
        0,
        stands("b", "is gone"),
    )
    assert verdict(both, {"f": ABC, "g": lines("xyz")}) == (Verdict.CONTENT, "g", 14, 0, stands("b", "is gone"))
    assert verdict(both, {"f": lines("xyz")}) == (Verdict.MISSING, "g", 14, 0, "the file is not there")
    assert verdict(both, {"f": ABC_AFTER, "g": ABC_AFTER})[0] is Verdict.UPSTREAMED


def test_upstream_may_have_a_part_of_a_patch() -> None:
    both = edit("f") + edit("g")
    part = "upstream has this part of the patch already"
    assert verdict(both, {"f": ABC_AFTER, "g": ABC}) == (Verdict.CONTENT, "f", 5, 0, part)
    # What is really lost is named before it.
    assert verdict(both, {"f": ABC_AFTER, "g": lines("xyz")}) == (Verdict.CONTENT, "g", 14, 0, stands("b", "is gone"))


def test_files_that_apply_one_by_one_and_not_together() -> None:
    found = verdict(create("d") + create("d/x"), {})
    assert found == (Verdict.CONTENT, "d/x", 0, 0, "a folder is in its place, or a file where its folder would be")


SECOND = one(b"@@ -1,3 +1,3 @@\n a\n-B\n+D\n c\n", *NAMES)


def test_later_patches_are_judged_on_what_the_earlier_ones_left() -> None:
    both = stack(patch(edit("f")), patch(SECOND, name="0002-y.patch"))
    assert [j.verdict for j in judged(both, {"f": ABC})] == [Verdict.CLEAN, Verdict.CLEAN]
    assert [j.verdict for j in judged(both, {"f": ABC_AFTER})] == [Verdict.UPSTREAMED, Verdict.CLEAN]
    first, second = judged(both, {"f": lines("xyz")})
    assert (first.verdict, first.without) == (Verdict.CONTENT, ())
    assert (second.patch, second.verdict, second.without) == ("0002-y.patch", Verdict.CONTENT, ("0001-x.patch",))


def test_a_patch_names_the_lost_ones_of_its_own_files_only() -> None:
    third = patch(edit("g"), name="0003-g.patch")
    fourth = patch(SECOND, name="0004-f.patch")
    found = judged(stack(patch(edit("f")), third, fourth), {"f": lines("aBcx"), "g": ABC})
    # The first is upstreamed, so nothing is lost.
    assert [(j.verdict, j.without) for j in found[1:]] == [(Verdict.CLEAN, ()), (Verdict.CLEAN, ())]
    lost = judged(stack(patch(edit("f")), third, fourth), {"f": lines("aDc"), "g": ABC})
    assert [(j.verdict, j.without) for j in lost] == [
        (Verdict.CONTENT, ()), (Verdict.CLEAN, ()), (Verdict.UPSTREAMED, ()),
    ]  # fmt: skip


def test_what_was_found_on_the_same_files_is_not_asked_again() -> None:
    reads: list[str] = []
    seen: dict[tuple[object, ...], Any] = {}
    found = stack(patch(edit("f")), checks=(IntentCheck("x", "contains", "f", (("text", "B"),), "checks.yaml:1"),))

    def run(tree: Tree) -> tuple[Judgement, ...]:
        return judge(found, lambda path: reads.append(path) or reader(tree, path), {}, no_merge, seen)  # type: ignore[func-returns-value]

    first = run({"f": ABC})
    size = len(seen)
    assert run({"f": ABC, "other": ABC}) == first and len(seen) == size
    assert run({"f": file(ABC.data, "100755")}) == first and len(seen) > size
    size = len(seen)
    assert run({"f": lines("xyz")})[0].verdict is Verdict.CONTENT and len(seen) > size
    assert run({})[0].verdict is Verdict.MISSING


def test_a_commit_to_one_file_of_a_large_patch_has_the_others_judged_once() -> None:
    names = [f"f{number}" for number in range(9)]
    seen: dict[tuple[object, ...], Any] = {}
    failing = dict.fromkeys(names, lines("xyz"))
    found = stack(patch(*(edit(name) for name in names)))
    judge(found, failing.get, {}, no_merge, seen)
    reads: list[str] = []
    on = {**failing, "f3": lines("xyZ")}
    assert judge(found, lambda path: reads.append(path) or on.get(path), {}, no_merge, seen) == judged(found, on)  # type: ignore[func-returns-value]
    assert reads.count("f7") < reads.count("f3")


def check(kind: str = "contains", path: str = "f", text: str = "B", slug: str = "x", line: int = 3) -> IntentCheck:
    return IntentCheck(slug, kind, path, (("text", text),), f"patches/l/s/checks.yaml:{line}")


def test_a_patch_that_holds_must_do_what_it_is_for() -> None:
    good = judged(stack(patch(edit("f")), checks=(check(),)), {"f": ABC})
    assert (good[0].intents, good[0].holds, good[0].rank) == ((), True, 0)
    checks = (check(text="Z"), check("absent", text="a", line=4), check(path="gone", line=5), check())
    (found,) = judged(stack(patch(edit("f")), checks=checks), {"f": ABC})
    assert found.verdict is Verdict.CLEAN and not found.holds and found.rank == Verdict.CONTENT.rank
    assert found.intents == (
        "contains (patches/l/s/checks.yaml:3): f does not contain 'Z'",
        "absent (patches/l/s/checks.yaml:4): f contains 'a'",
        "contains (patches/l/s/checks.yaml:5): gone is not in the tree",
    )


def test_checks_belong_to_their_patch_and_are_asked_of_the_whole_stacks_result() -> None:
    both = (patch(edit("f")), patch(SECOND, name="0002-y.patch"))
    found = judged(stack(*both, checks=(check(text="B"), check(text="D", slug="y"))), {"f": ABC})
    assert [j.intents for j in found] == [("contains (patches/l/s/checks.yaml:3): f does not contain 'B'",), ()]
    lost = judged(stack(*both, checks=(check(text="Q"), check(text="Q", slug="y"))), {"f": lines("xyz")})
    assert [j.intents for j in lost] == [(), ()]
    one_lost = stack(
        patch(edit("gone")), patch(edit("f"), name="0002-y.patch"), checks=(check(), check(text="Q", slug="y"))
    )
    first, second = judged(one_lost, {"f": ABC})
    assert (first.intents, len(second.intents)) == ((), 1)


def test_checks_are_asked_anew_of_files_that_changed() -> None:
    seen: dict[tuple[object, ...], Any] = {}
    found = stack(patch(edit("f")), checks=(check(path="g", text="word"),))
    for text, count in (("word", 0), ("other", 1), ("word", 0)):
        tree = {"f": ABC, "g": file(text.encode())}
        (answer,) = judge(found, lambda path, tree=tree: reader(tree, path), {}, no_merge, seen)  # type: ignore[misc]
        assert len(answer.intents) == count


def test_files_before_and_after_each_patch_where_it_was_written() -> None:
    broken = patch(edit("gone"), name="0002-gone.patch")
    third = patch(SECOND, name="0003-y.patch")
    found = images((patch(edit("f")), broken, third), lambda path: reader({"f": ABC}, path))
    assert found == {
        "0001-x.patch": Image({"f": ABC}, {"f": ABC_AFTER}),
        "0003-y.patch": Image({"f": ABC_AFTER}, {"f": lines("aDc")}),
    }


def merged(asked: list[tuple[bytes, bytes, bytes]]) -> Callable[[bytes, bytes, bytes], bytes | None]:
    """A merge that finds a result for what begins with x."""

    def merge(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
        asked.append((ours, base, theirs))
        return ours.replace(b"b", b"B") if ours.startswith(b"x") else None

    return merge


def test_a_three_way_merge_may_find_what_strict_application_does_not() -> None:
    asked: list[tuple[bytes, bytes, bytes]] = []
    (found,) = judged(stack(patch(edit("f"))), {"f": lines("xbc")}, {"f": ABC}, merged(asked))
    assert asked == [(b"x\nb\nc\n", ABC.data, ABC_AFTER.data)]
    assert (found.verdict, found.path, found.line) == (Verdict.MERGED, "f", 5)
    assert found.reason == "only the lines around it changed; only a three-way merge finds a result"
    assert found.merged == "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n x\n-b\n+B\n c"
    (found,) = judged(stack(patch(edit("f"))), {"f": lines("ybc")}, {"f": ABC}, merged(asked))
    assert (found.verdict, found.merged) == (Verdict.CONTEXT, "")
    (found,) = judged(stack(patch(edit("f"))), {"f": file(b"x\xff\nb\nc\n")}, {"f": ABC}, merged(asked))
    assert " x\ufffd\n-b\n+B" in found.merged


def test_every_file_of_a_patch_must_merge() -> None:
    both = stack(patch(edit("f") + edit("g")))
    on = {"f": ABC, "g": ABC}
    asked: list[tuple[bytes, bytes, bytes]] = []
    (found,) = judged(both, {"f": lines("xbc"), "g": lines("xbcd")}, on, merged(asked))
    assert found.verdict is Verdict.MERGED
    assert found.merged.count("--- a/") == 2 and "\n--- a/g\n" in found.merged
    (found,) = judged(both, {"f": lines("xbc"), "g": lines("ybc")}, on, merged(asked))
    assert found.verdict is Verdict.CONTEXT
    # A file that applies is not asked.
    asked.clear()
    (found,) = judged(both, {"f": lines("xbc"), "g": ABC}, on, merged(asked))
    assert found.verdict is Verdict.MERGED and len(asked) == 1


@pytest.mark.parametrize(
    ("diff", "on", "tree"),
    [
        (edit("f"), {"f": ABC}, {}),
        (edit("f"), {}, {"f": lines("xbc")}),
        (edit("f"), {"f": ABC}, {"f": link(b"xb")}),
        (edit("f") + edit("g"), {"f": ABC, "g": ABC}, {"f": lines("xbc")}),
        (create("f"), {}, {"f": lines("xbc")}),
        (edit("f") + create("g"), {"f": ABC}, {"f": lines("xbc"), "g": ABC}),
        (delete("f"), {"f": file(b"x\n")}, {"f": lines("xbc")}),
    ],
)
def test_there_is_nothing_to_merge_without_all_three_sides(diff: bytes, on: Tree, tree: Tree) -> None:
    asked: list[tuple[bytes, bytes, bytes]] = []
    (found,) = judged(stack(patch(diff)), tree, on, merged(asked))
    assert not asked and found.verdict in (Verdict.CONTENT, Verdict.CONTEXT, Verdict.MISSING)


def test_a_renamed_file_merges_under_its_old_name() -> None:
    asked: list[tuple[bytes, bytes, bytes]] = []
    (found,) = judged(stack(patch(move("f", "g", change=HUNK))), {"f": lines("xbc")}, {"f": ABC}, merged(asked))
    assert asked == [(b"x\nb\nc\n", ABC.data, ABC_AFTER.data)]
    assert (found.verdict, found.merged.split("\n")[0]) == (Verdict.MERGED, "--- a/g")


def test_merges_can_be_done_after_all_patches_were_judged() -> None:
    both = stack(patch(edit("f")), patch(edit("g"), name="0002-g.patch"))
    tree, on = {"f": lines("xbc"), "g": ABC}, {"f": ABC, "g": ABC}
    origin = images(both.patches, lambda path: reader(on, path))
    row = judge_without_merges(both, lambda path: reader(tree, path), origin, {})
    assert [(j.verdict, m) for j, m in row] == [
        (Verdict.CONTEXT, (("f", (b"x\nb\nc\n", ABC.data, ABC_AFTER.data)),)),
        (Verdict.CLEAN, ()),
    ]
    assert with_merges(row, merged([]), {}) == judge(both, lambda path: reader(tree, path), origin, merged([]), {})


def hunk(before: str, after: str) -> Hunk:
    rows = [tuple(split_lines(lines(text).data)) for text in (before, after)]
    return Hunk(1, 1, rows[0], rows[1], 0, 0, 1)


@pytest.mark.parametrize(
    ("before", "after", "runs"),
    [
        ("abc", "aBc", ["b"]),
        ("abcd", "ad", ["bc"]),
        ("abcde", "aBcDe", ["b", "d"]),
        ("ac", "abc", ["ac"]),
        ("c", "bc", ["c"]),
        ("a", "ab", ["a"]),
        ("acxe", "abcxde", ["ac", "xe"]),
    ],
)
def test_the_lines_that_a_hunk_stands_on(before: str, after: str, runs: list[str]) -> None:
    assert required_lines(hunk(before, after)) == tuple(tuple(split_lines(lines(run).data)) for run in runs)


def test_a_hunk_of_lines_that_repeat_between_others_does_not_take_hours() -> None:
    sides = [
        tuple(line for n in range(20_000) for line in (b"x\n", b"%s%d\n" % (side, n))) for side in (b"old", b"new")
    ]
    assert required_lines(Hunk(1, 1, sides[0], sides[1], 0, 0, 1)) == (sides[0][1:],)


def test_a_line_that_stands_everywhere_in_a_long_hunk_is_still_found() -> None:
    many = tuple([b"  {0, 0},\n"] * 250)
    assert required_lines(Hunk(1, 1, many, (*many, b"  {1, 1},\n"), 0, 0, 1)) == (many[-1:],)


@pytest.mark.parametrize(
    ("run", "start", "place"),
    [
        ("ab", 0, 0),
        ("ab", 1, 3),
        ("cab", 0, 2),
        ("b", 2, 4),
        ("ba", 0, -1),
        ("abcabc", 0, -1),
        ("ab", 4, -1),
        ("b", 4, 4),
    ],
)
def test_where_lines_stand_together(run: str, start: int, place: int) -> None:
    wanted, there = (split_lines(lines(text).data) for text in (run, "abcab"))
    assert find_run(tuple(wanted), there, start) == place


def test_verdicts_from_best_to_worst() -> None:
    assert [(v.name, v.rank, v.holds) for v in Verdict] == [
        ("CLEAN", 0, True), ("OFFSET", 0, True), ("UPSTREAMED", 0, True), ("MERGED", 1, False),
        ("CONTEXT", 2, False), ("CONTENT", 3, False), ("MISSING", 4, False),
    ]  # fmt: skip


def test_each_patch_is_shown_its_own_lines_in_the_targets_own_file() -> None:
    both = stack(patch(edit("f"), name="0001-x.patch"), patch(edit("g"), name="0002-y.patch"))
    assert [j.there for j in judged(both, {"f": ABC_AFTER, "g": ABC_AFTER})] == [("f:1-3",), ("g:1-3",)]
    top = patch(one(b"@@ -1,2 +1,3 @@\n+t\n p\n q\n", *NAMES), name="0001-x.patch")
    both = stack(top, patch(one(b"@@ -5,3 +5,3 @@\n a\n-b\n+B\n c\n", *NAMES), name="0002-y.patch"))
    seen: dict[tuple[object, ...], Any] = {}
    for there, place in (("pqxxaBc", "f:5-7"), ("tpqxxaBc", "f:6-8")):
        tree = {"f": lines(there)}
        found = judge(both, lambda path, tree=tree: reader(tree, path), {}, no_merge, seen)  # type: ignore[misc]
        assert found[1].there == (place,)


def test_the_one_line_that_a_long_hunk_of_lines_alike_changes() -> None:
    many = tuple([b"  {0, 0},\n"] * 250)
    assert required_lines(Hunk(1, 1, (b"old\n", *many), (b"new\n", *many), 0, 250, 1)) == ((b"old\n",),)


def test_patches_left_out_are_named_by_their_numbers_if_they_have_any() -> None:
    one = Judgement("0003-c.patch", Verdict.CLEAN, without=("0001-a-b.patch", "cflags-for-minizip"))
    assert without(one) == "judged without 0001, cflags-for-minizip"


def test_the_diff_of_a_merge_shows_line_ends_and_splits_at_newlines_alone() -> None:
    head = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n"
    assert _diff("f", b"x\r\n", b"x\n") == f"{head}-x\r\n+x"
    assert _diff("f", b"x\n", b"x") == f"{head}-x\n+x\n\\ No newline at end of file"
    assert _diff("f", b"x\x0cy\n", b"x\x0cz\n") == f"{head}-x\x0cy\n+x\x0cz"
