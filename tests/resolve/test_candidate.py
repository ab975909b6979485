"""Candidates for a conflict, one small case for each rule."""

from __future__ import annotations

from kz_build.resolve.candidate import candidates


def lines(text: str) -> bytes:
    return "".join(f"{line}\n" for line in text.split()).encode()


def test_changes_of_different_lines_merge() -> None:
    found = candidates({"f": lines("a b c d e")}, {"f": lines("a b c d E")}, {"f": lines("a X b c d e")})
    assert [one.files for one in found] == [{"f": lines("a X b c d E")}]


def test_a_file_that_both_sides_rewrote_has_no_candidate() -> None:
    assert candidates({"f": lines("a b c")}, {"f": lines("p q r")}, {"f": lines("x y z")}) == ()
