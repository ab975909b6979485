"""The quilt stacks of others: series files, plain diffs and headers of every kind, as quilt and GNU patch read them."""

from __future__ import annotations

import pytest

from kz_build.core.errors import ConfigError
from kz_build.patch.change import FileChange, Hunk, Patch
from kz_build.patch.quilt import NO_DATE, NOBODY, SeriesEntry, parse_foreign, read_series
from tests.patch.test_diff import GOOD, HUNK, fault, hunk, one, read

PLAIN = b"--- a/f\n+++ b/f\n" + HUNK


def parse(data: bytes, strip: int = 1, *, reverse: bool = False, name: str = "fix-it.patch") -> Patch:
    return parse_foreign(SeriesEntry(name, strip, reverse), "0001-x.patch", data)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", ()),
        ("# a comment\n\n  \t\na.patch\n", (SeriesEntry("a.patch"),)),
        ("a.patch # why\nb#1.patch\t#x\n", (SeriesEntry("a.patch"), SeriesEntry("b#1.patch"))),
        ("a.patch -p0\nb.patch -p 2\nc.patch -R\n", (SeriesEntry("a.patch", 0), SeriesEntry("b.patch", 2), SeriesEntry("c.patch", 1, True))),
        ("a.patch -p1 -R\nb.patch -R -p10 -p3\n", (SeriesEntry("a.patch", 1, True), SeriesEntry("b.patch", 3, True))),
        ("  sub/a..b.patch", (SeriesEntry("sub/a..b.patch"),)),
        ("-R\n", (SeriesEntry("-R"),)),
    ],
)  # fmt: skip
def test_a_series(text: str, entries: tuple[SeriesEntry, ...]) -> None:
    assert read_series(text, "series") == entries


def test_all_that_is_wrong_in_a_series_is_named_at_once() -> None:
    text = "a.patch -F3\n# x\na.patch\n/etc/b\nc/../../d\ne.patch -p1x -Rx --verbose\nf.patch -p1 -R\n"
    with pytest.raises(ConfigError) as caught:
        read_series(text, "debian/series")
    assert str(caught.value) == "\n".join(
        [
            "debian/series is wrong:",
            "  debian/series:1: a.patch: the option -F3 is not supported, only -pN and -R",
            "  debian/series:3: a.patch: appears twice",
            "  debian/series:4: /etc/b: leads out of the folder",
            "  debian/series:5: c/../../d: leads out of the folder",
            "  debian/series:6: e.patch: the option -p1x -Rx --verbose is not supported, only -pN and -R",
        ]
    )


def test_a_patch_without_any_header() -> None:
    assert parse(PLAIN) == Patch(
        "fix-it.patch", NOBODY, NO_DATE, "fix-it\n", (FileChange("f", (hunk(3),), line=1),), True
    )
    assert (NOBODY, NO_DATE) == ("unknown <unknown>", "Thu, 01 Jan 1970 00:00:00 +0000")
    assert parse(b"").files == ()


def test_a_patch_that_is_taken_back() -> None:
    assert parse(PLAIN, reverse=True) == parse(PLAIN).reverse() != parse(PLAIN)


def test_text_between_the_diffs_is_passed_over() -> None:
    data = b"Index: f\n=====\n" + PLAIN + b"diff -u a/g b/g\nOnly in a: x\n" + PLAIN.replace(b"/f", b"/g") + b"end\n"
    assert parse(data).files == (FileChange("f", (hunk(5),), line=3), FileChange("g", (hunk(14),), line=12))


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (b"text\n", 1, "there is no diff in it"),
        (b"text\n" + HUNK, 2, "a hunk without a file"),
        (
            PLAIN + b"\n*** a/f\n--- b/f\n",
            9,
            "context diffs are not supported: `quilt refresh -u` makes it a unified one",
        ),
        (b"\n--- a/f\n+++ b/f\ntext\n", 2, "there are no hunks in it"),
        (b"\n--- /dev/null\n+++ /dev/null\n" + HUNK, 2, "it names no file"),
        (b"\n--- f\n+++ f\n" + HUNK, 2, "the path 'f' has fewer than 1 folders"),
        (b"\n--- \xff\n+++ \xff\n" + HUNK, 2, "the path '\ufffd' has fewer than 1 folders"),
        (b"\n--- a/../f\n+++ b/../f\n" + HUNK, 2, "the path '../f' climbs out of its folder"),
        (b"\n" + PLAIN[:-4], 7, "the hunk ends before the lines its header counts"),
    ],
)
def test_what_gnu_patch_would_not_take_either(data: bytes, line: int, text: str) -> None:
    assert fault(lambda: parse(data)) == (line, text)


