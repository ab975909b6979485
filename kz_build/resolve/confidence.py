"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kz_build.resolve.option import Option, Rule

OFFERED = 0.55
"""Where the first candidate has less confidence than this, none is offered."""

WEIGHTS = {
    "1": 0.48,
    "worst score": 1.44,
    "doubt": -1.39,
    "rank": -0.93,
    "overridden": -2.46,
    "left out": -0.66,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --half tuned --fit`; `doubt` is what all steps' scores lack."""
FEATURES = tuple(WEIGHTS)
_MOST_DOUBT = 3.0


def features(steps: Sequence[Option], rank: int) -> tuple[float, ...]:
    """Return what is known of a candidate: its steps, and how many are ranked before it. In the order of FEATURES."""
    rules = {step.rule for step in steps}
    worst = min((step.score for step in steps), default=10.0)
    doubt = sum(max(10 - step.score, 0) for step in steps) / 10
    out = bool(rules & {Rule.LEFT_OUT, Rule.FILE_GONE, Rule.ADDED_TWICE})
    return (1.0, worst / 10, min(doubt, _MOST_DOUBT), float(rank), float(Rule.OVERRIDDEN in rules), float(out))


def confidence(features: Sequence[float]) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(WEIGHTS.values(), features, strict=True))))
