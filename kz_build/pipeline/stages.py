"""The runner of `kz all`'s stages: what each needs, how it went, what it lacked, and the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kz_build.core.check import Status
from kz_build.core.errors import KzError, Missing
from kz_build.core.plain_json import plain
from kz_build.core.stage_record import StageRecord
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project


@dataclass(frozen=True)
class Step:
    """A stage: the stages that must pass before it, and why it is skipped, if it is. `run` returns where its report is."""

    name: str
    run: Callable[[], str]
    after: tuple[str, ...] = ()
    skip: str = ""


@dataclass(frozen=True)
class Row:
    """How a stage went. `report` is the path of its report, or why there is none; `seconds` is None if it did not run."""

    stage: str
    status: Status
    seconds: float | None
    report: str
    exit_code: int = 0


@dataclass(frozen=True)
class Lack:
    """A stage that this machine cannot run, and what it would take. If it is `required`, nothing starts."""

    stage: str
    missing: tuple[Missing, ...]
    required: bool


def walk(steps: Sequence[Step], watch: Callable[[str], object]) -> tuple[tuple[Row, ...], KzError | None]:
    """Run the stages and return (how each went, the first failure). After a failure only the stages that need it are skipped."""
    rows: dict[str, Row] = {}
    first: KzError | None = None
    for step in steps:
        bad = [name for name in step.after if name in rows and rows[name].status is not Status.PASS]
        if step.skip or bad:
            rows[step.name] = Row(step.name, Status.SKIP, None, step.skip or f"needs {bad[0]}")
            continue
        watch(step.name)
        started = time.monotonic()
        try:
            report, code = step.run(), 0
        except KzError as error:
            report, code, first = str(error), error.exit_code, first or error
        seconds = round(time.monotonic() - started, 1)
        rows[step.name] = Row(step.name, Status.FAIL if code else Status.PASS, seconds, report, code)
    return tuple(rows.values()), first


def record(project: Project, line: str, target: str, rows: Sequence[Row], lacks: Sequence[Lack]) -> None:
    """Save the record of all stages, for the report."""
    facts = {"line": line, "target": target, "stages": plain(rows), "lacks": plain(lacks)}
    StageRecord(project.record("all", line, target), digest_of(facts), facts=facts).save()
