"""The reader of other people's patches against GNU patch itself: the same files, or both refuse."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.object_types import FILE, LINK, Blob
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.quilt import SeriesEntry, parse_foreign
from tests.patch.gitapply import Files, files_in, reader, write

HEADERS = [
    ("a/f.orig", "b/f"),
    ("a/f", "b/f.new"),
    ("a/d/f", "b/f"),
    ("a/f", "b/d/f"),
    ("a/x/n", "b/y/z/n"),
    ("a/mk", "b/mk.c"),
    ("/dev/null", "b/f"),
    ("a/f", "/dev/null"),
    ("f", "b/d/f"),
    ("a/f", "f"),
]
HUNKS = [b"@@ -1 +1 @@\n-x\n+y\n", b"@@ -0,0 +1 @@\n+y\n", b"@@ -1 +0,0 @@\n-x\n"]
WAYS = [
    *((hunk, False, "-p1") for hunk in HUNKS),
    (HUNKS[0], True, "-p1"),
    *((hunk, False, "-R") for hunk in HUNKS[1:]),
]
"""The hunk, whether git's header is above, and an option."""
THERE = [(), ("old",), ("new",), ("old", "new"), ("y/other",), ("mk/other", "new")]


def gnu_patch(folder: Path, files: Files, patch: bytes, word: str) -> Files | None:
    """What GNU patch makes of the files; None if it fails, whatever it has changed by then."""
    write(folder, files)
    argv = ["patch", "-f", "-s", "--fuzz=0", "--no-backup-if-mismatch", "-r", "-", "-p1", word]
    done = subprocess.run(argv, cwd=folder, input=patch, capture_output=True, env={**os.environ, "TZ": "UTC"})
    return None if done.returncode else files_in(folder)


def ours(files: Files, patch: bytes, word: str) -> Files | None:
    try:
        parsed = parse_foreign(SeriesEntry("p", 0 if word == "-p0" else 1, word == "-R"), "p", patch)
    except ConfigError:
        return None
    outcome = apply_patch(parsed, lambda path: reader(files, path))
    return {k: v for k, v in {**files, **outcome.files}.items() if v} if isinstance(outcome, Applied) else None


def agree(folder: Path, files: Files, patch: bytes, word: str = "-p1") -> Files | None:
    theirs = gnu_patch(folder, files, patch, word)
    assert ours(files, patch, word) == theirs, (patch, sorted(files), word)
    return theirs


@pytest.mark.parametrize(("old", "new"), HEADERS)
def test_of_the_files_that_a_header_names_the_same_one_is_taken(tmp_path: Path, old: str, new: str) -> None:
    """Both there, one, none; for a change, a file from nothing and a file that ends empty; below a git header or not."""
    results = []
    for there, (hunk, git, word) in product(THERE, WAYS):
        paths = {"old": old.partition("/")[2] or old, "new": new.partition("/")[2] or new}
        files = {paths.get(name, name): Blob(FILE, b"x\n") for name in there if paths.get(name, name) != "null"}
        if any(f"{a}/" in b for a, b in product(files, files)):
            continue
        header = f"diff --git {old} {new}\nindex 1111111..2222222 100644\n" if git else "text\n"
        patch = f"{header}--- {old}\n+++ {new}\n".encode() + hunk
        results.append(agree(tmp_path / "d", {**files, "z": Blob(FILE, b"z\n")}, patch, word))
    assert any(results) and not all(results), "some apply, some do not"


@pytest.mark.parametrize(("old", "new"), [("f", "g"), ("ff", "g"), ("d/f", "g"), ("g", "ff")])
def test_renames_and_copies_read_the_same_file(tmp_path: Path, old: str, new: str) -> None:
    for there, word, hunk in product([(), (old,), (new,), (old, new)], ("rename", "copy"), (b"", HUNKS[0])):
        files = {name: Blob(FILE, b"x\n") for name in there}
        sides = f"--- a/{old}\n+++ b/{new}\n".encode() if hunk else b""
        patch = f"diff --git a/{old} b/{new}\nsimilarity index 50%\n{word} from {old}\n{word} to {new}\n".encode()
        agree(tmp_path / "d", files, patch + sides + hunk)