@pytest.mark.parametrize(
    "data", [b"*** a/f\ntext\n", b"--- a/f\ntext\n", b"text\n+++ b/f\n", b"text\n--- a/f", b"text\n*** a/f"]
)
def test_lines_that_only_look_like_a_diff(data: bytes) -> None:
    assert fault(lambda: parse(data)) == (1, "there is no diff in it")
    assert len(parse(PLAIN + data).files) == 1


@pytest.mark.parametrize(
    ("old", "new", "strip", "path"),
    [
        (b"a/f", b"b/f", 1, "f"),
        (b"f", b"f", 0, "f"),
        (b"x-1.0.orig/d/f", b"x-1.0/d/f", 1, "d/f"),
        (b"x/y/d/f", b"x/y/d/f", 3, "f"),
        (b"a//d//f", b"b//d//f", 2, "f"),
        # of two names that with the fewest folders, the shortest file name, the fewest letters, the first
        (b"a/d/f", b"b/f", 1, "f"),
        (b"a/f.orig", b"b/f", 1, "f"),
        (b"a/f", b"b/f.new", 1, "f"),
        (b"a/ddd/f", b"b/d/f", 1, "d/f"),
        (b"a/f", b"b/g", 1, "f"),
        (b"a/d/g", b"b/longer.c", 1, "longer.c"),
        (b"a/f\t2024-05-06 07:08:09", b"b/f\t2024-05-06 07:08:09", 1, "f"),
        (b"a/f\tx\ty", b"b/f\tx\ty", 1, "f"),
        (b"a/f \t", b"b/f \t", 1, "f "),
        (b"a/dX", b"b/dX", 1, "dX"),
        (b"a/sp ace\t2024-05-06", b"b/sp ace\t2024-05-06", 1, "sp ace"),
        (b"a/f 2024-05-06 07:08:09", b"b/f 2024-05-06 07:08:09", 1, "f"),
        (b'"a/\\303\\274"', b'"b/\\303\\274"', 1, "\u00fc"),
        (b"/dev/null\tx", b"b/f", 1, "f"),
        (b"a/f", b"/dev/null", 1, "f"),
    ],
)  # fmt: skip
def test_the_file_that_a_plain_diff_is_about(old: bytes, new: bytes, strip: int, path: str) -> None:
    (change,) = parse(b"--- " + old + b"\n+++ " + new + b"\n" + HUNK, strip).files
    assert (change.path, change.creates, change.deletes) == (path, False, False)


ADDS, DROPS = b"@@ -0,0 +1 @@\n+x\n", b"@@ -1 +0,0 @@\n-x\n"
EPOCH = [
    b"1970-01-01 00:00:00.000000000 +0000",
    b"1970-01-01 00:00:00 +0000",
    b"1970-01-01 01:00:00 +0100",
    b"1970-01-01 05:30:00.0 +0530",
    b"1970-01-01 05:30:00 +05:30",
    b"1969-12-31 19:00:00.000 -0500",
    b"1969-12-31 20:30:00 -0330",
]
LATER = [
    b"1970-01-01 01:00:00 +0000",
    b"1970-01-01 00:30:00 +0000",
    b"1970-01-01 02:00:00 -0200",
    b"1970-01-01 05:30:00 +0500",
    b"1970-01-01 00:00:01 +0000",
    b"1970-01-01 00:00:00",
    b"1970-01-02 00:00:00 +0000",
    b"2024-05-06 00:00:00 +0000",
    b"",
]


