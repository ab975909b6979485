"""Where hunks go, by git's rule and by GNU patch's. test_against_git.py and tests/stack/test_quilt.py compare both with the real programs on generated files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from kz_build.patch import change as patch
from kz_build.patch import gnu_place
from kz_build.patch.change import FileChange, Hunk, Patch, split_lines
from tests.patch.test_diff import HUNK, NAMES, one, read

Lines = tuple[bytes, ...]


def text(lines: str) -> bytes:
    """One line for each letter."""
    return b"".join(letter.encode() + b"\n" for letter in lines)


def hunk(at: int, before: str, after: str, *, new: int | None = None, line: int = 7) -> Hunk:
    """A hunk of one-letter lines; what stands on both sides at the ends is context."""
    leading = 0
    while before[leading : leading + 1] == after[leading : leading + 1] != "":
        leading += 1
    trailing = 0
    while trailing < min(len(before), len(after)) - leading and before[-1 - trailing] == after[-1 - trailing]:
        trailing += 1
    rows = tuple(split_lines(text(before))), tuple(split_lines(text(after)))
    return Hunk(at, at if new is None else new, *rows, leading, trailing, line)


def failed(result: object, broken: Hunk) -> None:
    assert result == broken


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b"\n"]),
        (b"a\nb\n", [b"a\n", b"b\n"]),
        (b"a\n\nb", [b"a\n", b"\n", b"b"]),
        (b"a\rb\fc\x0bd\n", [b"a\rb\fc\x0bd\n"]),
    ],
)
def test_only_a_newline_ends_a_line(data: bytes, lines: list[bytes]) -> None:
    assert split_lines(data) == lines


MIDDLE = hunk(4, "def", "dEf")


@pytest.mark.parametrize(
    ("before", "after", "offset"),
    [
        ("abcdefghi", "abcdEfghi", 0),
        ("xxabcdefghi", "xxabcdEfghi", 2),
        ("bcdefghi", "bcdEfghi", -1),
        ("def", "dEf", -3),
        # the nearest place
        ("defxxdefxdef", "defxxdEfxdef", 2),
        ("xxdefxxxxxdef", "xxdEfxxxxxdef", -1),
        # at equal distance the later
        ("xdefxdef", "xdefxdEf", 2),
    ],
)
@pytest.mark.parametrize("engine", [patch, gnu_place])
def test_a_hunk_goes_where_its_lines_are_nearest(engine: object, before: str, after: str, offset: int) -> None:
    assert engine.apply_hunks(text(before), (MIDDLE,)) == (text(after), (offset,))  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", [patch, gnu_place])
def test_every_line_must_be_there_in_one_piece(engine: object) -> None:
    for there in ("", "abc", "abcdxfghi", "abcdexxxf", "abcde", "abcfed"):
        failed(engine.apply_hunks(text(there), (MIDDLE,)), MIDDLE)  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", [patch, gnu_place])
def test_no_hunks_change_nothing(engine: object) -> None:
    assert engine.apply_hunks(b"a\nb", ()) == (b"a\nb", ())  # type: ignore[attr-defined]


def test_several_hunks_and_the_one_that_failed() -> None:
    first, second, third = hunk(2, "bcd", "bCd"), hunk(6, "fgh", "fxGh"), hunk(11, "klm", "kLm", new=12)
    assert patch.apply_hunks(text("abcdefghijklmn"), (first, second, third)) == (
        text("abCdefxGhijkLmn"),
        (0, 0, 0),
    )
    # Each offset is counted from where the new file has the hunk, whatever came before it.
    assert patch.apply_hunks(text("zabcdefghijyyklmn"), (first, second, third)) == (
        text("zabCdefxGhijyykLmn"),
        (1, 1, 3),
    )
    failed(patch.apply_hunks(text("abcdefxhijklmn"), (first, second, third)), second)
    failed(patch.apply_hunks(text("abcdefgh"), (first, second, third)), third)


def test_in_git_a_hunk_without_context_belongs_to_that_end_of_the_file() -> None:
    at_end, at_start, whole = hunk(2, "bc", "bC"), hunk(1, "ab", "Ab"), hunk(1, "a", "A")
    assert patch.apply_hunks(text("xxbc"), (at_end,)) == (text("xxbC"), (1,))
    assert patch.apply_hunks(text("bcbc"), (at_end,)) == (text("bcbC"), (1,))
    assert patch.apply_hunks(text("abx"), (at_start,)) == (text("Abx"), (0,))
    assert patch.apply_hunks(text("a"), (whole,)) == (text("A"), (0,))
    failed(patch.apply_hunks(text("abcx"), (at_end,)), at_end)
    failed(patch.apply_hunks(text("xab"), (at_start,)), at_start)
    failed(patch.apply_hunks(text("ax"), (whole,)), whole)
    failed(patch.apply_hunks(text("xa"), (whole,)), whole)
    failed(patch.apply_hunks(b"c\n", (at_end,)), at_end)


def test_in_git_lines_are_added_without_context_at_the_end_and_made_of_nothing() -> None:
    append, create = hunk(3, "", "cd", new=4), hunk(0, "", "ab", new=1)
    assert patch.apply_hunks(text("xyz"), (append,)) == (text("xyzcd"), (0,))
    assert patch.apply_hunks(text("x"), (append,)) == (text("xcd"), (-2,))
    assert patch.apply_hunks(b"", (create,)) == (text("ab"), (0,))
    failed(patch.apply_hunks(text("x"), (create,)), create)
    gone = hunk(1, "ab", "", new=0)
    assert patch.apply_hunks(text("ab"), (gone,)) == (b"", (0,))


def test_in_git_no_hunk_stands_on_what_another_wrote() -> None:
    first, again = hunk(2, "bcd", "bxd"), hunk(3, "xd", "yd", new=3)
    failed(patch.apply_hunks(text("abcde"), (first, again)), again)
    on_context = hunk(4, "de", "De", new=4)
    failed(patch.apply_hunks(text("abcdef"), (first, on_context)), on_context)
    elsewhere = hunk(2, "bxd", "b!d", new=2)
    assert patch.apply_hunks(text("abcdbxdz"), (first, elsewhere)) == (text("abxdb!dz"), (0, 3))
    at_end = hunk(4, "d", "D", new=4)
    failed(patch.apply_hunks(text("abcd"), (first, at_end)), at_end)
    # An earlier place is free as long as nothing was written there.
    back = hunk(9, "ab", "Ab", new=9)
    assert patch.apply_hunks(text("abzzbcdz"), (hunk(5, "bcd", "bxd"), back)) == (text("Abzzbxdz"), (0, -8))


def rows(*lines: bytes) -> Lines:
    return lines


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (b"a\nb\nc", b"a\nB\nc"),
        (b"a\nb\nc \t\n", b"a\nB\nc"),
        (b"a\nb\nc\r\n", b"a\nB\nc"),
        (b"a\nb\nc d\n", None),
        (b"a\nb\nc\f\n", None),
        (b"a\nb\ncX\n", None),
        (b"a\nb\ncd\n", None),
        (b"a\nb\n c\n", None),
    ],
)
def test_in_git_white_space_may_follow_a_last_line_without_newline(there: bytes, wanted: bytes | None) -> None:
    last = Hunk(1, 1, rows(b"a\n", b"b\n", b"c"), rows(b"a\n", b"B\n", b"c"), 1, 1, 3)
    result = patch.apply_hunks(there, (last,))
    assert result == ((wanted, (0,)) if wanted else last)


def test_in_git_a_last_line_alone_may_be_anywhere() -> None:
    alone = Hunk(3, 3, rows(b"c"), rows(b"B\n", b"c"), 0, 1, 3)
    assert patch.apply_hunks(b"a\nb\nc\nc \n", (alone,)) == (b"a\nb\nB\ncc \n", (0,))
    assert patch.apply_hunks(b"c\nb\nx\n", (alone,)) == (b"B\ncb\nx\n", (-2,))


def test_in_git_a_hunk_of_line_zero_counts_from_the_first() -> None:
    nearest = hunk(5, "ab", "Ab", new=0)
    assert patch.apply_hunks(text("zabzzab"), (nearest,)) == (text("zAbzzab"), (1,))
    assert patch.apply_hunks(text("abab"), (nearest,)) == (text("Abab"), (0,))


def test_in_gnu_patch_the_offset_of_one_hunk_is_expected_of_the_next() -> None:
    first, second = hunk(2, "bcd", "bCd"), hunk(10, "xyz", "xYz")
    assert gnu_place.apply_hunks(text("qqqqabcdqxyzqxyz"), (first, second)) == (text("qqqqabCdqxyzqxYz"), (4, 4))
    assert gnu_place.apply_hunks(text("qqqqabcdqqxyzqq"), (first, second)) == (text("qqqqabCdqqxYzqq"), (4, 1))
    failed(gnu_place.apply_hunks(text("qqqqabcdxyqqqqq"), (first, second)), second)


def test_in_gnu_patch_hunks_keep_their_order_and_may_share_context() -> None:
    first, second = hunk(4, "def", "dEf"), hunk(2, "bcd", "bCd")
    failed(gnu_place.apply_hunks(text("abcdefg"), (first, second)), second)
    shared = hunk(6, "fgh", "fGh")
    assert gnu_place.apply_hunks(text("abcdefghi"), (first, shared)) == (text("abcdEfGhi"), (0, 0))
    beside = hunk(5, "efg", "eFg")  # its context is what was there before the first
    assert gnu_place.apply_hunks(text("abcdefghi"), (first, beside)) == (text("abcdEFghi"), (0, 0))


def test_in_gnu_patch_less_context_on_one_side_binds_to_that_end() -> None:
    at_start, at_end = hunk(1, "ab", "Ab"), hunk(2, "bc", "bC")
    assert gnu_place.apply_hunks(text("abx"), (at_start,)) == (text("Abx"), (0,))
    failed(gnu_place.apply_hunks(text("xab"), (at_start,)), at_start)
    assert gnu_place.apply_hunks(text("xxbc"), (at_end,)) == (text("xxbC"), (1,))
    assert gnu_place.apply_hunks(text("bcbc"), (at_end,)) == (text("bcbC"), (1,))
    failed(gnu_place.apply_hunks(text("abcx"), (at_end,)), at_end)
    # Only a hunk of the first line is bound to the start, and with as much context on both sides none is.
    later, bare = hunk(2, "ab", "Ab"), hunk(1, "a", "A")
    assert gnu_place.apply_hunks(text("xxab"), (later,)) == (text("xxAb"), (1,))
    assert gnu_place.apply_hunks(text("xax"), (bare,)) == (text("xAx"), (1,))


def test_in_gnu_patch_lines_without_context_go_where_they_say() -> None:
    insert = hunk(2, "", "x", new=3)
    assert gnu_place.apply_hunks(text("abcd"), (insert,)) == (text("abxcd"), (0,))
    assert gnu_place.apply_hunks(b"", (hunk(0, "", "ab", new=1),)) == (text("ab"), (0,))
    first = hunk(3, "cde", "cDe")
    failed(gnu_place.apply_hunks(text("abcdefg"), (first, insert)), insert)
    assert gnu_place.apply_hunks(text("zabcdefg"), (first, hunk(4, "", "x", new=5))) == (text("zabcDxefg"), (1, 1))


def test_in_gnu_patch_a_last_line_gets_its_newline_when_more_follows() -> None:
    append = Hunk(2, 3, (), (b"c\n",), 0, 0, 3)
    assert gnu_place.apply_hunks(b"a\nb", (append,)) == (b"a\nb\nc\n", (0,))
    assert gnu_place.apply_hunks(b"a\nb\nc", (hunk(1, "ab", "Ab"),)) == (b"A\nb\nc", (0,))


def test_a_change_is_taken_back() -> None:
    (change,) = read(one(HUNK, *NAMES))
    back = change.reverse()
    assert back.hunks == (Hunk(1, 1, change.hunks[0].after, change.hunks[0].before, 1, 1, 4),)
    assert back.reverse() == change and back.path == "f"
    (moved,) = read(one(b"", b"rename from f", b"rename to d/g", path=b"a/f b/d/g"))
    assert (moved.reverse().path, moved.reverse().source, moved.origin, moved.leaves) == ("f", "d/g", "f", True)
    (new,) = read(one(b"", b"new file mode 100755", b"index 0..1"))
    assert new.reverse() == FileChange("f", (), deletes=True, old_mode="100755", line=1)
    (gone,) = read(one(b"@@ -1 +0,0 @@\n-x\n", b"deleted file mode 100755", b"--- a/f", b"+++ /dev/null"))
    again = gone.reverse()
    assert (again.creates, again.deletes, again.mode, again.hunks[0].after) == (True, False, "100755", (b"x\n",))
    (mode,) = read(one(b"", b"old mode 100644", b"new mode 100755"))
    assert mode.reverse() == FileChange("f", (), "100644", old_mode="100755", line=1)
    (kept,) = read(one(HUNK, b"index 1..2 100755", *NAMES))
    assert (kept.reverse().mode, kept.reverse().old_mode) == ("", "100755")
    shifted = Hunk(3, 5, (b"a\n",), (b"b\n", b"a\n"), 0, 1, 9)
    assert shifted.reverse() == Hunk(5, 3, (b"b\n", b"a\n"), (b"a\n",), 0, 1, 9)


def test_a_patch_knows_its_name_and_what_it_reads_and_is_taken_back_last_file_first() -> None:
    files = read(one(HUNK, *NAMES) + one(b"", b"rename from x", b"rename to y", path=b"a/x b/y"))
    whole = Patch("0012-fix-2.patch", "A <a@b>", "today", "Fix it\n\nMore.\n", files)
    assert (whole.slug, whole.subject, set(whole.reads)) == ("fix-2", "Fix it", {"f", "x", "y"})
    assert [f.path for f in whole.reverse().files] == ["x", "f"]
    assert whole.reverse().reverse() == whole and whole.reverse().message == whole.message


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_where_git_put_hunks_in_the_lines_as_they_were(order: Sequence[int]) -> None:
    """In any order: some grow and some shrink, and two stand side by side."""
    every = (
        hunk(9, "ijk", "iJJJk"),
        hunk(2, "bcd", "bCCCCCCd"),
        hunk(5, "efg", "eg"),
        hunk(12, "lmn", "lMn"),
    )
    hunks = [every[number] for number in order]
    result = patch.apply_hunks(text("abcdefghijklmnop"), hunks)
    assert not isinstance(result, Hunk)
    assert patch.placed(hunks, result[1]) == [(8, 1, 4, 11)[number] for number in order]
