"""The white space of lines that a patch writes, as upstream's file has it today."""

from __future__ import annotations

from kz_build.patch.line_map import Edit
from kz_build.resolve.three_versions import Gap, ThreeVersions, key


def indented(versions: ThreeVersions, edit: Edit, start: int, end: int) -> tuple[bytes, ...]:
    """Return the edit's lines, indented and ended as upstream does it today with the line next to them."""
    new = versions.new(edit)
    for at, place in ((edit.start - 1, start - 1), (edit.end, end)):
        if 0 <= at < len(versions.base) and 0 <= place < len(versions.ours):
            line, other = versions.base[at], versions.ours[place]
            was, now = _edges(line), _edges(other)
            if line.strip() and line.strip() == other.strip() and was != now:
                return tuple(_with_edges(one, was, now) for one in new)
    return new


def reindented(versions: ThreeVersions, edit: Edit, gap: Gap, merged: list[bytes]) -> list[bytes]:
    """Indent lines that the edit inserts as upstream does it today with the line before them."""
    new = versions.new(edit)
    if edit.start < edit.end or not edit.start or not gap.our_start:
        return merged
    line, before = versions.base[edit.start - 1], versions.ours[gap.our_start - 1]
    for at, other in enumerate([before, *merged[: len(merged) - len(new)]]):
        if tuple(merged[at : at + len(new)]) == new and key(other) == key(line) != b"":
            return [
                *merged[:at],
                *(_with_edges(one, _edges(line), _edges(other)) for one in new),
                *merged[at + len(new) :],
            ]
    return merged


def _edges(line: bytes) -> tuple[bytes, bytes]:
    """Return the indentation of a line, and its kind of line end."""
    return line[: len(line) - len(line.lstrip())], b"\r\n" if line.endswith(b"\r\n") else b"\n"


def _with_edges(line: bytes, was: tuple[bytes, bytes], now: tuple[bytes, bytes]) -> bytes:
    if line.startswith(was[0]) and line.strip():
        line = now[0] + line[len(was[0]) :]
    elif now[0].endswith(was[0]) and line.strip():  # it was less indented than the line beside it
        line = now[0].removesuffix(was[0]) + line
    same_end = line.endswith(was[1]) and _edges(line)[1] == was[1]
    return line[: -len(was[1])] + now[1] if same_end else line