@pytest.mark.parametrize("stamp", EPOCH)
def test_a_file_from_the_epoch_is_none(stamp: bytes) -> None:
    for gap in (b"\t", b" "):
        (new,) = parse(b"--- a/f" + gap + stamp + b"\n+++ b/f\n" + ADDS).files
        (gone,) = parse(b"--- a/f\n+++ b/f" + gap + stamp + b"\n" + DROPS).files
        assert (new.creates, new.deletes, gone.creates, gone.deletes) == (True, False, False, True)


@pytest.mark.parametrize("stamp", LATER)
def test_a_file_with_any_other_time_is_there(stamp: bytes) -> None:
    (new,) = parse(b"--- a/f\t" + stamp + b"\n+++ b/f\n" + ADDS).files
    (gone,) = parse(b"--- a/f\n+++ b/f\t" + stamp + b"\n" + DROPS).files
    assert (new.creates, gone.deletes) == (False, False)


def test_dev_null_creates_and_deletes_where_the_hunk_agrees() -> None:
    (new,) = parse(b"--- /dev/null\n+++ b/f\n" + ADDS).files
    (gone,) = parse(b"--- a/f\n+++ /dev/null\n" + DROPS).files
    assert new == FileChange("f", (Hunk(0, 1, (), (b"x\n",), 0, 0, 3),), creates=True, line=1)
    assert gone == FileChange("f", (Hunk(1, 0, (b"x\n",), (), 0, 0, 3),), deletes=True, line=1)
    for hunk_of_two_sides in (HUNK, b"@@ -0,0 +1,2 @@\n+x\n+y\n@@ -1 +3 @@\n-a\n+b\n"):
        (change,) = parse(b"--- a/f\n+++ /dev/null\n" + hunk_of_two_sides).files
        assert not change.deletes
    (change,) = parse(b"--- /dev/null\n+++ b/f\n@@ -1,0 +2 @@\n+x\n").files
    assert not change.creates
    (change,) = parse(b"--- a/f\n+++ /dev/null\n@@ -2 +1,0 @@\n-x\n").files
    assert not change.deletes


def test_windows_line_ends_of_the_header_count_for_its_hunks() -> None:
    crlf = PLAIN.replace(b"\n", b"\r\n")
    assert parse(crlf).files == parse(PLAIN).files
    mixed = b"--- a/f\r\n+++ b/f\n" + HUNK.replace(b"\n", b"\r\n")
    assert parse(mixed).files[0].hunks[0].before == (b"a\r\n", b"b\r\n", b"c\r\n")
    git = b"diff --git a/f b/f\r\n--- a/f\r\n+++ b/f\r\n" + HUNK.replace(b"\n", b"\r\n")
    assert parse(git).files == (FileChange("f", (hunk(4),), line=1),)
    long = b"--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-longer\r\n+words\r\n"
    assert (parse(long).files[0].hunks[0].before, parse(long).files[0].hunks[0].after) == (
        (b"longer\n",),
        (b"words\n",),
    )
    nothing = b"diff --git a/f b/f\n" + HUNK.replace(b"\n", b"\r\n")
    assert parse(nothing).files[0].hunks[0].before == (b"a\r\n", b"b\r\n", b"c\r\n")
    bare = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + HUNK.replace(b"\n", b"\r\n")
    assert parse(bare).files[0].hunks[0].after == (b"a\r\n", b"B\r\n", b"c\r\n")


