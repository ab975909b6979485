"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from kz_build.patch.change import split_lines
from kz_build.resolve.option import LOSING_NOTHING, Option, Rule
from kz_build.resolve.three_versions import key, weight

OFFERED = 0.59
"""Where the first candidate has less confidence than this, none is likely: all are only possible."""

PLAIN = 10.0
"""The score of a plain merge."""

WEIGHTS = {
    "1": 2.04,
    "names left": -1.67,
    "rank": -1.39,
    "there": -1.31,
    "conflicts": 1.52,
    "left out": -1.06,
    "lines": -0.40,
    "strays": -0.77,
    "lack": -1.21,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --fit`."""
FEATURES = tuple(WEIGHTS)


def features(steps: Sequence[Option], rank: int, names_left: bool, strays: float) -> tuple[float, ...]:
    """Return what is known of a candidate, in the order of FEATURES.

    That is its steps, how many are ranked before it, whether it has names that the patch removes, and what `stray_lines` says.

    Of the edits that do not merge, their number tells, how many are left out, the share that upstream has, how many lines they
    write, and what their scores lack to a plain merge's; not which other rule made them.
    """
    edits = [step for step in steps if step.rule is not Rule.MERGED and step.rule not in LOSING_NOTHING]
    left_out, there = (sum(1 for step in edits if step.rule is rule) for rule in (Rule.LEFT_OUT, Rule.THERE))
    lines = sum(len(step.lines) for step in edits)
    lack = sum(max(PLAIN - step.score, 0) for step in edits)
    counts = map(math.log1p, (len(edits), left_out, lines, strays, lack))
    return (1.0, float(names_left), float(rank), there / max(len(edits), 1), *counts)


Lines = Counter[bytes]
"""How often each line is in something, by its key."""


def changed_lines(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> tuple[Lines, Lines]:
    """Return the lines that come into files, and those that go."""
    was, now = (Counter(line for data in files for line in split_lines(data or b"")) for files in (before, after))
    added, removed = Lines(), Lines()
    for lines, differ in ((added, now - was), (removed, was - now)):
        for line, times in differ.items():
            lines[key(line)] += times
    return added - removed, removed - added


def stray_lines(patch: tuple[Lines, Lines], upstream: tuple[Lines, Lines], result: tuple[Lines, Lines]) -> float:
    """Return how much the lines tell in which a candidate differs from the patch; each argument is what `changed_lines` returns.

    These are the lines that only one of the two adds or removes, without those that upstream added or removed already, and the
    lines that come twice because upstream and the patch both add them.
    """
    (adds, removes), (added, removed), (now_added, now_removed) = patch, upstream, result
    lines = adds & added & now_added
    for of_patch, of_upstream, of_result in ((adds, added, now_added), (removes, removed, now_removed)):
        lines += (of_patch - of_result - of_upstream) + (of_result - of_patch)
    return sum(weight(line) * times for line, times in lines.items())


def confidence(features: Sequence[float], weights: Iterable[float] = WEIGHTS.values()) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(weights, features, strict=True))))
