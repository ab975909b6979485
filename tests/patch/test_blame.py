"""Which hunks of an upstream diff a patch cares about: those that change lines it needs, or part them."""

from __future__ import annotations

import pytest

from kz_build.patch.blame import relevant_hunks, reversed_hunks
from kz_build.patch.change import FileChange, Hunk, Patch, split_lines


def text(lines: str) -> bytes:
    return b"".join(letter.encode() + b"\n" for letter in lines)


def changing(path: str, *hunks: tuple[str, str], source: str = "") -> FileChange:
    rows = [(tuple(split_lines(text(before))), tuple(split_lines(text(after)))) for before, after in hunks]
    return FileChange(path, tuple(Hunk(1, 1, *row, 0, 0, 1) for row in rows), source=source)


def patch(*files: FileChange) -> Patch:
    return Patch("0001-x.patch", "", "", "", files)


OURS = patch(changing("f", ("cdefg", "cdEfg")))
"""Stands on lines 3 to 7 of TREE."""
TREE = text("abcdefghij")


def asked(hunks: bytes, ours: Patch = OURS, path: str = "f", before: bytes = TREE) -> str:
    return relevant_hunks(ours, path, before, b"diff --git a/f b/f\n--- a/f\n+++ b/f\n" + hunks)


@pytest.mark.parametrize(
    "hunk",
    [
        "@@ -3 +3 @@\n-c\n+C",
        "@@ -7 +7 @@\n-g\n+G",
        "@@ -5 +4,0 @@\n-e",
        "@@ -2,2 +2 @@\n-b\n-c\n+x",
        "@@ -7,2 +7 @@ def f():\n-g\n-h\n+x",
        "@@ -1,10 +0,0 @@\n-a",
        "@@ -3,0 +4 @@\n+x",
        "@@ -6,0 +7 @@\n+x",
    ],
)
def test_a_hunk_that_changes_or_parts_the_patchs_lines_is_shown(hunk: str) -> None:
    assert asked(hunk.encode() + b"\n") == f"--- f\n{hunk}"


@pytest.mark.parametrize(
    "hunk",
    ["@@ -2 +2 @@\n-b\n+B\n", "@@ -8 +8 @@\n-h\n+H\n", "@@ -2,0 +3 @@\n+x\n", "@@ -7,0 +8 @@\n+x\n", "@@ -1,2 +1 @@\n-a\n-b\n+x\n"],
)  # fmt: skip
def test_a_hunk_beside_them_is_not(hunk: str) -> None:
    assert asked(hunk.encode()) == ""


def test_a_patch_of_the_first_lines() -> None:
    first = patch(changing("f", ("abc", "aBc")))
    assert asked(b"@@ -1 +1 @@\n-a\n+A\n", first) == "--- f\n@@ -1 +1 @@\n-a\n+A"
    drifted = patch(changing("f", ("abx", "ABx")))
    assert asked(b"@@ -1 +1 @@\n-a\n+A\n", drifted) == "--- f\n@@ -1 +1 @@\n-a\n+A"


@pytest.mark.parametrize("line", ["spaces  ", "\ttab\t", "MLX", "X"])
def test_the_lines_of_a_hunk_are_shown_to_the_letter(line: str) -> None:
    assert asked(f"@@ -3 +3 @@\n-c\n+{line}\n".encode()) == f"--- f\n@@ -3 +3 @@\n-c\n+{line}"


def test_only_the_hunks_that_matter_are_shown_in_their_order() -> None:
    hunks = b"@@ -1 +1 @@\n-a\n+A\n@@ -4 +4 @@\n-d\n+\xff\n@@ -6 +6 @@\n-f\n+@@ F\n@@ -9 +9 @@\n-i\n+I\n"
    assert asked(hunks) == "--- f\n@@ -4 +4 @@\n-d\n+\ufffd\n@@ -6 +6 @@\n-f\n+@@ F"


def test_other_files_do_not_count_and_a_renamed_one_counts_under_its_old_name() -> None:
    hunk = b"@@ -3 +3 @@\n-c\n+C\n"
    assert asked(hunk, path="g") == ""
    ours = patch(changing("g", ("ab", "aB")), changing("new", ("cd", "cD"), source="f"))
    assert asked(hunk, ours) == "--- f\n@@ -3 +3 @@\n-c\n+C"
    assert asked(b"@@ -1 +1 @@\n-a\n+A\n", ours) == ""


def test_a_patch_that_no_longer_fits_needs_what_is_left_of_its_lines() -> None:
    """It replaces e and puts a line between j and k; its context at c has gone."""
    ours = patch(changing("f", ("cdefg", "cdEfg"), ("ijkl", "ijxkl")))
    tree = text("abCdefghijklm")
    assert asked(b"@@ -5 +5 @@\n-e\n+!\n", ours, before=tree).startswith("--- f\n@@ -5 ")
    assert asked(b"@@ -4 +4 @@\n-d\n+!\n", ours, before=tree) == ""
    assert asked(b"@@ -6 +6 @@\n-f\n+!\n", ours, before=tree) == ""
    assert asked(b"@@ -10,0 +11 @@\n+!\n", ours, before=tree).startswith("--- f\n@@ -10,0 ")
    gone = patch(changing("f", ("qrs", "qRs")))
    assert asked(b"@@ -1,10 +0,0 @@\n-a\n", gone) == ""
    made = patch(changing("f", ("", "xyz")))
    assert asked(b"@@ -1,10 +0,0 @@\n-a\n", made) == ""


def test_the_other_way_round() -> None:
    there = "--- f\n@@ -3,2 +4 @@ def f():\n-old\n-old too\n+new\n context\n--- a comment of Lua\n+"
    back = "--- f\n@@ -4 +3,2 @@ def f():\n+old\n+old too\n-new\n context\n+-- a comment of Lua\n-"
    assert reversed_hunks(there) == back
    assert reversed_hunks(back) == there
    assert reversed_hunks("") == ""
