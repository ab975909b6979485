"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kz_build.resolve.option import OF_A_FILE, Option, Rule

OFFERED = 0.55
"""Where the first candidate has less confidence than this, none is likely: those that there are may be right."""
SURE = 8.0
"""The score of an edit from which on its place is beyond doubt."""

WEIGHTS = {
    "1": 1.83,
    "doubts": -1.35,
    "names left": -1.36,
    "rank": -1.47,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --fit`."""
FEATURES = tuple(WEIGHTS)


def features(steps: Sequence[Option], rank: int, names_left: bool) -> tuple[float, ...]:
    """Return what is known of a candidate, in the order of FEATURES.

    That is how much the scores of all its edits that do not merge lack to SURE, how many candidates are ranked before it, and
    whether it has names that the patch removes.
    """
    edits = [step for step in steps if step.rule is not Rule.MERGED and step.rule not in OF_A_FILE]
    doubts = sum(max(SURE - step.score, 0.0) for step in edits)
    return (1.0, math.log1p(doubts), float(names_left), float(rank))


def confidence(features: Sequence[float], weights: Iterable[float] = WEIGHTS.values()) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(weights, features, strict=True))))
