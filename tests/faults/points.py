"""The points at which a verb is disturbed: every system call on every kind of path, at its first, its last and between."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.faults.strace import ERRORS, KILL, PIPES, Call


class Point(NamedTuple):
    """One disturbance: `git` is the number of the git process that it hits, None for kz itself."""

    name: str
    number: int
    what: str
    git: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.number}:{self.what}" + ("" if self.git is None else f":git{self.git}")

    @property
    def inject(self) -> str:
        """What strace's option wants."""
        how = f"signal={KILL}" if self.what == KILL else f"error={self.what}"
        return f"{self.name}:{how}:when={self.number}"


def parsed(text: str) -> Point:
    """Return the point that `str` wrote."""
    name, number, what, *git = text.split(":")
    return Point(name, int(number), what, int(git[0].removeprefix("git")) if git else None)


def chosen(calls: Iterable[Call], most: int, seed: int, git: int | None = None) -> list[Point]:
    """Choose at most so many points: first each kind's first call, failing or killed, then its last, then others."""
    draw = random.Random(f"{seed} {git}")
    kinds: dict[tuple[str, str], list[int]] = {}
    for call in calls:
        kinds.setdefault((call.name, call.kind), []).append(call.number)
    rounds: list[list[Point]] = []
    for (name, kind), numbers in kinds.items():
        errors = list(PIPES if kind in ("pipe", "socket") and name == "write" else ERRORS[name])
        if git is not None and errors == list(PIPES):
            errors = [KILL]  # kz reads what git writes for as long as it lives
        draw.shuffle(errors)
        for turn, number in enumerate(_spread(numbers, draw)):
            whats = list(dict.fromkeys((KILL, errors[turn % len(errors)], errors[(turn + 1) % len(errors)])))
            draw.shuffle(whats)
            for step, what in enumerate(whats):
                at = turn * 3 + step
                rounds += [[] for _ in range(at + 1 - len(rounds))]
                rounds[at].append(Point(name, number, what, git))
    for some in rounds:
        draw.shuffle(some)
    flat = [point for turn in rounds for point in turn]
    return list(dict.fromkeys(flat))[:most]


def _spread(numbers: Sequence[int], draw: random.Random) -> list[int]:
    """The first, the last, the middle, and two more."""
    some = [numbers[0], numbers[-1], numbers[len(numbers) // 2], *draw.sample(numbers, min(2, len(numbers)))]
    return list(dict.fromkeys(some))