CHANGE = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
GIT = b"diff --git a/n b/n\n"
DIFFERS = b"Binary files a/n and b/n differ\n"


@pytest.mark.parametrize(
    "patch",
    [
        b"  --- a/f\n  +++ b/f\n  @@ -1 +1,2 @@\n   x\n  +y\n",
        b"XX--- a/f\nX\t+++ b/f\nXX@@ -1 +1,2 @@\nXX x\n\t+y\n",
        b"\t--- a/f\n\t+++ b/f\n\t@@ -1 +1,2 @@\n\t x\n        +y\n",
        b" --- a/f\n +++ b/f\n @@ -1 +1 @@\n -x\n +y\n " + CHANGE.replace(b"\n", b"\n ").replace(b"f", b"n"),
        b"  --- a/f\n  +++ b/f\n  @@ -1 +1 @@\n  -x\n  +y\n  \\ No newline at end of file\n",
        b"  --- a/f\n  +++ b/f\n  @@ -1 +1 @@\n  -x\n  +y\n\\ No newline at end of file\n",
        b"  diff --git a/f b/f\n  old mode 100644\n  new mode 100755\n",
        b"--- a/f\n+++ b/f\n  @@ -1 +1 @@\n  -x\n  +y\n",
        b"  --- a/f\n  +++ b/f\n@@ -1 +1 @@\n-x\n+y\n",
        CHANGE + b"\\ No newline",
        CHANGE.replace(b"+y", b"# why\n+y"),
        b"# --- a/q\n" + CHANGE + b"#end\n" + CHANGE.replace(b"f", b"n"),
        CHANGE.replace(b"1 +1", b"1,3 +1,3"),
        CHANGE.replace(b"1 +1", b"1,4 +1,4"),
        CHANGE.replace(b"1 +1", b"1,5 +1,5"),
        CHANGE.replace(b"1 +1", b"1,2 +1,5"),
        CHANGE.replace(b"1 +1", b"1,4 +1,4") + b" \n",
        CHANGE.replace(b"1 +1", b"1,4 +1,4") + b"=\n\n\t\n",
        CHANGE[:-1],
        CHANGE.replace(b"+1 @@", b"+1 @"),
        CHANGE.replace(b" +1 @@", b"+1@@ int f()"),
        CHANGE.replace(b"+1 @@", b"1 @@"),
        CHANGE + b"@@ wrong\n",
        CHANGE + b"@@ -9 +9 wrong\n-x\n+y\n",
        CHANGE + b"\n@@ -9 +9 @@\n-1\n+1\n",
        CHANGE.replace(b"+y", b"+y\n+z"),
        CHANGE.replace(b"+y", b"-z"),
        CHANGE.replace(b"+y", b"!y"),
        CHANGE.replace(b"1 +1", b"1,1 +1,2").replace(b"-x", b" x\n\\ No newline at end of file"),
        CHANGE.replace(b"1 @@", b"1,2 @@").replace(b"+y", b"+y\n\\ No newline at end of file\n+z"),
        CHANGE.replace(b"1 +1", b"1,4 +1,3").replace(b"-x\n+y\n", b" x\n \n \n\\ No newline at end of file\n-\n"),
        b"Index: f\n===\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/f\n===\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/f \n===\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/f\r\n===\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/sp ace\n===\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/f\n===\n--- f\n+++ f\n@@ -1 +1 @@\n-x\n+y\n",
        b"Index: a/n\n===\n--- a/f\n+++ f\n@@ -1 +1 @@\n-x\n+y\n",
        b"+++ a/f\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- a/f\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- a/n\ntext\n+++ a/f\ntext\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- words\n--- a/f\n+++ b/f\n" + CHANGE[16:],
        b"text\n@@ -1 +1 @@\n-q\n+r\n" + CHANGE,
        b"*** a/f\n--- b/f\n" + CHANGE,
        b'--- "a/\\146"\n+++ "b/f"\t2020-01-01\n' + CHANGE[16:],
        b'--- "a/f\n+++ b/f\n' + CHANGE[16:],
        b"--- a/f \t2020-01-01\n+++ b/f \t2020-01-01\n" + CHANGE[16:],
        b"--- a/sp ace\t2020-01-01\n+++ b/sp ace\t\n" + CHANGE[16:],
        b"--- a/sp ace\n+++ b/sp ace\n" + CHANGE[16:],
        b"--- a/sp ace\t\n+++ b/sp ace\t\r\n" + CHANGE[16:],
        b"--- /dev/null\n+++ b/n ew\t\n@@ -0,0 +1 @@\n+x\n",
        b"--- a/./f\n+++ b/./f\n" + CHANGE[16:],
        b"--- a/../f\n+++ b/f\n" + CHANGE[16:],
        b"--- a/../f\n+++ b/../f\n" + CHANGE[16:],
        b"--- a/f/\n+++ b/f\n" + CHANGE[16:],
        b"--- /dev/null\n+++ /dev/null\n" + CHANGE[16:],
        b'diff --git "a/f" "b/f"\nold mode 100644\nnew mode 100755\n',
        b"diff --git a/sp ace b/sp ace\nold mode 100644\nnew mode 100755\n",
        b"diff --git a/f\nold mode 100644\nnew mode 100755\n",
        b"diff --git a/f b/f\nold mode 100644\nnew mode 10075\n",
        b"diff --git a/f b/f\r\nold mode 100644\r\nnew mode 100755\r\n",
        b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\ntext\n" + GIT + b"old mode 100644\nnew mode 100755\n",
        b"diff --git a/f b/f\nold mode 100644\nnew mode 120000\n",
        b"diff --git a/f b/f\nindex 1..2 120000\n" + CHANGE,
        b"diff --git a/ln b/ln\nindex 1..2 120000\n--- a/ln\n+++ b/ln\n@@ -1 +1 @@\n-f\n\\ No newline at end of file\n+n\n\\ No newline at end of file\n",
        b"--- a/ln\n+++ b/ln\n@@ -1 +1 @@\n-x\n+y\n",
        b"diff --git a/f b/f\nindex damaged\n",
        b"diff --git a/f b/f\n" + GIT + b"old mode 100644\nnew mode 100755\n",
        b"old mode 100644\nnew mode 100755\n" + CHANGE,
        GIT + b"index 1234567..7654321 100644\n" + DIFFERS,
        GIT + DIFFERS + CHANGE,
        GIT + b"index 1234567..7654321 100644\n" + DIFFERS + CHANGE,
        GIT.replace(b"n", b"new") + b"new file mode 100755\nindex 0000000..7654321\n" + DIFFERS + b"diff --git a/f b/f\n" + CHANGE,
        GIT.replace(b"n", b"new") + b"index 1234567..7654321\n" + DIFFERS,
        GIT.replace(b"n", b"new") + b"index 0000000..7654321\n" + DIFFERS,
        GIT + b"new file mode 100755\nindex 0000000..7654321\n" + DIFFERS,
        GIT + b"deleted file mode 100644\nindex 7654321..0000000\n" + DIFFERS,
        GIT.replace(b"n", b"empty") + b"deleted file mode 100644\nindex e69de29..0000000\n" + DIFFERS,
        GIT.replace(b"n", b"gone") + b"deleted file mode 100644\nindex 7654321..0000000\n",
        GIT + b"index 1234567..7654321 100644\nGIT binary patch\nliteral 3\nKc$`aQNCE%>hycU@\n\nliteral 3\nKc$`aQNCE%>hycU@\n\n" + CHANGE,
        DIFFERS + CHANGE,
        DIFFERS,
        b"GIT binary patch\n" + CHANGE,
        GIT + b"deleted file mode 100644\n--- a/n\n+++ b/n\n@@ -1 +0,0 @@\n-x\n",
        GIT.replace(b"n", b"new") + b"new file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n" + GIT.replace(b"n", b"new") + b"index 1..2\n--- a/new\n+++ b/new\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n--- a/new.orig\n+++ b/new\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- a/f\n+++ b/n.c\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n--- a/f\n+++ b/n.c\n@@ -0,0 +1 @@\n+y\n",
        b"--- /dev/null\n+++ b/f\n@@ -1,0 +2 @@\n+y\n",
        b"--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-x\n+y\n",
    ],
)  # fmt: skip
def test_what_a_patch_may_say(tmp_path: Path, patch: bytes) -> None:
    files = {name: Blob(FILE, b"x\n") for name in ("f", "n", "sp ace")}
    blank = {**files, "f": Blob(FILE, b"x\n\n\n\n\n")}
    for tree, word in ((files, "-p1"), (files, "-p0"), (files, "-R"), (blank, "-p1")):
        agree(tmp_path / "d", {**tree, "empty": Blob(FILE, b""), "ln": Blob(LINK, b"f")}, patch, word)


