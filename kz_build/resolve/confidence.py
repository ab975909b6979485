"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kz_build.resolve.option import Option, Rule

OFFERED = 0.55
"""Where the first candidate has less confidence than this, none is offered."""

WEIGHTS = {
    "1": 0.73,
    "worst score": 1.62,
    "steps": -1.67,
    "rank": -0.96,
    "overridden": -1.81,
    "left out": -0.92,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --half tuned --fit`; `steps` are those that are no plain merges."""
FEATURES = tuple(WEIGHTS)


def features(steps: Sequence[Option], rank: int) -> tuple[float, ...]:
    """Return what is known of a candidate: its steps, and how many are ranked before it. In the order of FEATURES."""
    rules = {step.rule for step in steps}
    worst = min((step.score for step in steps), default=10.0)
    unsure = sum(1 for step in steps if step.rule is not Rule.MERGED)
    out = bool(rules & {Rule.LEFT_OUT, Rule.FILE_GONE, Rule.ADDED_TWICE})
    return (1.0, worst / 10, math.log1p(unsure), float(rank), float(Rule.OVERRIDDEN in rules), float(out))


def confidence(features: Sequence[float]) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(WEIGHTS.values(), features, strict=True))))
