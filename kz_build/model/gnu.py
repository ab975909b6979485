"""Where GNU patch puts hunks at --fuzz=0 (its patch.c, locate_hunk): for the stacks of others, which quilt applies.

It differs from git: hunks keep their order, the offset of one is expected of the next, and a hunk belongs to an end of
the file where it has less context on that side than on the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.model.patch import NOT_THERE, Hunk, HunkFailure, split_lines


def apply_hunks(path: str, data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, tuple[int, ...]] | HunkFailure:
    """Apply hunks in order. Gives the new bytes and each hunk's offset in lines, or the first hunk that failed."""
    lines = split_lines(data)
    out: list[bytes] = []
    offsets: list[int] = []
    frozen = offset = 0
    for hunk in hunks:
        guess = hunk.old_start - bool(hunk.before) + offset
        place = _find(lines, frozen, hunk, guess)
        if place is None:
            return HunkFailure(path, hunk, NOT_THERE)
        offset += place - guess
        offsets.append(offset)
        # What follows the last change may be the context of the next hunk.
        kept = len(hunk.before) - hunk.trailing
        out += lines[frozen:place]
        out += hunk.after[: len(hunk.after) - hunk.trailing]
        frozen = place + kept
    out += lines[frozen:]
    # A last line that is no longer last gets its newline.
    ended = [line if line.endswith(b"\n") else line + b"\n" for line in out[:-1]]
    return b"".join([*ended, *out[-1:]]), tuple(offsets)


def _find(lines: list[bytes], frozen: int, hunk: Hunk, guess: int) -> int | None:
    """Where the hunk fits (from 0), nearest to `guess`, later lines first at equal distance; nothing before `frozen`."""
    before = list(hunk.before)
    size, last = len(before), len(lines) - len(before)
    if not before:
        return guess if frozen <= guess else None

    def fits(place: int) -> bool:
        return frozen <= place <= last and lines[place : place + size] == before

    if hunk.leading < hunk.trailing and hunk.old_start <= 1:
        return 0 if fits(0) else None
    if hunk.trailing < hunk.leading:
        return last if fits(last) else None
    return min((p for p in range(frozen, last + 1) if fits(p)), key=lambda p: (abs(p - guess), p < guess), default=None)
