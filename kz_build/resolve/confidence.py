"""How often a candidate with such steps is what a maintainer makes of the conflict."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.resolve.option import Option


def confidence(steps: Sequence[Option], rank: int) -> float:
    """Return the share of candidates with such steps, at this rank from 0, that are right."""
    return min((step.score for step in steps), default=10.0) / 10 / (1 + rank)
