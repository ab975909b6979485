"""Which lines of one version of a file are lines of another: patience diff, bounded in time for any content."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

EFFORT = 100
"""How many lines may differ in a stretch without a line that is unique on both sides; beyond that nothing in it matches."""
DEPTH = 12
"""How often a stretch is divided at its unique lines."""


class Edit(NamedTuple):
    """The lines `start` to `end` (from 0, `end` excluded) of one version become `new_start` to `new_end` of the other."""

    start: int
    end: int
    new_start: int
    new_end: int


def line_map(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[int]:
    """Return for each line of `old` its place in `new`, -1 for none; places only ascend."""
    places = [-1] * len(old)
    stack = [(0, len(old), 0, len(new), DEPTH)]
    while stack:
        start, end, new_start, new_end, depth = stack.pop()
        while start < end and new_start < new_end and old[start] == new[new_start]:
            places[start] = new_start
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
            places[end] = new_end
        if start == end or new_start == new_end:
            continue
        small = min(end - start, new_end - new_start) < 4
        anchors = [] if small or not depth else _unique_on_both(old, new, (start, end, new_start, new_end))
        if not anchors:
            _shortest_edit(old, new, (start, end, new_start, new_end), places)
            continue
        for at, new_at in anchors:
            stack.append((start, at, new_start, new_at, depth - 1))
            places[at] = new_at
            start, new_start = at + 1, new_at + 1
        stack.append((start, end, new_start, new_end, depth - 1))
    return places


def edits(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Edit]:
    """Return what turns `old` into `new`, in order."""
    return edits_of(line_map(old, new), len(new))


def edits_of(places: Sequence[int], new_size: int) -> list[Edit]:
    """Return the edits between the lines that a map connects."""
    changes = []
    start = new_start = 0
    for at, new_at in [*enumerate(places), (len(places), new_size)]:
        if new_at < 0:
            continue
        if start < at or new_start < new_at:
            changes.append(Edit(start, at, new_start, new_at))
        start, new_start = at + 1, new_at + 1
    return changes


def _unique_on_both(
    old: Sequence[Hashable], new: Sequence[Hashable], area: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Return the longest ascending run of lines that occur once on each side of an area."""
    start, end, new_start, new_end = area
    counts, new_counts = Counter(old[start:end]), Counter(new[new_start:new_end])
    new_at = {line: at for at, line in enumerate(new[new_start:new_end], new_start) if new_counts[line] == 1}
    pairs = [
        (at, new_at[line]) for at, line in enumerate(old[start:end], start) if line in new_at and counts[line] == 1
    ]
    tails: list[int] = []
    ends: list[int] = []
    before = [-1] * len(pairs)
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(tails, place)
        tails[length : length + 1] = [place]
        ends[length : length + 1] = [number]
        before[number] = ends[length - 1] if length else -1
    run = []
    number = ends[-1] if ends else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]


def _shortest_edit(
    old: Sequence[Hashable], new: Sequence[Hashable], area: tuple[int, int, int, int], places: list[int]
) -> None:
    """Connect the lines of an area by Myers' algorithm; none if it requires more than EFFORT edits."""
    start, end, new_start, new_end = area
    size, new_size = end - start, new_end - new_start
    if abs(size - new_size) > EFFORT:
        return
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for depth in range(min(EFFORT, size + new_size) + 1):
        trace.append(reach.copy())
        for diagonal in range(-depth, depth + 1, 2):
            down = diagonal == -depth or (diagonal != depth and reach[diagonal - 1] < reach[diagonal + 1])
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < size and y < new_size and old[start + x] == new[new_start + y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= size and y >= new_size:
                _walk_back(trace, (size, new_size), (start, new_start), places)
                return


def _walk_back(trace: list[dict[int, int]], at: tuple[int, int], origin: tuple[int, int], places: list[int]) -> None:
    x, y = at
    for depth in range(len(trace) - 1, -1, -1):
        reach, diagonal = trace[depth], x - y
        down = diagonal == -depth or (diagonal != depth and reach[diagonal - 1] < reach[diagonal + 1])
        from_diagonal = diagonal + 1 if down else diagonal - 1
        from_x = reach[from_diagonal]
        from_y = from_x - from_diagonal
        while x > max(from_x, 0) and y > max(from_y, 0):
            x, y = x - 1, y - 1
            places[origin[0] + x] = origin[1] + y
        x, y = from_x, from_y
