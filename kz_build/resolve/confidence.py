"""How often a candidate is what a maintainer makes of the conflict, by the steps that made it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kz_build.resolve.option import OF_A_FILE, Option, Rule

OFFERED = 0.65
"""Where the first candidate has less confidence than this, none is offered."""

WEIGHTS = {
    "1": 1.60,
    "conflicts": -1.04,
    "left out": -2.24,
    "either order": -0.83,
    "rewritten": -0.21,
    "names left": -1.35,
    "rank": -1.82,
}
"""A logistic regression, from `benchmarks/candidates.py CASES --fit`."""
FEATURES = tuple(WEIGHTS)


def features(steps: Sequence[Option], rank: int, names_left: bool) -> tuple[float, ...]:
    """Return what is known of a candidate, in the order of FEATURES.

    That is its steps, how many are ranked before it, and whether it has names that the patch removes.

    Of the edits that do not merge, their number tells, how many of the lines around them upstream rewrote, and whether both
    sides inserted at one place; not which rule made them nor with what score.
    """
    edits = [step for step in steps if step.rule is not Rule.MERGED and step.rule not in OF_A_FILE]
    left_out = sum(1 for step in edits if step.rule is Rule.LEFT_OUT)
    either_order = sum(1 for step in edits if _either_order(step))
    rewritten = sum(len(step.was) for step in edits)
    return (1.0, *map(math.log1p, (len(edits), left_out, either_order, rewritten)), float(names_left), float(rank))


def _either_order(step: Option) -> bool:
    """Whether upstream inserted lines, and nothing else, where the patch does."""
    return step.rule in (Rule.PLACED, Rule.REPLAYED) and step.start == step.end and bool(step.now) and not step.was


def confidence(features: Sequence[float], weights: Iterable[float] = WEIGHTS.values()) -> float:
    """Return the share of candidates with such features that are right."""
    return 1 / (1 + math.exp(-sum(weight * value for weight, value in zip(weights, features, strict=True))))
