"""The patches of a source on its versions: the table, and what stands behind each cell. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kz_build.report.facts import Cell, PatchFacts, StackFacts
from kz_build.report.line_diff import LineDiff, line_diff

if TYPE_CHECKING:
    from kz_build.upstream.verify import Version

SIGNS = {"applies": "✓", "moved": "✓", "upstreamed": "↑", "merged": "~", "broken": "✕", "unknown": "?"}
"""A sign beside each state's colour."""


class Note(NamedTuple):
    """What is behind cells of a patch that say the same, and on which versions they do."""

    cell: Cell
    versions: tuple[str, ...]


class Row(NamedTuple):
    """A patch: its cells, and their notes under `anchor`."""

    anchor: str
    patch: PatchFacts
    cells: tuple[Cell, ...]
    notes: tuple[Note, ...]


class HeatMap(NamedTuple):
    """One stack's table. `older` counts the versions that are left out; `since` compares with the line before."""

    stack: StackFacts
    versions: tuple[Version, ...]
    older: int
    rows: tuple[Row, ...]
    since: LineDiff | None


def heat_maps(stacks: Sequence[StackFacts]) -> tuple[HeatMap, ...]:
    """Return a table for each stack, from the release before the oldest pin of its source on."""
    maps = []
    for number, stack in enumerate(stacks, 1):
        pins = {other.pin for other in stacks if other.source == stack.source}
        places = [place for place, version in enumerate(stack.versions) if version.name in pins]
        first = max(0, min(places, default=1) - 1)
        versions = stack.versions[first:]
        rows = [
            Row(f"p{number}-{k}", patch, patch.cells[first:], tuple(_notes(patch.cells[first:], versions)))
            for k, patch in enumerate(stack.patches, 1)
        ]
        maps.append(HeatMap(stack, versions, first, tuple(rows), line_diff(stack, stacks)))
    return tuple(maps)


def _notes(cells: Sequence[Cell], versions: Sequence[Version]) -> list[Note]:
    together: dict[Cell, list[str]] = {}
    for cell, version in zip(cells, versions, strict=False):
        if cell.details or cell.change:
            together.setdefault(cell, []).append(version.name)
    return [Note(cell, tuple(names)) for cell, names in together.items()]
