"""matrix: the lines x targets that can be built, for the CI system's own matrix."""

from __future__ import annotations

from typing import NamedTuple

from kz_build.pins.project import Project


class Cell(NamedTuple):
    """One build: a target on a line that has all its sources."""

    line: str
    target: str
    platform: str
    abi: str


def matrix(project: Project, only: str | None = None) -> tuple[Cell, ...]:
    """Return every line, or just one, with each target whose sources it has, in the order of pins.yaml."""
    if only:
        project.pins.line(only)
    cells = []
    for line in (only,) if only else project.pins.lines:
        for name in project.pins.targets:
            target = project.pins.target(name, line)
            if set(target["sources"]) <= set(project.pins.line(line)):
                cells.append(Cell(line, name, target["platform"], target["abi"]))
    return tuple(cells)
