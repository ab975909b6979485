"""The places of rectangles and dots in the page's drawings, all in percent: a drawing is as wide as its cell. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kz_build.report.facts import ExportFacts, Figure, StackFacts

_MOST_TICKS = 8


class Box(NamedTuple):
    """A rectangle from `x`, `width` wide; `kind` is its class in the style sheet, `title` what it says."""

    x: str
    width: str
    kind: str
    title: str
    y: str = "0%"
    height: str = "100%"


class Tick(NamedTuple):
    """A label of an axis."""

    x: str
    label: str


class Mark(NamedTuple):
    """A dot or a line at one place; `anchor` is that of its text."""

    x: str
    title: str
    anchor: str = "middle"


def percent(part: float, whole: float) -> str:
    """Return a share in percent, from 0 to 100."""
    return f"{min(100.0, max(0.0, part / whole * 100 if whole else 0.0)):.2f}".rstrip("0").rstrip(".") + "%"


def stacked(parts: Iterable[tuple[str, float]], whole: float, unit: str = "") -> list[Box]:
    """Return named amounts as one bar; `whole` is the amount that fills the cell."""
    boxes, at = [], 0.0
    for kind, amount in parts:
        boxes.append(Box(percent(at, whole), percent(amount, whole), kind, f"{kind}: {amount:,g}{unit}"))
        at += amount
    return boxes


class Period(NamedTuple):
    """The days that a timeline shows."""

    start: str
    end: str

    def x(self, date: str) -> str:
        """Return the place of a day."""
        return percent(self.days(self.start, date), self.days(self.start, self.end))

    def days(self, start: str, end: str) -> int:
        """Return the days between two dates."""
        return _day(end) - _day(start)

    def ticks(self) -> list[Tick]:
        """Return the firsts of months, as many as have room."""
        first, last = datetime.date.fromisoformat(self.start), datetime.date.fromisoformat(self.end)
        months = (last.year - first.year) * 12 + last.month - first.month
        step = max(1, -(-months // _MOST_TICKS))
        ticks = []
        for month in range(step, months + 1, step):
            year, index = divmod(first.month - 1 + month, 12)
            day = f"{first.year + year:04d}-{index + 1:02d}-01"
            ticks.append(Tick(self.x(day), day[:7]))
        return ticks


def _day(date: str) -> int:
    return datetime.date.fromisoformat(date).toordinal()


def period(stacks: Sequence[StackFacts]) -> Period | None:
    """Return the days over which these stacks' patches were judged, None without any."""
    spans = [span for stack in stacks for patch in stack.patches for span in patch.spans if span.start and span.end]
    if not spans:
        return None
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    return Period(start, end) if start < end else None


class Memory(NamedTuple):
    """An export's memory over its time: a box for each phase, `lines` for what its recipe says it needs."""

    boxes: tuple[Box, ...]
    lines: tuple[Mark, ...]


def memory(model: ExportFacts) -> Memory:
    """Return the memory that each phase held at most, against the preflight's lines."""
    peaks = [phase.ram + phase.swap for _, phase in model.phases]
    needs = [(name, need) for name, need in (("at least", model.least), ("at most", model.most)) if need]
    top = max([*peaks, *(need for _, need in needs), 1]) * 1.05
    seconds = sum(phase.seconds for _, phase in model.phases)
    boxes, at = [], 0.0
    for (stage, phase), peak in zip(model.phases, peaks, strict=True):
        title = f"{stage}, {phase.name}: {phase.seconds:,g} s, at most {peak / 1e9:,.2f} GB"
        place = percent(at, seconds), percent(phase.seconds, seconds)
        boxes.append(Box(*place, "memory", title, percent(top - peak, top), percent(peak, top)))
        at += phase.seconds
    lines = tuple(Mark(percent(top - need, top), f"{name} {need / 1e9:,g} GB needed") for name, need in needs)
    return Memory(tuple(boxes), lines)


class Dots(NamedTuple):
    """A figure's runs as dots, its baseline's band as a box."""

    runs: tuple[Mark, ...]
    median: str
    band: Box | None


def dots(figure: Figure) -> Dots:
    """Return the runs of a figure on a scale from 0."""
    top = max([*figure.runs, *(figure.band or ())]) * 1.08 or 1.0
    band = None
    if figure.band:
        low, high = figure.band
        title = f"baseline's band: {low:,.4g} to {high:,.4g} {figure.unit}"
        band = Box(percent(low, top), percent(high - low, top), "band", title)
    runs = tuple(Mark(percent(run, top), f"{run:,.4g} {figure.unit}") for run in figure.runs)
    return Dots(runs, percent(figure.median, top), band)


class Point(NamedTuple):
    """A median of an earlier report, or of this one."""

    x: str
    y: str
    title: str


def trend(medians: Sequence[float], unit: str) -> tuple[Point, ...]:
    """Return the places of medians, oldest first, on a scale from the least to the most of them; () for fewer than two."""
    least, most = min(medians, default=0.0), max(medians, default=0.0)
    if least == most:
        return ()
    return tuple(
        Point(percent(at, len(medians) - 1), percent(most - median, most - least), f"{median:,.4g} {unit}")
        for at, median in enumerate(medians)
    )
