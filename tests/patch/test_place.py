"""A patch is upstreamed where what it changes is there already in its own place, and nowhere else."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kz_build.git.object_types import FILE, Blob
from kz_build.patch.apply import Applied, Refused, Stack, apply_patch
from kz_build.patch.attempt import apply_stack, attempt
from kz_build.patch.change import Patch
from kz_build.patch.judge import judge
from kz_build.patch.mail import parse_patch
from kz_build.patch.place import Place, mapped_back, places_text
from kz_build.patch.quilt import SeriesEntry, parse_foreign
from kz_build.patch.verdict import Judgement, Verdict

HEAD = b"From: A B <a@b>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: [PATCH] x\n\n---\n"
GUARD = "  if (a < 0) return -1;"
BODY = ("  int r = 0;", "  open(a);", "  work(a);", "  shut(a);", "  close(a);", "  return r;")


def function(name: str, *, guard: bool = False, body: Sequence[str] = BODY) -> list[str]:
    return [f"int {name}(int a)", "{", *body[:3], *([GUARD] if guard else []), *body[3:], "}", ""]


def text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def diff(before: Sequence[str], after: Sequence[str], *, named: bool = True, context: int = 3) -> bytes:
    """A diff of `f` as git writes it: with `named`, each header has the last line above its hunk that is not indented."""
    rows = list(difflib.unified_diff(before, after, "a/f", "b/f", n=context, lineterm=""))
    for number, row in enumerate(rows):
        if named and (match := re.match(r"@@ -(\d+)", row)):
            above = [line for line in before[: int(match[1]) - 1] if line[:1].isalpha()]
            rows[number] += f" {above[-1]}" if above else ""
    return ("diff --git a/f b/f\n" + "\n".join(rows) + "\n").encode()


def patched(before: Sequence[str], after: Sequence[str], *, named: bool = True, context: int = 3) -> Patch:
    return parse_patch("0001-x.patch", HEAD + diff(before, after, named=named, context=context))


def on(patch: Patch, lines: Sequence[str]) -> Applied | Refused:
    return attempt(patch, {"f": Blob(FILE, text(lines))}.get)


def judged(patch: Patch, lines: Sequence[str]) -> Judgement:
    stack = Stack("l", "s", "f", (patch,), (), "")
    return judge(stack, {"f": Blob(FILE, text(lines))}.get, {}, lambda *_: None, {})[0]


F_AND_G = [*function("f"), *function("g")]
F_GUARDED = patched(F_AND_G, [*function("f", guard=True), *function("g")])
G_GUARDED = patched(F_AND_G, [*function("f"), *function("g", guard=True)])


@pytest.mark.parametrize("above", [0, 1, 9, 40])
@pytest.mark.parametrize("named", [True, False])
def test_a_patch_is_needed_although_another_function_has_what_it_changes(above: int, named: bool) -> None:
    both = [*function("f", guard=True), *function("g", guard=True)]
    top = [f"// {n}" for n in range(above)]
    for ours, theirs in (("f", "g"), ("g", "f")):
        wanted = patched(F_AND_G, [*function("f", guard=ours == "f"), *function("g", guard=ours == "g")], named=named)
        there = [*function("f", guard=theirs == "f"), *function("g", guard=theirs == "g")]
        outcome = on(wanted, [*top, *there])
        if isinstance(outcome, Applied):
            assert outcome.files == {"f": Blob(FILE, text([*top, *both]))}
        else:  # without a name in the header, drift can bring the other's guard nearer: a person must tell
            assert not named and not outcome.upstreamed and "nearer to its line" in outcome.reason


def test_nor_is_it_upstreamed_where_its_own_function_changed_as_well() -> None:
    other = function("f", body=[BODY[0], "  other(a);", *BODY[2:]])
    there = [*other, *function("g", guard=True)]
    outcome = on(F_GUARDED, there)
    assert isinstance(outcome, Refused) and not outcome.upstreamed
    verdict = judged(F_GUARDED, there)
    assert (verdict.verdict, verdict.there) == (Verdict.CONTEXT, ("f:13-19",))
    assert verdict.reason == "only the lines around it changed; the lines it leaves are found elsewhere"


def test_what_is_there_in_its_own_function_is_upstreamed_although_it_would_apply_in_another() -> None:
    taken = [*function("f", guard=True), *function("g")]
    outcome = on(F_GUARDED, ["// new", *taken])
    assert isinstance(outcome, Refused) and outcome.upstreamed and outcome.applies
    assert outcome.there == (Place("f", 4, 10),)
    assert judged(F_GUARDED, ["// new", *taken]).there == ("f:4-10",)
    unnamed = patched(F_AND_G, taken, named=False)
    outcome = on(unnamed, ["// new", *taken])
    assert isinstance(outcome, Refused) and not outcome.upstreamed and outcome.there == (Place("f", 4, 10),)
    assert outcome.reason == "it applies +12 lines away, but the lines it leaves are found nearer to its line"


def test_a_function_is_known_by_its_name_when_its_parameters_change() -> None:
    taken = [line.replace("f(int a)", "f(int a, int b)") for line in [*function("f", guard=True), *function("g")]]
    outcome = on(F_GUARDED, ["// new", "", *taken[:-10]])
    assert isinstance(outcome, Refused) and outcome.upstreamed
    gone = [*function("h"), "", *function("g", guard=True)]
    outcome = on(F_GUARDED, [line.replace("work", "other") if line in BODY else line for line in gone[:9]] + gone[9:])
    assert isinstance(outcome, Refused) and not outcome.upstreamed, "f is gone, and the guard is g's"


def test_a_line_that_the_patch_itself_gives_the_function_is_its_name() -> None:
    body = [*(f"  step{n}(a);" for n in range(9)), *BODY]
    renamed = ["long f(int a)", *function("f", body=[*body[:12], GUARD, *body[12:]])[1:]]
    patch = patched([*E, *function("f", body=body)], [*E, *renamed])
    assert len(patch.files[0].hunks) == 2 and patch.files[0].hunks[1].section == b"int f(int a)"
    outcome = on(patch, ["// new", *E, *renamed])
    assert isinstance(outcome, Refused) and outcome.upstreamed and len(outcome.there) == 2


E = ["int e(int a)", "{", "  start(a);", "  return 0;", "}", ""]
ADDED = ["int f(int a)", "{", "  return 0;", "}", ""]
TWICE = b"""\
diff --git a/f b/f
--- a/f
+++ b/f
@@ -4,6 +4,11 @@ int e(int a)
   return 0;
 }

