"""Applying patches to trees: what files they leave, where they sit, and why they are refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kz_build.git.object_types import Blob, blob_id
from kz_build.patch.apply import Applied, Refused, Stack, apply_patch, content, overlaid
from kz_build.patch.attempt import apply_stack, attempt
from kz_build.patch.change import FileChange, Patch
from kz_build.patch.intent_checks import IntentCheck
from tests.patch.gitapply import reader
from tests.patch.test_binary import CREATED, LITERAL, SMALL
from tests.patch.test_diff import HUNK, NAMES, one, read, read_gnu

Tree = Mapping[str, Blob]


def file(data: bytes, mode: str = "100644") -> Blob:
    return Blob(mode, data)


def link(to: bytes) -> Blob:
    return Blob("120000", to)


ABC, ABC_AFTER = file(b"a\nb\nc\n"), file(b"a\nB\nc\n")
X = file(b"x\n")


def patch(*diffs: bytes, gnu: bool = False, name: str = "0001-x.patch") -> Patch:
    files = (read_gnu if gnu else read)(b"".join(diffs))
    return Patch(name, "A <a@b>", "today", "T\n", files, gnu)


def edit(path: str, mode: str = "100644") -> bytes:
    name = path.encode()
    index = b"index 1..2 " + mode.encode()
    return one(HUNK, index, b"--- a/" + name, b"+++ b/" + name, path=b"a/%s b/%s" % (name, name))


def create(path: str, mode: str = "100644") -> bytes:
    name = path.encode()
    header = b"new file mode " + mode.encode()
    return one(b"@@ -0,0 +1 @@\n+x\n", header, b"--- /dev/null", b"+++ b/" + name, path=b"a/%s b/%s" % (name, name))


def delete(path: str, mode: str = "100644") -> bytes:
    name = path.encode()
    header = b"deleted file mode " + mode.encode()
    return one(b"@@ -1 +0,0 @@\n-x\n", header, b"--- a/" + name, b"+++ /dev/null", path=b"a/%s b/%s" % (name, name))


def move(old: str, new: str, word: str = "rename", change: bytes = b"") -> bytes:
    names = old.encode(), new.encode()
    lines = [f"{word} from {old}".encode(), f"{word} to {new}".encode()]
    lines += [b"--- a/" + names[0], b"+++ b/" + names[1]] if change else []
    return one(change, *lines, path=b"a/%s b/%s" % names)


def chmod(path: str, old: str = "100644", new: str = "100755") -> bytes:
    return one(b"", b"old mode " + old.encode(), b"new mode " + new.encode(), path=f"a/{path} b/{path}".encode())


def applied(tree: Tree, *diffs: bytes, gnu: bool = False) -> dict[str, Blob | None]:
    """The files that a patch leaves; None for what is gone."""
    outcome = apply_patch(patch(*diffs, gnu=gnu), lambda path: reader(tree, path))
    assert isinstance(outcome, Applied), outcome
    return dict(outcome.files)


def refused(tree: Tree, *diffs: bytes, gnu: bool = False) -> tuple[str, str, int]:
    """Where and why a patch is refused, with the line in its file."""
    outcome = apply_patch(patch(*diffs, gnu=gnu), lambda path: reader(tree, path))
    assert isinstance(outcome, Refused) and outcome.upstreamed is False
    return outcome.path, outcome.reason, outcome.patch_line


def test_content_and_id_of_a_file() -> None:
    assert content(X) == b"x\n"
    assert content(None) is None
    assert content(Blob("40000", b"x")) is None
    assert X.id == blob_id(b"x\n") == "587be6b4c3f93f93c489c0111bba5596147a26cb"


def test_what_a_stack_touches() -> None:
    check = IntentCheck("x", "parses", "CMakeLists.txt", (), "checks.yaml:1")
    both = (patch(edit("f")), patch(move("old", "new")))
    assert Stack("l", "s", "", both, (check,), "").touched == {"f", "old", "new", "CMakeLists.txt"}
    assert Stack("l", "s", "", (), (), "").touched == frozenset()


def test_files_are_changed_made_moved_copied_and_deleted() -> None:
    tree = {"f": ABC, "old": file(b"a\nb\nc\n", "100755"), "from": ABC, "x": X, "run": X, "l": link(b"x")}
    assert applied(tree, edit("f")) == {"f": ABC_AFTER}
    assert applied(tree, create("d/new", "100755")) == {"d/new": file(b"x\n", "100755")}
    assert applied(tree, create("d/link", "120000").replace(b"+x\n", b"+x\n\\ No newline at end of file\n")) == {
        "d/link": link(b"x")
    }
    assert applied(tree, delete("x")) == {"x": None}
    assert applied(tree, move("old", "new")) == {"old": None, "new": file(b"a\nb\nc\n", "100755")}
    assert applied(tree, move("old", "new", change=HUNK)) == {"old": None, "new": file(b"a\nB\nc\n", "100755")}
    assert applied(tree, move("from", "to", "copy")) == {"to": ABC}
    assert applied(tree, move("from", "to", "copy", HUNK)) == {"to": ABC_AFTER}
    assert applied(tree, chmod("run")) == {"run": file(b"x\n", "100755")}
    assert applied(tree, move("l", "k")) == {"l": None, "k": link(b"x")}
    assert applied({"f": file(SMALL[0])}, LITERAL) == {"f": file(SMALL[1])}
    assert applied({}, CREATED) == {"n": file(b"\0new")}
    assert applied({"f": file(SMALL[0], "100755")}, LITERAL) == {"f": file(SMALL[1], "100755")}
    everything = (edit("f"), delete("x"), move("old", "new"))
    assert applied(tree, *everything) == {"f": ABC_AFTER, "x": None, "old": None, "new": file(b"a\nb\nc\n", "100755")}


def test_the_hunks_that_sat_at_an_offset_are_listed() -> None:
    second = b"@@ -11,3 +11,3 @@\n k\n-l\n+L\n m\n"
    change = one(HUNK + second, *NAMES)
    lines = [bytes([letter]) for letter in b"abcdefghijklmn"]

    def offsets(*rows: bytes) -> tuple[tuple[str, int, int], ...]:
        tree = {"f": file(b"".join(row + b"\n" for row in rows)), "g": ABC}
        outcome = apply_patch(patch(edit("g"), change), lambda path: reader(tree, path))
        assert isinstance(outcome, Applied)
        return outcome.offsets

    assert offsets(*lines) == ()
    assert offsets(*lines[:5], b"+", *lines[5:]) == (("f", 18, 1),)
    assert offsets(*lines[:5], *lines[7:]) == (("f", 18, -2),)
    moved = {"f": file(b"x\na\nb\nc\n"), "g": file(b"x\ny\na\nb\nc\n")}
    second_line = edit("f").replace(b"-1,3 +1,3", b"-2,3 +2,3"), edit("g").replace(b"-1,3 +1,3", b"-2,3 +2,3")
    outcome = apply_patch(patch(*second_line), lambda path: reader({**moved, "f": file(b"x\nz\na\nb\nc\n")}, path))
    assert isinstance(outcome, Applied) and outcome.offsets == (("f", 5, 1), ("g", 14, 1))


@pytest.mark.parametrize(
    ("tree", "diff", "path", "reason", "line"),
    [
        ({}, edit("f"), "f", "the file is not there", 5),
        ({"f/x": X}, edit("f"), "f", "the file is not there", 5),
        ({"f": file(b"a\nx\nc\n")}, edit("f"), "f", "its lines are not there", 5),
        ({}, chmod("f"), "f", "the file is not there", 1),
        ({}, move("old", "new"), "new", "the file is not there", 1),
        ({"f": link(b"a\nb\nc\n")}, edit("f"), "f", "it is a symbolic link", 5),
        ({"f": ABC}, edit("f", "120000"), "f", "it is not a symbolic link", 5),
        ({"f": link(b"x")}, chmod("f"), "f", "it is a symbolic link", 1),
        ({"f": X}, chmod("f", "120000", "120000"), "f", "it is not a symbolic link", 1),
        ({"f": X}, create("f"), "f", "the file it creates is there already", 5),
        ({"old": X, "new": X}, move("old", "new"), "new", "the file it creates is there already", 1),
        ({"old": X, "new": X}, move("old", "new", "copy"), "new", "the file it creates is there already", 1),
        ({"x": file(b"y\nx\n")}, delete("x"), "x", "its lines are not there", 5),
        ({"x": X}, delete("x").replace(b"@@ -1 +0,0 @@\n-x\n", b"") , "x", "the file it deletes has other content", 1),
        ({"f": X}, LITERAL, "f", "it is not the binary that the patch was made for", 1),
        ({"f/x": X}, create("f"), "f", "a folder is in its place, or a file where its folder would be", 0),
        ({"f/x": X}, create("f") + delete("f"), "f", "a folder is in its place, or a file where its folder would be", 0),
        ({"f": X}, create("f/x"), "f/x", "a folder is in its place, or a file where its folder would be", 0),
        ({"f": X}, create("f/d/x"), "f/d/x", "a folder is in its place, or a file where its folder would be", 0),
        ({"f": link(b"d")}, create("f/x"), "f/x", "a folder is in its place, or a file where its folder would be", 0),
        ({"f/x": X, "o": X}, move("o", "f"), "f", "a folder is in its place, or a file where its folder would be", 0),
    ],
)  # fmt: skip
def test_why_a_patch_is_refused(tree: Tree, diff: bytes, path: str, reason: str, line: int) -> None:
    assert refused(tree, diff) == (path, reason, line)


def test_a_patch_applies_whole_or_not_at_all_and_names_the_file_that_failed() -> None:
    assert refused({"f": ABC}, edit("f"), edit("g")) == ("g", "the file is not there", 14)


def test_later_changes_of_a_patch_see_the_earlier_ones() -> None:
    again = one(b"@@ -1,3 +1,3 @@\n a\n-B\n+D\n c\n", *NAMES)
    assert applied({"f": ABC}, edit("f"), again) == {"f": file(b"a\nD\nc\n")}
    assert applied({"f": ABC}, edit("f"), chmod("f")) == {"f": file(b"a\nB\nc\n", "100755")}
    assert refused({"f": X}, delete("f"), edit("f")) == ("f", "the file is gone by then", 11)
    assert refused({"f": ABC}, move("f", "g"), edit("f")) == ("f", "the file is gone by then", 8)
    assert refused({"f": X}, edit("g"), create("f")) == ("g", "the file is not there", 5)
    assert applied({}, create("f"), create("f").replace(b"+x", b"+y")) == {"f": file(b"y\n")}  # git does so too
    assert applied({"f": ABC}, move("f", "g"), create("f")) == {"f": X, "g": ABC}


def test_renames_and_copies_read_what_was_there_before_the_patch() -> None:
    assert applied({"f": ABC}, edit("f"), move("f", "g", "copy")) == {"f": ABC_AFTER, "g": ABC}
    assert applied({"f": ABC, "g": X}, move("f", "g"), move("g", "f")) == {"f": X, "g": ABC}
    assert applied({"f": ABC, "g": X}, delete("g"), move("f", "g")) == {"f": None, "g": ABC}
    assert applied({"f": X}, delete("f"), create("f/x")) == {"f": None, "f/x": X}
    assert applied({"f/x": X}, delete("f/x"), create("f")) == {"f/x": None, "f": X}
    assert refused({"f/x": X, "f/y": X}, delete("f/x"), create("f"))[0] == "f"
    assert applied({"d/f": X}, move("d/f", "d")) == {"d/f": None, "d": X}


def test_a_link_gives_way_to_a_folder_only_where_the_patch_says_that_it_was_one() -> None:
    gone = delete("l", "120000").replace(b"-x\n", b"-x\n\\ No newline at end of file\n")
    assert applied({"l": link(b"x")}, gone, create("l/x")) == {"l": None, "l/x": X}
    assert refused({"l": link(b"x")}, move("l", "k"), create("l/x"))[:2] == (
        "l/x",
        "a folder is in its place, or a file where its folder would be",
    )
    assert applied({"l": X}, move("l", "k"), create("l/x")) == {"l": None, "k": X, "l/x": X}


def test_refused_patches_are_left_out_for_those_after_them() -> None:
    tree = {"f": ABC}
    broken = patch(edit("gone"), edit("f"), name="0001-broken.patch")
    follows = Patch("0003-f.patch", "", "", "", read(one(b"@@ -1,3 +1,3 @@\n a\n-B\n+D\n c\n", *NAMES)))
    first, second, third = apply_stack((broken, patch(edit("f")), follows), lambda path: reader(tree, path))
    assert isinstance(first, Refused) and (first.patch, first.path) == (broken, "gone")
    assert isinstance(second, Applied) and second.patch.name == "0001-x.patch"
    assert isinstance(third, Applied) and third.files == {"f": file(b"a\nD\nc\n")}


def test_what_is_read_once_files_have_changed() -> None:
    tree = {"f": X, "d/a": X, "d/b": X, "e": X}
    changed: dict[str, Blob | None] = {}
    current = overlaid(lambda path: reader(tree, path), changed)
    assert current("f") == X and current("gone") is None
    changed.update({"f": ABC, "e": None, "d/a": None, "n/e/w": X})
    assert (current("f"), current("e"), current("d/a"), current("d/b")) == (ABC, None, None, X)
    assert current("d") == Blob("40000", b"b")
    assert (current("n"), current("n/e"), current("n/e/w")) == (Blob("40000", b"e/w"), Blob("40000", b"w"), X)
    changed["d/b"] = None
    assert current("d") is None
    changed["d/c"] = X
    assert current("d") == Blob("40000", b"c")
    # A folder cannot be where a file is above it, until that file goes.
    assert current("f/x") == Blob("40000", b"")
    changed["f"] = None
    assert current("f/x") is None
    changed["dd"] = X
    assert current("d") == Blob("40000", b"c")
    changed["z/\udcff"] = X
    assert current("z") == Blob("40000", b"\xff")


def test_in_a_folder_without_listing_files_come_and_go() -> None:
    """A submodule, say: something is there that nobody lists."""
    changed: dict[str, Blob | None] = {"other": X}
    current = overlaid(lambda path: Blob("40000", b"") if path == "s" else None, changed)
    assert current("s") == Blob("40000", b"")
    changed["s/x"] = X
    assert current("s") == Blob("40000", b"\0x")


PLAIN_EDIT = b"--- a/f\n+++ b/f\n" + HUNK
PLAIN_NEW = b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
PLAIN_FILL = b"--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("tree", "diff", "files"),
    [
        ({"f": ABC}, PLAIN_EDIT, {"f": ABC_AFTER}),
        ({"f": file(b"a\nb\nc\n", "100755")}, PLAIN_EDIT, {"f": file(b"a\nB\nc\n", "100755")}),
        ({}, PLAIN_NEW, {"f": X}),
        ({"f": file(b"")}, PLAIN_NEW, {"f": X}),
        ({"f": file(b"", "100755")}, PLAIN_FILL, {"f": file(b"x\n", "100755")}),
        ({}, PLAIN_FILL, {"f": X}),
        ({"f": ABC, "g": X}, move("f", "g"), {"f": None, "g": ABC}),
        ({"f": ABC, "g": X}, move("f", "g", "copy"), {"g": ABC}),
        ({"f": X}, delete("f") + PLAIN_FILL, {"f": X}),
        # of the names, the best that is there
        ({"f": ABC}, b"--- a/f.orig\n+++ b/f\n" + HUNK, {"f": ABC_AFTER}),
        ({"f.c": ABC}, b"--- a/f\n+++ b/f.c\n" + HUNK, {"f.c": ABC_AFTER}),
        ({"f": ABC, "f.c": ABC}, b"--- a/f.c\n+++ b/f\n" + HUNK, {"f": ABC_AFTER}),
        ({"f": ABC, "g": ABC}, b"--- a/f\n+++ b/g\n" + HUNK, {"f": ABC_AFTER}),
        ({"e": ABC, "d/f": ABC}, b"--- a/d/f\n+++ b/e\n" + HUNK, {"e": ABC_AFTER}),
        ({"ff": ABC, "g": ABC}, b"--- a/ff\n+++ b/g\n" + HUNK, {"g": ABC_AFTER}),
        # of a new file's names, that with the fewest new folders
        ({"d/e/x": X}, b"--- a/f/n\n+++ b/d/e/n\n@@ -0,0 +1 @@\n+x\n", {"d/e/n": X}),
        ({"f/x": X}, b"--- a/f/n\n+++ b/d/e/n\n@@ -0,0 +1 @@\n+x\n", {"f/n": X}),
        ({}, b"--- a/d/n\n+++ b/e/nn\n@@ -0,0 +1 @@\n+x\n", {"d/n": X}),
        ({}, b"--- a/n.orig\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {"n": X}),
        ({"d/f": file(b"")}, b"--- a/d/f\n+++ b/g\n@@ -0,0 +1 @@\n+x\n", {"d/f": X}),
        # what an earlier change of the patch made or removed counts
        ({}, create("f.c") + b"--- a/f\n+++ b/f.c\n@@ -1 +1 @@\n-x\n+y\n", {"f.c": file(b"y\n")}),
        (
            {"f": X, "f.c": X},
            delete("f") + b"--- a/f\n+++ b/f.c\n@@ -1 +1 @@\n-x\n+y\n",
            {"f": None, "f.c": file(b"y\n")},
        ),
        ({"ff": ABC, "g": ABC}, move("ff", "g", change=HUNK), {"g": ABC_AFTER}),
        ({"g": ABC}, move("f", "g", "copy", HUNK), {"g": ABC_AFTER}),
        # without hunks
        ({}, one(b"", b"index 0000000..1"), {}),
        ({}, one(b"", b"new file mode 100755"), {"f": file(b"", "100755")}),
        ({"f": X}, one(b"", b"new file mode 100755"), {"f": file(b"x\n", "100755")}),
        ({}, one(b"", b"deleted file mode 100644"), {}),
        ({"f": file(b"")}, one(b"", b"deleted file mode 100644"), {"f": None}),
    ],
)
def test_patches_of_others_are_applied_as_gnu_patch_does(
    tree: Tree, diff: bytes, files: dict[str, Blob | None]
) -> None:
    assert applied(tree, diff, gnu=True) == files


@pytest.mark.parametrize(
    ("tree", "diff", "reason"),
    [
        ({}, PLAIN_EDIT, "the file is not there"),
        ({}, b"--- a/f\n+++ b/f\n@@ -3,0 +4 @@\n+x\n", "the file is not there"),
        ({"f": link(b"x")}, PLAIN_EDIT, "it is a symbolic link"),
        ({"f": file(b"y\n")}, PLAIN_NEW, "the file it creates is there already"),
        ({"f": file(SMALL[0])}, LITERAL, "GNU patch does not apply binary changes"),
        ({"f": file(b"z\na\nb\nd\n")}, PLAIN_EDIT, "its lines are not there"),
        ({"f/x": X, "f.c": ABC}, b"--- a/f\n+++ b/f.c\n" + HUNK, "the file is not there"),
        ({"x": X}, b"--- a/f\n+++ b/f.c\n" + HUNK, "the file is not there"),
        ({}, move("f", "g"), "the file is not there"),
        ({"f": X}, one(b"", b"deleted file mode 100644"), "the file it deletes has other content"),
        ({}, delete("f"), "the file is not there"),
        ({"f": X}, one(b"", b"index 0000000..1") + LITERAL, "GNU patch does not apply binary changes"),
    ],
)
def test_patches_of_others_are_refused_as_gnu_patch_does(tree: Tree, diff: bytes, reason: str) -> None:
    assert refused(tree, diff, gnu=True)[1] == reason


def test_hunks_of_others_go_by_gnu_patchs_rule() -> None:
    """A hunk of the first line without context before it may sit further down, where it has none after it either."""
    bare = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+B\n"
    assert applied({"f": ABC}, bare, gnu=True) == {"f": ABC_AFTER}
    assert refused({"f": ABC}, one(b"@@ -1 +1 @@\n-b\n+B\n", *NAMES))[1] == "its lines are not there"


def test_what_is_there_already_is_upstreamed() -> None:
    def tried(tree: Tree, *diffs: bytes) -> Applied | Refused:
        return attempt(patch(*diffs), lambda path: reader(tree, path))

    there = tried({"f": ABC_AFTER}, edit("f"))
    assert isinstance(there, Refused) and there.upstreamed
    assert (there.path, there.patch_line, there.reason) == ("f", 5, "what it changes is there already")
    assert isinstance(tried({"f": ABC}, edit("f")), Applied)
    neither = tried({"f": X}, edit("f"))
    assert isinstance(neither, Refused) and not neither.upstreamed
    for tree, diff in (
        ({"d/x": X}, create("d/x")),
        ({"x2": ABC}, move("f", "x2")),
        ({"g": file(b"y\n")}, delete("x")),
        ({"f": file(b"x\n", "100755")}, chmod("f")),
    ):
        outcome = tried(tree, diff)
        assert isinstance(outcome, Refused) and outcome.upstreamed, diff
    for tree, diff in (
        ({"f": ABC, "x2": ABC}, move("f", "x2")),
        ({"f": X}, chmod("f")),
        ({"f": ABC, "g": ABC}, move("f", "g", "copy")),
        ({"d/x": file(b"x\n", "100755")}, create("d/x")),
    ):
        outcome = tried(tree, diff)
        assert isinstance(outcome, Applied) or not outcome.upstreamed, diff
    nothing = attempt(Patch("0001-x.patch", "", "", "", ()), lambda path: None)
    assert isinstance(nothing, Applied) and nothing.files == {}


def test_an_insertion_is_not_done_twice() -> None:
    insert = one(b"@@ -1,2 +1,3 @@\n a\n+b\n c\n", *NAMES)
    before, after = {"f": file(b"a\nc\n")}, {"f": file(b"a\nb\nc\n")}
    first = attempt(patch(insert), lambda path: reader(before, path))
    assert isinstance(first, Applied) and first.files == after
    second = attempt(patch(insert), lambda path: reader(after, path))
    assert isinstance(second, Refused) and (second.upstreamed, second.path, second.patch_line) == (True, "f", 4)
    change = FileChange("f", (), mode="100755")
    assert not change.leaves


def test_a_patch_reads_every_name_and_the_folders_above_new_files_of_different_ones() -> None:
    def reads(diff: bytes) -> set[str]:
        return set(patch(diff, gnu=True).reads)

    assert reads(b"--- a/d/e/f\n+++ b/g\n" + HUNK) == {"d/e/f", "g"}
    assert reads(b"--- a/d/f.c\n+++ b/d/f\n@@ -0,0 +1 @@\n+x\n") == {"d/f.c", "d/f"}
    assert reads(b"--- a/d/e/f\n+++ b/c/f\n@@ -0,0 +1 @@\n+x\n") == {"d/e/f", "c/f", "d", "d/e", "c"}
    assert reads(move("f", "g")) == {"f", "g"}


def test_what_is_refused_or_applied_names_the_file_that_was_taken() -> None:
    diff = b"--- a/f\n+++ b/f.c\n" + HUNK
    tree = {"f.c": file(b"a\nb\nd\n")}
    assert refused(tree, diff, gnu=True)[:2] == ("f.c", "its lines are not there")
    there = attempt(patch(diff, gnu=True), lambda path: reader({"f.c": ABC_AFTER}, path))
    assert isinstance(there, Refused) and there.upstreamed and [str(p) for p in there.there] == ["f.c:1-3"]
