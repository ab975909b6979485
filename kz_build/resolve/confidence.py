"""How often a candidate with such steps is what a maintainer makes of the conflict."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.resolve.option import Option


def confidence(steps: Sequence[Option], rank: int) -> float:
    """Return the share of candidates with such steps, at this rank from 0, that are right."""
    return min([9.9, *(step.score for step in steps)]) / 10 / (1 + rank)