@pytest.mark.parametrize(
    ("data", "strip", "change"),
    [
        (GOOD, 1, FileChange("f", (hunk(5),), old_mode="100644", line=1)),
        (one(HUNK, b"index damaged", b"--- a/f", b"+++ b/f"), 1, FileChange("f", (hunk(5),), line=1)),
        (one(HUNK, b"--- x/a/f", b"+++ x/b/f"), 2, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- f", b"+++ f", path=b"f f"), 0, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- a/f.orig", b"+++ b/f"), 1, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- a/f\tyesterday", b"+++ b/f\ttoday"), 1, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- a/f", b"+++ b/f", b"--- a/f"), 1, FileChange("f", (hunk(5),), line=1)),
        (one(HUNK), 1, FileChange("f", (hunk(2),), line=1)),
        (one(HUNK, b"--- a/dX", b"+++ b/dX"), 1, FileChange("dX", (hunk(4),), line=1)),
        (one(b"text\n", b"rename from f", b"rename to g"), 1, FileChange("g", (), source="f", line=1)),
        (one(b"", b"rename from f", b"rename to g"), 1, FileChange("g", (), source="f", line=1)),
        (one(b"", b"rename from d/f", b"rename to d/g"), 2, FileChange("g", (), source="f", line=1)),
        (one(b"", b"rename from f", b"rename to g"), 0, FileChange("g", (), source="f", line=1)),
        (one(b"", b"new file mode 100755", b"index 0..1"), 1, FileChange("f", (), "100755", True, line=1)),
    ],
)
def test_gits_diffs_are_taken_as_gnu_patch_takes_them(data: bytes, strip: int, change: FileChange) -> None:
    assert read(data, gnu=True, strip=strip) == (change,)


def test_a_binary_change_that_git_left_out_is_passed_over() -> None:
    left_out = b"diff --git a/g b/g\nindex 1..2\nBinary files a/g and b/g differ\n"
    assert [f.path for f in parse(left_out + PLAIN).files] == ["f"]
    damaged = b"diff --git a/g b/g\nindex \xffabc\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n"
    binary = parse(damaged).files[0].binary
    assert binary and (binary.old, binary.new) == ("\ufffdabc", "")
    there = b"diff --git a/g b/g\nindex 1..2\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n"
    assert [f.path for f in parse(there + PLAIN).files] == ["g", "f"]


@pytest.mark.parametrize(
    ("header", "author"),
    [
        (b"From: A B <a@b>\n", "A B <a@b>"),
        (b"Author: A B <a@b>\n", "A B <a@b>"),
        (b"Author: C D <c@d>\nFrom: A B <a@b>\n", "A B <a@b>"),
        (b'FROM:   "A B"  <a@b>, C <c@d>\n', "A B <a@b>"),
        (b"From: A B <a@b>\n C D <c@d>\n", "A B <a@b>"),
        (b"From: <a@b>\n", "a@b <a@b>"),
        (b"From: MLX <a@b>\n", "MLX <a@b>"),
        (b"From: A B\n C D\n", "A B <unknown>"),
        (b"From: a@b\n", "a@b <a@b>"),
        (b"From: A B\n", "A B <unknown>"),
        (b"From: <A B\n", "A B <unknown>"),
        (b"From: =?utf-8?q?J=C3=B6rg?= <j@x>\n", "J\u00f6rg <j@x>"),
        (b"From:\n", "unknown <unknown>"),
        (b"", "unknown <unknown>"),
    ],
)
def test_the_author(header: bytes, author: str) -> None:
    assert parse(header + b"\n" + PLAIN).author == author


@pytest.mark.parametrize(
    ("header", "date"),
    [
        (b"Date: Mon, 6 May 2024 07:08:09 +0200\n", "Mon, 6 May 2024 07:08:09 +0200"),
        (b"Date: 2024-05-06\n", "Mon, 06 May 2024 00:00:00 +0000"),
        (b"Date: 2024-05-06 10:00\n", "Mon, 06 May 2024 00:00:00 +0000"),
        (b"Last-Update: 2024-05-06\n", "Mon, 06 May 2024 00:00:00 +0000"),
        (b"Last-Update: 2024-05-06\nDate: 2024-05-07\n", "Tue, 07 May 2024 00:00:00 +0000"),
        (b"Last-Update: 2024-13-06\n", NO_DATE),
        (b"Date: yesterday\nLast-Update: 2024-05-06\n", NO_DATE),
        (b"", NO_DATE),
    ],
)
def test_the_date(header: bytes, date: str) -> None:
    assert parse(header + b"\n" + PLAIN).date == date