TIMES = [
    "1970-01-01 00:00:00.000000000 +0000",
    "1970-01-01 05:30:00.0 +0530",
    "1969-12-31 19:00:00 -0500",
    "1970-01-01 01:00:00 +0000",
    "1970-01-01 00:00:00",
    "1970-01-01 00:00",
    "1970-01-02 00:00:00 +0000",
    "1970-01-02 01:59:59 +0000",
    "1970-01-02 02:00:00 +0000",
    "1969-12-31 00:00:00 +0059",
    "1969-12-31 00:00:00 +0100",
    "1970-01-01T00:00:00Z",
    "1 Jan 1970 00:00:00 -0000",
    "Thu Jan  1 00:00:00 1970",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Fri Jan  2 03:00:00 1970",
    "1 Jan 1971 00:00:00 -0000",
    "(nonexistent)",
    "(revision 1970)",
    "2024-05-06 00:00:00 +0000",
]


@pytest.mark.parametrize("time", TIMES)
def test_a_time_says_whether_there_is_a_file(tmp_path: Path, time: str) -> None:
    empties = f"--- a/f\t2020-01-01 00:00:00\n+++ b/f\t{time}\n@@ -1 +0,0 @@\n-x\n".encode()
    fills = f"--- a/f\t{time}\n+++ b/f\t2020-01-01 00:00:00\n@@ -0,0 +1 @@\n+x\n".encode()
    for patch, word in product((empties, fills), ("-p1", "-R")):
        agree(tmp_path / "d", {"f": Blob(FILE, b"x\n"), "z": Blob(FILE, b"")}, patch, word)


