"""The three versions of one file as lines, and where the lines of one are in another."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kz_build.patch.change import split_lines
from kz_build.patch.line_map import Edit, edits_of, line_map
from kz_build.resolve.token_merge import ALIKE, similarity

WORD = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_NO_WORD = bytes(set(range(256)) - set(WORD))
NOWHERE = -2
PAIRED = 8_000
"""Bytes of an edit beyond which its lines are not compared one by one."""


class Gap(NamedTuple):
    """The lines of the base between the nearest lines around an edit that ours has, and what is between them in ours."""

    start: int
    end: int
    our_start: int
    our_end: int


def key(line: bytes) -> bytes:
    """Return a line without its white space and kind of quotes: lines with the same key are taken for the same line."""
    return b"".join(line.split()).replace(b"'", b'"')


def weight(key: bytes) -> float:
    """Return how much a line tells about a place: 1 for a statement, next to nothing for a brace."""
    return min(1.0, 0.05 + len(key[:200].translate(None, _NO_WORD)) / 8)


def slide(old: Sequence[bytes], new: Sequence[bytes], places: list[int]) -> None:
    """Move blocks that are inserted or removed down as far as they go, as git does: the same block then stands at one place on both sides.

    Lines that replace others stay where they are.
    """
    gone = come = 0
    for at, place in enumerate(places):
        if place < 0:
            continue
        # Before the line are removed ones from `gone` on, or inserted ones from `come` on.
        if come == place and gone < at and old[gone] == old[at]:
            places[gone], places[at] = place, -1
            gone, come = gone + 1, place + 1
        elif gone == at and come < place and new[come] == new[place]:
            places[at] = come
            gone, come = at + 1, come + 1
        else:
            gone, come = at + 1, place + 1


@dataclass(frozen=True)
class ThreeVersions:
    """One file: the lines of `base`, of `ours` (upstream's now) and of `theirs` (the base with the patch)."""

    base: list[bytes]
    ours: list[bytes]
    theirs: list[bytes]

    @classmethod
    def of(cls, base: bytes, ours: bytes, theirs: bytes) -> ThreeVersions:
        return cls(split_lines(base), split_lines(ours), split_lines(theirs))

    @cached_property
    def base_keys(self) -> list[bytes]:
        return [key(line) for line in self.base]

    @cached_property
    def our_keys(self) -> list[bytes]:
        return [key(line) for line in self.ours]

    @cached_property
    def edits(self) -> list[Edit]:
        """What the patch does to the base."""
        places = line_map(self.base, self.theirs)
        slide(self.base, self.theirs, places)
        return edits_of(places, len(self.theirs))

    @cached_property
    def _places(self) -> list[int]:
        # A line is that which is written as it is, before one that only has the same key.
        same = line_map(self.base, self.ours)
        places = [place if weight(one) > 0.3 else -1 for place, one in zip(same, self.base_keys, strict=True)]
        for start, end, our_start, our_end in edits_of(places, len(self.ours)):
            if start < end and our_start < our_end:
                some = line_map(self.base_keys[start:end], self.our_keys[our_start:our_end])
                places[start:end] = [our_start + place if place >= 0 else -1 for place in some]
        slide(self.base, self.ours, places)
        return places

    @cached_property
    def _kept(self) -> list[int]:
        """The lines of the base that ours has, with the line before the first and the one after the last."""
        return [-1, *(at for at, place in enumerate(self._places) if place >= 0), len(self.base)]

    @cached_property
    def where(self) -> dict[bytes, list[int]]:
        """Where each key is in ours."""
        places = defaultdict(list)
        for at, one in enumerate(self.our_keys):
            places[one].append(at)
        return places

    @cached_property
    def _origins(self) -> dict[int, int]:
        return {place: at for at, place in enumerate(self._places) if place >= 0}

    def is_copy(self, at: int, place: int) -> bool:
        """Whether a line of ours is another line of the base than this."""
        return self._origins.get(place, at) != at

    def place(self, at: int) -> int:
        """Return where a line of the base is in ours; the line before the first and the one after the last are in both."""
        if 0 <= at < len(self.base):
            return self._places[at] if self._places[at] >= 0 else NOWHERE
        return -1 if at < 0 else len(self.ours)

    def new(self, edit: Edit) -> tuple[bytes, ...]:
        """Return the lines that an edit writes."""
        return tuple(self.theirs[edit.new_start : edit.new_end])

    def parts(self, edit: Edit) -> list[Edit]:
        """Divide an edit that changes words in lines one by one, where these are no longer together; else return it whole."""
        first, size = self.place(edit.start), edit.end - edit.start
        together = [self.place(at) for at in range(edit.start, edit.end)] == list(range(first, first + size))
        old, new = self.base[edit.start : edit.end], self.new(edit)
        if together or size < 2 or len(new) != size or sum(map(len, [*old, *new])) > PAIRED:
            return [edit]
        if any(similarity(was, now) < ALIKE for was, now in zip(old, new, strict=True)):
            return [edit]
        pairs = zip(range(edit.start, edit.end), range(edit.new_start, edit.new_end), strict=True)
        return [Edit(at, at + 1, now, now + 1) for at, now in pairs]

    def gap(self, edit: Edit) -> Gap:
        before = self._kept[bisect_left(self._kept, edit.start) - 1]
        after = self._kept[bisect_left(self._kept, edit.end)]
        return Gap(before + 1, after, self.place(before) + 1, self.place(after))
