"""Reading git's diffs: what each header and hunk means, and the line and words for what is not taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kz_build.core.errors import ConfigError
from kz_build.core.rules import unsafe_path
from kz_build.patch.change import FileChange, Hunk, split_lines
from kz_build.patch.diff import DiffReader
from kz_build.patch.gnu_diff import GnuReader

HUNK = b"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
GOOD = b"diff --git a/f b/f\nindex 1111111..2222222 100644\n--- a/f\n+++ b/f\n" + HUNK
"""Nine lines, so that a fault after them has a line of its own."""
NO_END = b"\\ No newline at end of file\n"


def read(data: bytes) -> tuple[FileChange, ...]:
    return DiffReader("0001-x.patch", split_lines(data)).files()


def read_gnu(data: bytes, strip: int = 1) -> tuple[FileChange, ...]:
    return GnuReader("0001-x.patch", split_lines(data), strip=strip).files()


def fault(work: Callable[[], object]) -> tuple[int, str]:
    """Line and text of the one fault that is found."""
    with pytest.raises(ConfigError) as caught:
        work()
    (problem,) = caught.value.problems
    assert problem.file == "0001-x.patch"
    return problem.line, problem.text


def hunk(line: int, at: int = 1) -> Hunk:
    """HUNK, read at a line of the patch file."""
    return Hunk(at, at, (b"a\n", b"b\n", b"c\n"), (b"a\n", b"B\n", b"c\n"), 1, 1, line)


def one(change: bytes, *headers: bytes, path: bytes = b"a/f b/f") -> bytes:
    return b"diff --git " + path + b"\n" + b"".join(h + b"\n" for h in headers) + change


NAMES = (b"--- a/f", b"+++ b/f")


def test_text_around_the_diffs_is_passed_over_before_them_and_ends_them_after() -> None:
    stat = b" f | 2 +-\n 1 file changed\n\n"
    first = FileChange("f", (hunk(8),), old_mode="100644", line=4)
    assert read(stat + GOOD) == (first,)
    assert read(stat + GOOD + b"\n\n" + GOOD) == (first, FileChange("f", (hunk(19),), old_mode="100644", line=15))
    for signature in (b"-- \n2.43.0\n\n", b"--\n2.43.0\n", b"-- "):
        assert read(stat + GOOD + signature) == (first,)
    assert read(b"nothing\n") == ()
    mode = one(b"", b"old mode 100644", b"new mode 100755")
    assert [c.line for c in read(mode + b"\n" + mode)] == [1, 5]


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (GOOD + b"more text\n", 10, "is not part of a diff"),
        (GOOD + b"-- 2\n", 10, "is not part of a diff"),
        (GOOD + b"-- \n2.43.0\n" + GOOD, 12, "there is a diff after the mail's end"),
        (GOOD + b"-- \n2.43.0\n\n--- a/f\n", 13, "there is a diff after the mail's end"),
        (GOOD + b"--\n@@ -1 +1 @@\n", 11, "there is a diff after the mail's end"),
        (b"text\n" + HUNK, 2, "a hunk without a file"),
    ],
)
def test_what_follows_a_diff_must_be_one_or_the_end(data: bytes, line: int, text: str) -> None:
    assert fault(lambda: read(data)) == (line, text)


def test_a_fault_names_the_file_and_how_patches_are_made() -> None:
    with pytest.raises(ConfigError) as caught:
        read(HUNK)
    assert str(caught.value) == "a patch cannot be read\n  0001-x.patch:1: a hunk without a file"
    assert caught.value.hint == "make patch files with `git format-patch --full-index --binary`"
    with pytest.raises(ConfigError) as caught:
        read_gnu(b"--- f\n" + HUNK)
    assert caught.value.hint == ""


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (one(HUNK, b"index 1..2 100755", *NAMES), FileChange("f", (hunk(5),), old_mode="100755")),
        (one(HUNK, b"index 1..2", *NAMES), FileChange("f", (hunk(5),))),
        (one(b"", b"old mode 100644", b"new mode 100755"), FileChange("f", (), "100755", old_mode="100644")),
        (
            one(HUNK, b"old mode 100755", b"new mode 100644", b"index 1..2", *NAMES),
            FileChange("f", (hunk(7),), "100644", old_mode="100755"),
        ),
        (
            one(b"@@ -0,0 +1 @@\n+x\n", b"new file mode 100755", b"index 0..1", b"--- /dev/null", b"+++ b/f"),
            FileChange("f", (Hunk(0, 1, (), (b"x\n",), 0, 0, 6),), "100755", creates=True),
        ),
        (one(b"", b"new file mode 100644", b"index 0..1"), FileChange("f", (), "100644", creates=True)),
        (one(b"", b"deleted file mode 100644", b"index 1..0"), FileChange("f", (), deletes=True, old_mode="100644")),
        (
            one(b"@@ -1 +0,0 @@\n-x\n", b"deleted file mode 100755", b"index 1..0", b"--- a/f\t", b"+++ /dev/null\t"),
            FileChange("f", (Hunk(1, 0, (b"x\n",), (), 0, 0, 6),), deletes=True, old_mode="100755"),
        ),
        (
            one(b"", b"similarity index 100%", b"rename from d/f", b"rename to g", path=b"a/d/f b/g"),
            FileChange("g", (), source="d/f"),
        ),
        (
            one(HUNK, b"dissimilarity index 9%", b"copy from f", b"copy to g", b"index 1..2 100644", b"--- a/f",
                b"+++ b/g", path=b"a/f b/g"),
            FileChange("g", (hunk(8),), source="f", copies=True, old_mode="100644"),
        ),
        (
            one(HUNK, b"--- a/sp ace\t", b"+++ b/sp ace\t", path=b"a/sp ace b/sp ace"),
            FileChange("sp ace", (hunk(4),)),
        ),
        (
            one(b"", b"old mode 100644", b"new mode 100755", path=b"a/sp ace b/sp ace"),
            FileChange("sp ace", (), "100755", old_mode="100644"),
        ),
        (
            one(HUNK, rb'--- "a/t\tab\303\274\""', rb'+++ "b/t\tab\303\274\""',
                path=rb'"a/t\tab\303\274\"" "b/t\tab\303\274\""'),
            FileChange('t\tab\u00fc"', (hunk(4),)),
        ),
        (one(HUNK, b"--- a/dX", b"+++ b/dX", path=b"a/dX b/dX"), FileChange("dX", (hunk(4),))),
        (one(HUNK, b"--- a/f \t", b"+++ b/f \t", path=b"a/f  b/f "), FileChange("f ", (hunk(4),))),
        (one(HUNK, b"--- a/\xff", b"+++ b/\xff", path=b"a/\xff b/\xff"), FileChange("\udcff", (hunk(4),))),
        (one(HUNK, b"--- a/a/f", b"+++ b/a/f", path=b"a/a/f b/a/f"), FileChange("a/f", (hunk(4),))),
    ],
)  # fmt: skip
def test_each_header_says_what_becomes_of_the_file(data: bytes, change: FileChange) -> None:
    assert read(data) == (FileChange(**{**change.__dict__, "line": 1}),)


@pytest.mark.parametrize(
    ("raw", "mode"),
    [
        (b"100644", "100644"),
        (b"100755", "100755"),
        (b"100664", "100644"),
        (b"100700", "100755"),
        (b"100611", "100644"),
        (b"120000", "120000"),
        (b"120755", "120000"),
    ],
)
def test_modes_are_gits_two_and_the_link(raw: bytes, mode: str) -> None:
    (change,) = read(one(b"", b"new file mode " + raw, b"index 0..1"))
    assert change.mode == mode


@pytest.mark.parametrize(
    ("body", "before", "after", "leading", "trailing"),
    [
        (b"@@ -1,2 +1,2 @@ def f():\n-a\n+b\n c\n", (b"a\n", b"c\n"), (b"b\n", b"c\n"), 0, 1),
        (b"@@ -1,3 +1,2 @@\n a\n\n-b\n", (b"a\n", b"\n", b"b\n"), (b"a\n", b"\n"), 2, 0),
        (b"@@ -1 +1 @@\n-a\n" + NO_END + b"+b\n", (b"a",), (b"b\n",), 0, 0),
        (b"@@ -1 +1 @@\n-a\n+b\n" + NO_END, (b"a\n",), (b"b",), 0, 0),
        (b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n" + NO_END, (b"a\n", b"c"), (b"b\n", b"c"), 0, 1),
        (b"@@ -1 +1 @@\n-a\n\\ Kein Zeilenumbruch am Dateiende.\n+b\n", (b"a",), (b"b\n",), 0, 0),
        (b"@@ -1 +1 @@\n-a \n" + NO_END + b"+aX\n" + NO_END, (b"a ",), (b"aX",), 0, 0),
        (b"@@ -1 +1 @@\n-a\n\\ 345678901\n+b\n", (b"a",), (b"b\n",), 0, 0),
        (b"@@ -1,2 +1,2 @@\n--- a\n+++ b\n c\r\n", (b"-- a\n", b"c\r\n"), (b"++ b\n", b"c\r\n"), 0, 1),
        (b"@@ -1 +1,2 @@\n a\n+  \n", (b"a\n",), (b"a\n", b"  \n"), 1, 0),
    ],
)
def test_the_lines_of_a_hunk(
    body: bytes, before: tuple[bytes, ...], after: tuple[bytes, ...], leading: int, trailing: int
) -> None:
    (change,) = read(one(body, *NAMES))
    section = b"def f():" if b"def f():" in body else b""
    assert change.hunks == (Hunk(1, 1, before, after, leading, trailing, 4, section),)


def test_each_hunk_has_its_place_and_its_line() -> None:
    (change,) = read(one(HUNK + b"@@ -20,3 +20,3 @@\n" + HUNK.split(b"\n", 1)[1], *NAMES))
    assert change.hunks == (hunk(4), hunk(9, at=20))
    (change,) = read(one(b"@@ -7,0 +8,1 @@\n+a\n", *NAMES))
    assert change.hunks == (Hunk(7, 8, (), (b"a\n",), 0, 0, 4),)


SHORT = "the hunk ends before the lines its header counts"


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n", 17, SHORT),
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\nx\n", 17, SHORT),
        (b"@@ -1,3 +1,3 @@\n a\n-b\n+c\n a", 17, SHORT),
        (b"@@ -1,2 +1,2 @@\n-a\n\\ 34567890\n+b\n c\n", 15, SHORT),
        (b"@@ -1 +1,2 @@\n-a\n a\n+b\n", 13, "the hunk has more lines than its header counts"),
        (b"@@ -1,2 +1 @@\n+a\n a\n-b\n", 13, "the hunk has more lines than its header counts"),
        (b"@@ -1,2 +1,2 @@\n a\n b\n", 13, "the hunk changes nothing"),
        (
            b"@@ -1,2 +1 @@\n-a\n\n\\ No newline at end of file\n",
            16,
            "an empty line that ends in no newline is no line",
        ),
        (b"@@ -0,0 +0,0 @@\n", 13, "the hunk changes nothing"),
        (b"@@ one +1 @@\n-a\n+b\n", 13, "is not a hunk header"),
        (b"@@ -1," + b"9" * 5000 + b" +1 @@\n-a\n+b\n", 13, "is not a hunk header"),
        (HUNK + b"@@ -9 @@\n", 18, "is not a hunk header"),
    ],
)
def test_a_hunk_must_be_what_its_header_counts(body: bytes, line: int, text: str) -> None:
    assert fault(lambda: read(GOOD + one(body, *NAMES))) == (line, text)


ADDS = b"@@ -0,0 +1 @@\n+x\n"
PREFIXES = "paths must have git's a/ and b/ prefixes"
CONTRADICTION = "its header contradicts itself"
OTHER_PATHS = "its first line names other paths"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (one(b"", b"old mode 100644"), "its header has only one of 'old mode' and 'new mode'"),
        (one(b"", b"new mode 100644"), "its header has only one of 'old mode' and 'new mode'"),
        (one(b"", b"rename from f", path=b"a/f b/g"), "the path '' is not a relative path"),
        (
            one(b"", b"rename from f", b"copy to g", path=b"a/f b/g"),
            "its header has only one of 'rename from' and 'rename to'",
        ),
        (
            one(b"", b"rename from f", b"rename to g", b"copy to g", path=b"a/f b/g"),
            "its header has only one of 'copy from' and 'copy to'",
        ),
        (one(HUNK, b"--- a/f"), "its header has only one of '---' and '+++'"),
        (one(b"", b"new file mode 100644", b"deleted file mode 100644"), CONTRADICTION),
        (one(b"", b"new file mode 100644", b"rename from f", b"rename to g", path=b"a/f b/g"), CONTRADICTION),
        (one(b"", b"rename from f", b"rename to g", b"copy from f", b"copy to g", path=b"a/f b/g"), CONTRADICTION),
        (one(HUNK, b"new file mode 100644", *NAMES), CONTRADICTION),
        (one(HUNK, b"--- /dev/null", b"+++ b/f"), CONTRADICTION),
        (one(HUNK, b"deleted file mode 100644", *NAMES), CONTRADICTION),
        (one(HUNK, *NAMES, path=b"a/g b/g"), OTHER_PATHS),
        (one(HUNK, *NAMES, path=b"a/f b/g"), OTHER_PATHS),
        (one(HUNK, *NAMES, path=b"a/f a/f"), OTHER_PATHS),
        (one(HUNK, b"--- a/f\tx", b"+++ b/f\tx"), OTHER_PATHS),
        (one(HUNK, b"--- a/f\r", b"+++ b/f\r", path=b"a/f b/f\r"), OTHER_PATHS),
        (one(HUNK), "its hunks have no header with --- and +++"),
        (one(b""), "it changes nothing"),
        (one(b"", *NAMES), "it changes nothing"),
        (
            one(HUNK, b"--- a/f", b"+++ b/g", path=b"a/f b/g"),
            "it names 'f' and 'g', but is not a rename of one to the other",
        ),
        (
            one(HUNK, b"rename from f", b"rename to g", *NAMES, path=b"a/f b/g"),
            "it names 'f' and 'f', but is not a rename of one to the other",
        ),
        (one(HUNK, b"index x..y", *NAMES), "its index line is damaged"),
        (one(HUNK, b"index 1..2 644", *NAMES), "its index line is damaged"),
        (
            one(b"", b"new file mode 160000", b"index 0..1"),
            "it changes a submodule, which has a source and a stack of its own (`submodule:`)",
        ),
        (
            one(HUNK, b"index 1..2 160000", *NAMES),
            "it changes a submodule, which has a source and a stack of its own (`submodule:`)",
        ),
        (one(b"", b"old mode 40000", b"new mode 100644"), "mode 40000 is not supported"),
        (one(b"", b"new file mode 1\xff", b"index 0..1"), "mode 1\ufffd is not supported"),
        (one(b"", b"new file mode 100644 ", b"index 0..1"), "mode 100644  is not supported"),
        (one(HUNK, b'--- "a/f', b"+++ b/f"), "the quoting of a path is damaged"),
        (one(HUNK, b"--- a/f", b'+++ "b/f\\x"'), "the quoting of a path is damaged"),
        (one(HUNK, b"--- f", b"+++ f"), PREFIXES),
        (one(HUNK, *NAMES, path=b"x/f x/f"), PREFIXES),
        (one(b"", b"old mode 100644", b"new mode 100755", path=b"x/f x/f"), PREFIXES),
        (one(ADDS, b"new file mode 100644", b"--- /dev/null ", b"+++ b/f"), PREFIXES),
        (one(ADDS, b"new file mode 100644", b"--- /dev/nullX", b"+++ b/f"), PREFIXES),
        (one(b"", b"rename to g", path=b"a/f b/g"), "the path '' is not a relative path"),
        (
            one(ADDS, b"rename from f", b"rename to g", b"--- /dev/null", b"+++ b/f", path=b"a/f b/g"),
            "it names 'f' and 'f', but is not a rename of one to the other",
        ),
        (one(HUNK, b"--- a/../f", b"+++ b/../f"), "the path '../f' climbs out of its folder"),
        (one(b"", b"rename from .git/f", b"rename to g"), "the path '.git/f' reaches into .git"),
    ],
)
def test_a_header_that_git_did_not_write(data: bytes, text: str) -> None:
    assert fault(lambda: read(GOOD + data)) == (10, text)


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (one(HUNK, *NAMES, b"--- a/f"), 13, "appears twice"),
        (one(b"", b"index 1..2", b"index 1..2", b"old mode 100644"), 12, "appears twice"),
        (one(b"", b"old mode 100644", b"new mode 100755")[:-1], 12, "is cut off"),
    ],
)
def test_a_header_line_that_is_too_much_or_half(data: bytes, line: int, text: str) -> None:
    assert fault(lambda: read(GOOD + data)) == (line, text)


def test_a_header_line_that_is_none_of_gits_ends_the_header() -> None:
    assert fault(lambda: read(one(b"", b"old mode 100644", b"new mode 100755", b"bogus 1"))) == (
        4,
        "is not part of a diff",
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a/b", ""),
        (".gitignore", ""),
        ("a/.github/x", ""),
        ("..a/b..", ""),
        ("", "is not a relative path"),
        ("/etc/x", "is not a relative path"),
        ("a\\b", "has a backslash or a NUL"),
        ("a\0b", "has a backslash or a NUL"),
        ("..", "climbs out of its folder"),
        ("a/../b", "climbs out of its folder"),
        ("./a", "climbs out of its folder"),
        ("a//b", "climbs out of its folder"),
        ("a/", "climbs out of its folder"),
        (".git", "reaches into .git"),
        ("a/.GIT/config", "reaches into .git"),
        (".git. ./config", "reaches into .git"),
        ("a/GIT~1", "reaches into .git"),
        (".git::$INDEX_ALLOCATION/config", "reaches into .git"),
        ("a/.Git:x", "reaches into .git"),
        (".g\u200cit\ufeff/config", "reaches into .git"),
        ("\u200c.gitignore", ""),
    ],
)
def test_paths_that_must_not_be_written(path: str, reason: str) -> None:
    assert unsafe_path(path) == reason
