"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kz_build.resolve.option import OF_A_FILE, Option, Rule

OFFERED = 0.55
"""Where the first candidate has less confidence than this, none is offered."""

WEIGHTS = {
    "1": 2.09,
    "conflicts": -1.96,
    "left out": -2.46,
    "rank": -1.59,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --half tuned --fit`."""
FEATURES = tuple(WEIGHTS)


def features(steps: Sequence[Option], rank: int) -> tuple[float, ...]:
    """Return what is known of a candidate: its steps, and how many are ranked before it. In the order of FEATURES.

    Of the edits that do not merge, only their number tells, not which rule made them nor with what score.
    """
    rules = [step.rule for step in steps if step.rule is not Rule.MERGED and step.rule not in OF_A_FILE]
    return (1.0, math.log1p(len(rules)), math.log1p(rules.count(Rule.LEFT_OUT)), float(rank))


def confidence(features: Sequence[float]) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(WEIGHTS.values(), features, strict=True))))
