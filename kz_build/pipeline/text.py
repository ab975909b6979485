"""The text of `kz all`: its table, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import wrapped

if TYPE_CHECKING:
    from kz_build.pipeline.stages import Lack, Row

_INDENT = " " * 26


def lacks(stages: Sequence[Lack]) -> str:
    """List the stages that will be skipped, and what each would take."""
    rows = []
    for one in stages:
        rows.append(f"{one.stage} will be skipped, it needs:")
        for item in one.missing:
            rows.append(wrapped(f"  {item.what}: {item.why}", "     "))
            rows += [f"  -> {way}" for way in item.remedy.splitlines()]
    return "\n".join(rows)


def table(title: str, rows: Sequence[Row]) -> str:
    """Return a table of stage, result, seconds, and where its report is or why there is none."""
    lines = [title, f"{'stage':8}  result  seconds  report"]
    for row in rows:
        seconds = "-" if row.seconds is None else f"{row.seconds:,.1f}"
        report = row.report.splitlines()[0] if row.report else ""
        lines.append(wrapped(f"{row.stage:8}  {row.status.value:6} {seconds:>8}  {report}", _INDENT))
    return "\n".join(lines)