DEP3 = b"""Description: Fix the fifth
 It was wrong.
 .
 Very.
Author: A <a@b>
Bug-Debian: https://bugs.debian.org/1
Forwarded: no
Last-Update: 2024-05-06

---
This header follows DEP-3
"""


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (DEP3, "Fix the fifth\n\nIt was wrong.\n\nVery.\n\nBug-Debian: https://bugs.debian.org/1\nForwarded: no\n"),
        (b"Subject: [PATCH 1/2] Fix it\n\nWhy.\n\nSigned-off-by: A <a@b>\n", "Fix it\n\nWhy.\n\nSigned-Off-By: A <a@b>\n"),
        (b"Subject: Fix it\nDescription: Better\n", "Better\n"),
        (b"Subject: Fix it\nDescription:\n", "Fix it\n"),
        (b"Subject: [PATCH]\n", "fix-it\n"),
        (b"Subject: =?utf-8?q?=C3=BC?=\n", "\u00fc\n"),
        (b"Subject: T\n\n  indented\nfor MLX\n", "T\n\n  indented\nfor MLX\n"),
        (b"Subject: T\n\nXNNPACK\n", "T\n\nXNNPACK\n"),
        (b"Description: T\n XNNPACK\n and MLX\n", "T\n\nXNNPACK\nand MLX\n"),
        (b"  indented\n  more\n", "indented\n\n  more\n"),
        (b"## free text\n## more\n", "## free text\n\n## more\n"),
        (b"\n\nfree text\n\n\nmore\n\n\n", "free text\n\nmore\n"),
        (b"From 0123 Mon Sep 17 00:00:00 2001\nfree text\n", "free text\n"),
        (b"free text\nIndex: f\n", "free text\n"),
        (b"free text\n=====\n", "free text\n"),
        (b"free text\ndiff -u a/f b/f\n", "free text\n"),
        (b"free text\n\tindented\n", "free text\n\n\tindented\n"),
        (b"Origin: x\n\n indented\n", "indented\n\nOrigin: x\n"),
        (b"Origin: x\n\ttab\n.\n", ".\n\nOrigin: x\ntab\n"),
        (b"Upstream-PR: none \xff\n", "fix-it\n\nUpstream-Pr: none \ufffd\n"),
    ],
)  # fmt: skip
def test_the_message(header: bytes, message: str) -> None:
    assert parse(header + PLAIN).message == message


@pytest.mark.parametrize(("name", "title"), [("a.b.patch", "a.b"), ("fix-it", "fix-it"), ("d/x.diff", "d/x")])
def test_a_patch_that_says_nothing_is_called_by_its_name(name: str, title: str) -> None:
    assert parse(PLAIN, name=name).message == f"{title}\n"


def test_a_quoted_name_may_have_a_time_behind_it() -> None:
    sides = b'--- "a/\\303\\274"\t2020-01-02 03:04:05\n+++ "b/\\303\\274"\t2020-01-02 03:04:05\n'
    for data in (sides + HUNK, b'diff --git "a/\\303\\274" "b/\\303\\274"\n' + sides + HUNK):
        assert [change.path for change in parse(data).files] == ["\u00fc"]


def test_nothing_may_have_more_than_a_time_behind_it() -> None:
    (change,) = parse(b"--- /dev/null\t(nonexistent)\t(revision 0)\n+++ b/f\n@@ -0,0 +1 @@\n+x\n").files
    assert change.creates and change.path == "f"
