"""How sizes, times and figures of devices went over the reports that are remembered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kz_build.report.size import KINDS

if TYPE_CHECKING:
    from kz_build.report.history import History

MOST_STEPS = 12
"""The newest ones are shown."""


class Step(NamedTuple):
    """A build that was another than the one before: the number of its report, counted from the oldest."""

    report: int
    parts: Mapping[str, int]
    total: int
    change: int


class SizeTrend(NamedTuple):
    """A file over its builds."""

    name: str
    steps: tuple[Step, ...]


class Build(NamedTuple):
    """A build of a target, by the start of its key."""

    report: int
    name: str
    key: str
    seconds: float


def size_trends(history: History) -> tuple[SizeTrend, ...]:
    """Return the files whose size changed between reports, with their sizes."""
    names = sorted({name for run in history.runs for name in run.sizes})
    trends = []
    for name in names:
        steps: list[Step] = []
        for number, run in enumerate(history.runs, 1):
            parts = run.sizes.get(name)
            if parts and (not steps or parts != steps[-1].parts):
                total = sum(parts.values())
                ordered = {kind: parts[kind] for kind in KINDS if kind in parts}
                steps.append(Step(number, ordered, total, total - steps[-1].total if steps else 0))
        if len(steps) > 1:
            trends.append(SizeTrend(name, tuple(steps[-MOST_STEPS:])))
    return tuple(trends)


def build_trend(history: History) -> tuple[Build, ...]:
    """Return the builds of all reports, each once, if there is more than one of a target."""
    builds: list[Build] = []
    last: dict[str, tuple[str, float]] = {}
    for number, run in enumerate(history.runs, 1):
        for name, built in run.builds.items():
            if last.get(name) != built:
                builds.append(Build(number, name, *built))
            last[name] = built
    return tuple(builds[-MOST_STEPS:]) if len(builds) > len(last) else ()


def figure_trends(history: History) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return by device and title the medians of each figure over all reports, where they differ from the one before."""
    trends: dict[tuple[str, str], list[float]] = {}
    for run in history.runs:
        for device, figures in run.figures.items():
            for title, median in figures.items():
                medians = trends.setdefault((device, title), [])
                if medians[-1:] != [median]:
                    medians.append(median)
    return {name: tuple(medians) for name, medians in trends.items()}