+int f(int a)
+{
+  return 0;
+}
+
 int g(int a)
 {
   int r = 0;
"""
"""Adds a function that ends as the one above it does: its lines before it stand a second time in those after it."""


def applies(patch: Patch, lines: Sequence[str]) -> bool:
    return isinstance(apply_patch(patch, {"f": Blob(FILE, text(lines))}.get), Applied)


def test_a_function_that_would_be_added_twice_is_there_already_and_its_lines_are_named() -> None:
    patch = parse_patch("0001-x.patch", HEAD + TWICE)
    assert isinstance(on(patch, [*E, *function("g")]), Applied)
    there = ["// new", *E, *ADDED, *function("g")]
    assert applies(patch, there), "git would insert it again"
    outcome = on(patch, there)
    assert isinstance(outcome, Refused) and outcome.upstreamed and outcome.there == (Place("f", 5, 15),)


def test_a_part_that_is_there_already_is_not_put_in_a_second_time() -> None:
    before, done = [*E, *function("g"), *function("h")], [*E, *ADDED, *function("g"), *function("h")]
    guarded = diff(done, [*done[:-10], *function("h", guard=True)])
    patch = parse_patch("0001-x.patch", HEAD + TWICE + guarded[guarded.index(b"@@") :])
    assert isinstance(on(patch, before), Applied)
    there = ["// new", *done]
    assert applies(patch, there), "git would insert the function again"
    verdict = judged(patch, there)
    assert (verdict.verdict, verdict.there) == (Verdict.CONTENT, ("f:5-15",))
    assert verdict.reason == "upstream has this part of the patch already"
    # A mode that is not there yet keeps it from being upstreamed as well.
    chmod = TWICE.replace(b"--- a/f", b"old mode 100644\nnew mode 100755\n--- a/f", 1)
    outcome = on(parse_patch("p", HEAD + chmod), there[:-10])
    assert isinstance(outcome, Refused) and not outcome.upstreamed and outcome.reason == verdict.reason


def test_on_the_file_that_it_was_made_for_a_patch_applies_whatever_is_there() -> None:
    before = Blob(FILE, text([*E, *ADDED, *function("g")]))
    index = f"index {before.id}..{'1' * 40} 100644\n--- a/f".encode()
    again = parse_patch("0001-x.patch", HEAD + TWICE.replace(b"--- a/f", index).replace(b"-4,6 +4,11", b"-9,6 +9,11"))
    outcome = attempt(again, {"f": before}.get)
    assert isinstance(outcome, Applied) and outcome.files["f"] == Blob(FILE, text([*E, *ADDED, *ADDED, *function("g")]))
    other = attempt(again, {"f": Blob(FILE, before.data + b"// new\n")}.get)
    assert isinstance(other, Refused) and other.upstreamed


def test_a_line_taken_out_of_many_alike_is_not_taken_for_done() -> None:
    many = ["int t[] = {", *["  {0},"] * 12, "};"]
    patch = patched(many, [*many[:7], *many[8:]])
    assert isinstance(on(patch, many), Applied)
    done = on(patch, [*many[:1], *["  {0},"] * 5, *many[-1:]])
    assert isinstance(done, Refused) and not done.upstreamed


@pytest.mark.parametrize("gnu", [False, True])
def test_as_many_places_as_the_patch_has_hunks_alike_are_theirs(gnu: bool) -> None:
    after = [*function("f", guard=True), *function("g", guard=True)]
    body = diff(F_AND_G, after, named=False)
    patch = parse_foreign(SeriesEntry("p"), "p", body) if gnu else parse_patch("p", HEAD + body)
    outcome = on(patch, ["// new", "", *after])
    assert isinstance(outcome, Refused) and outcome.upstreamed
    assert outcome.there == (Place("f", 5, 11), Place("f", 16, 22))
    third = on(patch, ["// new", "", *after, *function("h", guard=True)])
    assert isinstance(third, Refused) and not third.upstreamed, "two of three, and nothing says which"


@pytest.mark.parametrize(
    ("body", "there", "lines"),
    [
        (b"diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n", b"a\nb\n", "f:1-2"),
        (b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", None, "f (gone)"),
        (b"diff --git a/f b/f\nold mode 100755\nnew mode 100644\n", b"a\n", "f"),
        (b"diff --git a/e b/f\nrename from e\nrename to f\n--- a/e\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-x\n+b\n c\n", b"a\nb\nc\n", "f:1-3"),
    ],
)  # fmt: skip
def test_where_what_is_no_hunk_is_there(body: bytes, there: bytes | None, lines: str) -> None:
    files = {} if there is None else {"f": Blob(FILE, there)}
    outcome = attempt(parse_patch("p", HEAD + body), files.get)
    assert isinstance(outcome, Refused) and outcome.upstreamed and list(map(str, outcome.there)) == [lines]


def test_lines_are_those_of_the_targets_file_and_not_of_the_patched_one() -> None:
    first = patched(F_AND_G, ["// ours", "// and ours", *F_AND_G])
    taken = [*function("f"), *function("g", guard=True)]
    outcome = apply_stack((first, G_GUARDED), {"f": Blob(FILE, text(taken))}.get)[1]
    assert isinstance(outcome, Refused) and outcome.upstreamed and outcome.there == (Place("f", 13, 19),)
    stack = Stack("l", "s", "f", (first, G_GUARDED), (), "")
    found = judge(stack, {"f": Blob(FILE, text(taken))}.get, {}, lambda *_: None, {})
    assert found[1].there == ("f:13-19",)
    all_ours = mapped_back(Place("f", 1, 2), b"a\nb\n", b"new\nnewer\na\nb\n")
    assert all_ours == Place("f", 1, 1)
    assert mapped_back(Place("f", 2, 4), b"a\nb\nc\n", b"a\nx\nb\nc\n") == Place("f", 2, 3)


def test_a_later_patch_of_the_same_change_elsewhere_is_not_taken_for_upstreams() -> None:
    stack = (G_GUARDED, F_GUARDED)
    found = apply_stack(stack, {"f": Blob(FILE, text(F_AND_G))}.get)
    assert [isinstance(outcome, Applied) for outcome in found] == [True, True]


def test_places_as_a_phrase() -> None:
    assert places_text(["a.c:3-9", "a.c:20-26", "b (gone)", "c:x.c:1-2"]) == "a.c:3-9, 20-26, b (gone) and c:x.c:1-2"
    assert places_text(["a.c:3-9"]) == "a.c:3-9" and places_text(["a"]) == "a"


NAMES = [f"f{n}" for n in range(5)]


@settings(max_examples=int(os.environ.get("KZ_EXAMPLES", "150")), deadline=None)
@given(st.data())
def test_a_patch_is_never_upstreamed_by_what_another_function_has(data: st.DataObject) -> None:
    """Upstream guards some functions, and not ours; it adds and removes lines and functions around them, and renames ours."""
    ours = data.draw(st.sampled_from(NAMES), "ours")
    theirs = data.draw(st.sets(st.sampled_from(NAMES)), "theirs")
    named = data.draw(st.booleans(), "named")
    before = [line for name in NAMES for line in ["// a line", *function(name)]]
    after = [line for name in NAMES for line in ["// a line", *function(name, guard=name == ours)]]
    patch = patched(before, after, named=named)
    order = data.draw(st.permutations(NAMES) if data.draw(st.booleans(), "moved") else st.just(NAMES), "order")
    gone = data.draw(st.sets(st.sampled_from(NAMES), max_size=2), "gone") - {ours}
    fate = data.draw(st.sampled_from(["stays", "stays", "is renamed", "is rewritten"]), "ours")
    there: list[str] = []
    for name in order:
        there += ["// a line"] * data.draw(st.integers(0, 15), f"above {name}")
        body = ("  all(a);", "  new(a);", "  here(a);", "  now(a);") if (name, fate) == (ours, "is rewritten") else BODY
        shown_name = "other" if (name, fate) == (ours, "is renamed") else name
        there += [] if name in gone else function(shown_name, guard=name in theirs, body=body)
    outcome = on(patch, there)
    if ours not in theirs and (named or applies(patch, there)):
        assert not (isinstance(outcome, Refused) and outcome.upstreamed)
    if named and fate == "stays" and ours in theirs and not isinstance(outcome, Applied):
        assert outcome.upstreamed and outcome.there[0].first == there.index(f"int {ours}(int a)") + 3


def test_a_part_that_is_there_is_named_with_its_line_in_the_patch() -> None:
    taken = [*function("f", guard=True), *function("g")]
    body = diff(F_AND_G, taken).replace(b"--- a/f", b"old mode 100644\nnew mode 100755\n--- a/f", 1)
    outcome = on(parse_patch("0001-x.patch", HEAD + body), ["// new", *taken])
    assert isinstance(outcome, Refused) and not outcome.upstreamed
    assert (outcome.path, outcome.reason) == ("f", "upstream has this part of the patch already")
    assert outcome.there == (Place("f", 4, 10),) and outcome.applies, "git would put it into the other function"
    assert (HEAD + body).split(b"\n")[outcome.patch_line - 1].startswith(b"@@ -")


def test_a_change_of_mode_beside_the_file_that_a_patch_was_made_for() -> None:
    before = Blob(FILE, text([*E, *ADDED, *function("g")]))
    index = f"index {before.id}..{'1' * 40} 100644\n--- a/f".encode()
    again = TWICE.replace(b"--- a/f", index).replace(b"-4,6 +4,11", b"-9,6 +9,11")
    mode = b"diff --git a/n b/n\nold mode 100644\nnew mode 100755\n"
    outcome = attempt(parse_patch("p", HEAD + again + mode), {"f": before, "n": Blob(FILE, b"")}.get)
    assert isinstance(outcome, Applied) and outcome.files["f"] == Blob(FILE, text([*E, *ADDED, *ADDED, *function("g")]))


def test_a_patch_that_is_taken_back_is_there_by_the_same_rules() -> None:
    guarded, other = function("f", guard=True), function("f", body=[BODY[0], "  other(a);", *BODY[2:]])
    back = parse_foreign(SeriesEntry("p", reverse=True), "p", diff([*guarded, *function("g")], F_AND_G))
    outcome = on(back, [*other, *function("g", guard=True)])
    assert isinstance(outcome, Refused) and not outcome.upstreamed, "another function has it"
    # It names the file that it was made from, and that is what it leaves when it is taken back.
    there = [*E, *ADDED, *function("g")]
    index = f"index {Blob(FILE, text(there)).id}..{'1' * 40} 100644\n--- a/f".encode()
    removal = TWICE.replace(b"\n+", b"\n-").replace(b"\n-++ b/f", b"\n+++ b/f").replace(b"-4,6 +4,11", b"-4,11 +4,6")
    back = parse_foreign(SeriesEntry("p", reverse=True), "p", removal.replace(b"--- a/f", index))
    assert applies(back, there), "GNU patch would insert it again"
    outcome = on(back, there)
    assert isinstance(outcome, Refused) and outcome.upstreamed
