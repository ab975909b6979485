"""What changed between two results, as text of 80 columns, and as Markdown for the job summary and for issues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kz_build.core.escape import cell, one_line, wrap

if TYPE_CHECKING:
    from kz_build.report.diff import Change, ReportDiff

_LONGEST = 300
"""Characters of evidence in a table; the report has all of it."""


def table(diff: ReportDiff) -> str:
    """Show each change by what it means, those that fail first."""
    rows = [f"{diff.new}: {_counts(diff.changes)}"]
    for kind, changes in groupby(diff.changes, key=lambda change: change.kind):
        rows += ["", f"{kind.value}:"]
        for one in changes:
            rows += wrap(one_line(_subject(one)), "  ")
            rows += wrap(one_line(f"{one.before or 'absent'} -> {_now(one)}"), " " * 6)
    return "\n".join(rows)


def markdown(diff: ReportDiff, before: str) -> str:
    """Return the same as a table with a heading; `before` is what the old report is called."""
    head = f"### Changes of {cell(diff.new)} since {cell(before)}\n\n{_counts(diff.changes)}\n"
    return "\n".join([head, *rows(diff.changes), ""])


def rows(changes: Sequence[Change]) -> list[str]:
    """Return the rows of a table in Markdown, its head too; nothing for no changes."""
    if not changes:
        return []
    bodies = []
    for one in changes:
        cells = (cell(text) for text in (_subject(one), one.before or "absent", _now(one)))
        bodies.append(f"| {one.kind.value} | " + " | ".join(cells) + " |")
    return ["| | what | before | now |", "|---|---|---|---|", *bodies]


def _subject(change: Change) -> str:
    return " ".join(filter(None, (change.stage, change.where, change.what)))


def _now(change: Change) -> str:
    return ": ".join(filter(None, (change.now or "absent", change.evidence[:_LONGEST])))


def _counts(changes: Sequence[Change]) -> str:
    """Say how many changes there are of each kind."""
    counts = [f"{len(list(group))} {kind.value}" for kind, group in groupby(changes, key=lambda change: change.kind)]
    return ", ".join(counts) or "nothing changed"