OVERLAPPING = [
    b"@@ -2,3 +2,4 @@\n a\n+x\n c\n d\n" * 2,
    b"@@ -1,3 +1,4 @@\n b\n+x\n a\n c\n" * 2,
    b"@@ -9,1 +9,2 @@\n i\n+x\n" * 2,
    b"@@ -4 +4,2 @@\n+x\n d\n@@ -2,3 +3,4 @@\n a\n c\n d\n+y\n",
    b"@@ -2,3 +2,3 @@\n a\n-c\n+x\n d\n@@ -3,2 +3,3 @@\n c\n+y\n d\n",
    b"@@ -3,3 +3,3 @@\n c\n-d\n+x\n e\n@@ -4,3 +4,3 @@\n d\n-e\n+y\n f\n",
    b"@@ -4 +2,2 @@\n+x\n a\n@@ -2 +3,2 @@\n+y\n a\n",
]


@pytest.mark.parametrize("hunks", OVERLAPPING)
@pytest.mark.parametrize("text", [b"b\na\nc\nd\ne\nf\ng\nh\ni\n", b"b\na\na\nc\nd\na\nc\nd\ni\n", b"b\nb\na\nc\nd\n"])
def test_hunks_that_overlap_go_where_gnu_patch_puts_them(tmp_path: Path, hunks: bytes, text: bytes) -> None:
    agree(tmp_path / "d", {"f": Blob(FILE, text)}, b"--- a/f\n+++ b/f\n" + hunks)


def test_an_empty_line_without_a_newline_is_refused(tmp_path: Path) -> None:
    patch = b"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n x\n+\n\\ No newline at end of file\n"
    assert agree(tmp_path / "d", {"f": Blob(FILE, b"x\n")}, patch) is None


@pytest.mark.parametrize("text", [b"x\n", b"y\n", b"z\n"])
@pytest.mark.parametrize("last", [b"x", b"z"])
def test_several_diffs_of_a_file_are_reverted_in_their_own_order(tmp_path: Path, text: bytes, last: bytes) -> None:
    diffs = b"".join(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-%b\n+%b\n" % both for both in ((b"x", b"y"), (b"y", last)))
    agree(tmp_path / "d", {"f": Blob(FILE, text)}, diffs, "-R")
