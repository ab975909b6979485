"""The quilt stacks of others: series files, plain diffs and headers of every kind, as quilt and GNU patch read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kz_build.core.errors import ConfigError
from kz_build.patch.binary import Binary
from kz_build.patch.change import FileChange, Hunk, Patch
from kz_build.patch.quilt import NO_DATE, NOBODY, SeriesEntry, parse_foreign, read_series
from tests.patch.test_diff import GOOD, HUNK, NAMES, fault, hunk, one, read_gnu

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
        ("a\fb.patch\r\nc\u2028d\u00a0e.patch\n", (SeriesEntry("a\fb.patch"), SeriesEntry("c\u2028d\u00a0e.patch"))),
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
            "  debian/series:4: /etc/b: is not a relative path",
            "  debian/series:5: c/../../d: climbs out of its folder",
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
        (b"text\n" + HUNK, 1, "there is no diff in it"),
        (
            PLAIN + b"\n*** a/f\n--- b/f\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n",
            12,
            "a context diff is not supported: `quilt refresh -u` makes it a unified diff",
        ),
        *(
            (data, line, f"{kind} is not supported: `quilt refresh -u` makes it a unified diff")
            for data, line, kind in (
                (PLAIN + b"Index: a/g\n1c1\n< b\n---\n> B\n", 10, "a normal diff"),
                (b"Index: a/g\n1a2,3 \r\n> B\n" + PLAIN, 3, "a normal diff"),
                (PLAIN + b"Index: a/g\n1c\nB\n.\n", 11, "an ed script"),
                (b"--- a/g\n+++ b/g\n3,4d\n1a\n.\n" + PLAIN, 5, "an ed script"),
                (PLAIN + b"Index: a/g\n1,2d\n", 9, "an ed script"),
            )
        ),
        (b"\n--- a/f\n+++ b/f\ntext\n", 1, "there is no diff in it"),
        (b"\n--- /dev/null\n+++ /dev/null\n" + HUNK, 2, "it names no file"),
        (b"\n--- f\n+++ f\n" + HUNK, 2, "the path 'f' has fewer than 1 folders"),
        (b"\n--- \xff\n+++ \xff\n" + HUNK, 2, "the path '\ufffd' has fewer than 1 folders"),
        (b"\n--- a/../f\n+++ b/../f\n" + HUNK, 2, "the path 'a/../f' climbs out of its folder"),
        (b'\n--- "a/f\n' + HUNK, 2, "the path '' has fewer than 1 folders"),
        (b"\n" + PLAIN[:-4], 6, "the hunk has other lines than its header counts"),
        (b"\n" + PLAIN.replace(b"+1,3", b"+1,7"), 4, "the patch ends before the lines that its last hunk counts"),
        (b"\n" + PLAIN.replace(b"+B", b"!B"), 7, "the hunk has other lines than its header counts"),
        (b"\n" + PLAIN.replace(b"+B", b"-B"), 8, "the hunk has other lines than its header counts"),
        (PLAIN.replace(b"-b\n+B", b" b"), 3, "the hunk changes nothing"),
        (PLAIN + b"@@ -9 wrong\n", 8, "is not a hunk header"),
        (PLAIN + b"@@ -" + b"9" * 5000 + b" +1 @@\n", 8, "is not a hunk header"),
        (one(b"", b"rename from f", b"rename to g", path=b"a/f g"), 1, "the path 'g' has fewer than 1 folders"),
        (b"diff --git a/f\nold mode 100644\n", 1, "it names no file"),
        (
            b"\n" + one(b"", b"new mode 160000"),
            3,
            "it changes a submodule, which has a source and a stack of its own (`submodule:`)",
        ),
        (
            b"\n" + one(b"", b"index 1..2 160000"),
            3,
            "it changes a submodule, which has a source and a stack of its own (`submodule:`)",
        ),
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
        (b"a/f \t", b"b/f \t", 1, "f"),
        (b"a/./d/f", b"b/./d/f", 1, "d/f"),
        (b"f", b"b/f", 1, "f"),
        (b"/usr/f", b"/usr/f", 1, "usr/f"),
        (b"a/dX", b"b/dX", 1, "dX"),
        (b"a/sp ace\t", b"b/sp ace\t", 1, "sp ace"),
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
    b"1970-01-01 01:00:00 +0000",
    b"1970-01-01 00:00",
    b"1970-01-01T00:00:00Z",
    b"1970-01-02 01:59:59 +0000",
    b"1970-01-02 02:29:00 +0030",
    b"1970-01-02 00:59:59 -0100",
    b"1969-12-31 00:00:00 +0059",
    b"1 Jan 1970 00:00:00 -0000",
    b"Thu Jan  1 00:00:00 1970",
    b"Fri, 02 Jan 1970 02:30:00 +0100",
]
"""Within about a day of the epoch, for zones: as GNU patch, see test_against_gnu."""
LATER = [
    b"1970-01-02 02:00:00 +0000",
    b"1970-01-02 01:59:60 +0000",
    b"1970-01-02 01:00:00 -0100",
    b"1969-12-31 00:00:00 +0100",
    b"Fri Jan  2 03:00:00 1970",
    b"1 Jan 1971 00:00:00 -0000 1970",
    b"(revision 1970)",
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


MOVED = FileChange("g", (), source="f", line=1, names=("f", "g"))


@pytest.mark.parametrize(
    ("data", "strip", "change"),
    [
        (GOOD, 1, FileChange("f", (hunk(5),), old_mode="100644", line=1)),
        (one(HUNK, b"index damaged", b"--- a/f", b"+++ b/f"), 1, FileChange("f", (hunk(5),), line=1)),
        (one(HUNK, b"--- x/a/f", b"+++ x/b/f"), 2, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- f", b"+++ f", path=b"f f"), 0, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- a/f.orig", b"+++ b/f"), 1, FileChange("f", (hunk(4),), line=1, names=("f.orig", "f"))),
        (one(HUNK, b"--- a/f\tyesterday", b"+++ b/f\ttoday"), 1, FileChange("f", (hunk(4),), line=1)),
        (one(HUNK, b"--- a/f", b"+++ b/f", b"--- a/f"), 1, FileChange("f", (hunk(5),), line=1)),
        (one(HUNK), 1, FileChange("f", (hunk(2),), line=1)),
        (one(HUNK, b"--- a/dX", b"+++ b/dX"), 1, FileChange("dX", (hunk(4),), line=1)),
        # the names of a rename are those of the first line
        (one(b"text\n", b"rename from x", b"rename to y", path=b"a/f b/g"), 1, MOVED),
        (one(b"", b"copy from x", b"copy to y", path=b"a/f b/g"), 1, replace(MOVED, copies=True)),
        (one(b"", b"rename from x", b"rename to y", path=b"a/d/f b/d/g"), 2, MOVED),
        (one(b"", b"rename from f", b"copy to g", path=b"a/f b/g"), 1, FileChange("f", (), line=1, names=("f", "g"))),
        (one(b"", b"rename from f", b"rename to f"), 1, FileChange("f", (), line=1)),
        (one(b"", b"index 1..2"), 1, FileChange("f", (), line=1)),
        (
            one(b"", b"index 0..1", b"index 1..0 100755"),
            1,
            FileChange("f", (), deletes=True, old_mode="100755", line=1),
        ),
        (one(b"", b"old mode 100644", b"new mode 100755"), 1, FileChange("f", (), "100755", old_mode="100644", line=1)),
        (one(b"", b"old mode 10064", b"new mode 1007555"), 1, FileChange("f", (), line=1)),
        (one(b"", b"deleted file mode 100644"), 1, FileChange("f", (), deletes=True, old_mode="100644", line=1)),
        (one(HUNK, b"new file mode 100755", *NAMES), 1, FileChange("f", (hunk(5),), "100755", True, line=1)),
        (
            one(ADDS, b"new file mode 100755", *NAMES),
            1,
            FileChange("f", (Hunk(0, 1, (), (b"x\n",), 0, 0, 5),), "100755", line=1),
        ),
        (one(b"", b"index " + b"1" * 40 + b"..2"), 1, FileChange("f", (), line=1, made_for="1" * 40)),
        (b"Index: a/f\n" + HUNK, 1, FileChange("f", (hunk(2),), line=1)),
        (b"Index: a/q\n--- a/f\n" + HUNK, 1, FileChange("f", (hunk(3),), line=2)),
        (b"+++ b/f\n" + HUNK, 1, FileChange("f", (hunk(2),), line=1)),
        (b"--- words\n\n--- a/f\n\n" + HUNK, 1, FileChange("f", (hunk(5),), line=3)),
        (one(b"", b"new file mode 100755", b"index 0..1"), 1, FileChange("f", (), "100755", True, line=1)),
    ],
)
def test_gits_diffs_are_taken_as_gnu_patch_takes_them(data: bytes, strip: int, change: FileChange) -> None:
    assert read_gnu(data, strip) == (change,)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"diff a/g b/g\n1c1\n< b\n---\n> B\n", ("a normal diff in line 10 is of no file",)),
        (b"1c\nB\n.\n", ("an ed script in line 10 is of no file",)),
        (b"********\n*** 1 ****\n! x\n", ("a context diff in line 9 is of no file",)),
        (b"text\n" + HUNK, ("a hunk in line 9 is of no file",)),
        (b"It is 12d\n2d\n.text\n********\n", ()),
    ],
)
def test_what_gnu_patch_passes_over_for_want_of_a_name_is_named(text: bytes, what: tuple[str, ...]) -> None:
    patch = parse(PLAIN + text)
    assert (patch.left_out, patch.files) == (what, parse(PLAIN).files)
    assert not what or what[0] in patch.left_out_text


def test_a_binary_change_that_git_left_out_is_passed_over() -> None:
    differs = b"Binary files a/g and b/g differ\n"
    patch = parse(b"diff --git a/g b/g\nindex 1..2\n" + differs + b"diff --git a/f b/f\n" + PLAIN)
    assert [f.path for f in patch.files] == ["g", "f"] and not patch.files[0].binary
    assert patch.left_out == ("Binary files a/g and b/g differ",)
    assert patch.left_out_text == "left out, as by quilt, for lack of data: Binary files a/g and b/g differ"
    plain = parse(differs + PLAIN + differs.replace(b"\n", b"\r\n"))
    assert [f.path for f in plain.files] == ["f"] and len(plain.left_out) == 2
    assert plain.left_out_text.endswith(": Binary files a/g and b/g differ; Binary files a/g and b/g differ")
    assert parse(PLAIN + b"The binary files differ\n" + differs[:-1]).left_out == ()
    assert parse(PLAIN).left_out_text == ""
    there = b"diff --git a/g b/g\nindex 1..2\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n"
    files = parse(there + b"diff --git a/f b/f\n" + PLAIN).files
    assert [(f.path, f.binary) for f in files] == [("g", Binary("1", "2", None, None)), ("f", None)]


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
        (b"Subject: [PATCH 1/2] Fix it\n\nWhy.\n\nSigned-off-by: A <a@b>\n", "Fix it\n\nWhy.\n\nSigned-off-by: A <a@b>\n"),
        (b"Date: x\nSubject: [PATCH] only if\n trusted\n\nWhy.\n", "only if trusted\n\nWhy.\n"),
        (b"Date: x\nSubject: =?utf-8?q?=C3=BC?=\n =?utf-8?q?=C3=A4?=\n", "\u00fc\u00e4\n"),
        (b"Subject: Fix it\n It was wrong.\n", "Fix it\n\nIt was wrong.\n"),
        (b"Subject: T\n\nSigned-off-by: A\nBug: x\nSigned-off-by: B\n", "T\n\nSigned-off-by: A\nBug: x\nSigned-off-by: B\n"),
        (b"Date: x\nSubject: Fix it\n\nLast-Update: 2024-05-06\n", "Fix it\n\nLast-Update: 2024-05-06\n"),
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
        (b"Upstream-PR: none \xff\n", "fix-it\n\nUpstream-PR: none \ufffd\n"),
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


def test_the_indentation_of_a_diff_is_removed() -> None:
    (change,) = parse(
        b"  --- a/f\n\t+++ b/f\n" + b"".join(b"  " + line for line in HUNK.splitlines(keepends=True))
    ).files
    assert change == FileChange("f", (hunk(3),), line=1)
    tabs = b" \t" + b"\tX".join(HUNK.splitlines(keepends=True)).replace(b"\tX", b"XX      ")
    assert parse(b"--- a/f\n" + tabs).files == (FileChange("f", (hunk(2),), line=1),)
    # a line may have less, and what is more belongs to it
    less = b"   --- a/f\n   @@ -1,3 +1,3 @@\n    a\n-b\n  +B\n    c\n"
    assert parse(less).files[0].hunks[0].after == (b"a\n", b"B\n", b"c\n")
    wide = b"--- a/f\n    @@ -1 +1 @@\n\t-x\n    +  y\n"
    assert parse(wide).files[0].hunks[0].after == (b"  y\n",)


def test_what_is_missing_at_a_hunks_end_is_empty() -> None:
    def after(count: int, rest: bytes) -> tuple[bytes, ...]:
        return parse(b"--- a/f\n@@ -1,%d +1,%d @@\n-x\n+y\n" % (count, count) + rest).files[0].hunks[0].after

    assert after(4, b"") == (b"y\n", b"\n", b"\n", b"\n")
    assert after(4, b"\n \n") == (b"y\n", b"\n", b"\n", b"\n")
    assert after(3, b"\tz\n=q\n") == (b"y\n", b"\tz\n", b"q\n")
    assert after(2, b"#c\n#d\n z\n#") == (b"y\n", b"z\n")
    # a last line without newline is none
    assert after(2, b" z") == (b"y\n", b"\n")


def test_only_the_last_line_of_a_side_may_end_without_newline() -> None:
    end = b"\\ No newline\n"
    (change,) = parse(b"--- a/f\n@@ -1,2 +1 @@\n x\n" + end + b"-y\n" + end).files
    assert (change.hunks[0].before, change.hunks[0].after) == ((b"x", b"y"), (b"x",))
    (change,) = parse(b"--- a/f\n@@ -1 +1 @@\n-x\n" + end + b"+y\n\\ at the end").files
    assert (change.hunks[0].before, change.hunks[0].after) == ((b"x",), (b"y",))
    middle = b"--- a/f\n@@ -1,2 +1 @@\n-x\n" + end + b"-y\n+z\n"
    assert fault(lambda: parse(middle)) == (4, "the hunk has other lines than its header counts")
    indented = b" --- a/f\n @@ -1 +1 @@\n -x\n +y\n " + end
    assert parse(indented).files[0].hunks[0].after == (b"y\n",)
