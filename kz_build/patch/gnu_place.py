"""Where GNU patch puts hunks at --fuzz=0 (its patch.c, locate_hunk): for other people's stacks, which quilt applies.

Differences from git: hunks keep their order, each hunk is expected at the offset of the one before, and a hunk belongs
to the end of the file where it has less context on that side than on the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.patch.change import Hunk, positions, split_lines


def apply_hunks(data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, tuple[int, ...]] | Hunk:
    """Apply hunks in order. Return the new bytes and each hunk's offset in lines, or the first hunk whose place was not found."""
    if hunks and b"".join(hunks[0].before) not in data:  # most failures end here, before any line is split off
        return hunks[0]
    lines = split_lines(data)
    out: list[bytes] = []
    offsets: list[int] = []
    frozen = offset = 0
    for hunk in hunks:
        guess = hunk.old_start - bool(hunk.before) + offset
        place = _find(lines, frozen, hunk, guess)
        if place is None:
            return hunk
        offset += place - guess
        offsets.append(offset)
        # What follows the last change may be the context of the next hunk.
        out += lines[frozen : place + hunk.leading]
        out += hunk.after[hunk.leading : len(hunk.after) - hunk.trailing]
        frozen = place + len(hunk.before) - hunk.trailing
    out += lines[frozen:]
    # A last line that is no longer the last one gets its newline.
    ended = [line if line.endswith(b"\n") else line + b"\n" for line in out[:-1]]
    return b"".join([*ended, *out[-1:]]), tuple(offsets)


def placed(hunks: Sequence[Hunk], offsets: Sequence[int]) -> list[int]:
    """Return where `apply_hunks` put each hunk, from 0, in the lines as they were before any of them."""
    return [hunk.old_start - bool(hunk.before) + offset for hunk, offset in zip(hunks, offsets, strict=True)]


def _find(lines: list[bytes], frozen: int, hunk: Hunk, guess: int) -> int | None:
    """Find the place nearest to `guess`, from 0, where the hunk fits, later lines first; it changes nothing before `frozen`.

    With a guess before `frozen`, GNU patch tries a place that is as far before it, then `frozen`, then all after the first.
    """
    if not hunk.before:
        return guess if frozen <= guess else None
    places, first = fits(lines, hunk), 2 * guess - frozen
    if hunk.leading < hunk.trailing and hunk.old_start <= 1:
        return 0 if places and frozen <= hunk.leading else None
    if guess < frozen and hunk.leading <= hunk.trailing:
        later = (place for place in places if place >= first)
        place = min(later, key=lambda place: (place != first, place != frozen, place), default=None)
        return None if place is None or place + hunk.leading < frozen else place
    free = (place for place in places if place >= frozen)
    return min(free, key=lambda place: (abs(place - guess), place < guess), default=None)


def fits(lines: list[bytes], hunk: Hunk) -> list[int]:
    """Every place, from 0, where the lines before the hunk are as GNU patch requires them; none for no lines."""
    before = list(hunk.before)
    if not before:
        return []
    size, last = len(before), len(lines) - len(before)
    if hunk.leading < hunk.trailing and hunk.old_start <= 1:
        places = [0]
    elif hunk.trailing < hunk.leading:
        places = [max(last, 0)]
    else:
        places = positions(lines, before[0])
    return [place for place in places if lines[place : place + size] == before]
