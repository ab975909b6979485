"""All facts of a report, from records and the store. Nothing is fetched, judged or built for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kz_build
from kz_build.core.errors import LockError
from kz_build.export.load import recipes
from kz_build.pins.project import Project
from kz_build.report.facts import (
    BuildFacts,
    DeviceFacts,
    ExportFacts,
    Facts,
    PinFacts,
    RadarFacts,
    StackFacts,
)
from kz_build.report.pair_facts import pair_facts
from kz_build.report.pin_facts import pin_facts, together
from kz_build.report.radar_facts import radar_facts
from kz_build.report.record_facts import build_facts, device_facts, export_facts, records
from kz_build.report.report import report
from kz_build.report.stack_facts import Applied, stack_facts


def collect(project: Project, lines: Sequence[str]) -> Facts:
    """Return the facts of these lines. Raises LockError for a record that kz did not write."""
    try:
        return _collect(project, lines)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LockError(
            f"a record in {project.out('')} or {project.root / 'dist'} was not written by this kz:"
            f" {type(error).__name__}: {error}",
            hint="run the stage that wrote it again: kz build, kz export, kz device or kz radar --open",
        ) from error


def _collect(project: Project, lines: Sequence[str]) -> Facts:
    reports = {line: report(project, line) for line in lines}
    overrides: dict[tuple[str, str], None] = {}
    builds: list[BuildFacts] = []
    exports: list[ExportFacts] = []
    devices: list[DeviceFacts] = []
    pins: list[PinFacts] = []
    stacks: list[StackFacts] = []
    radars: list[RadarFacts] = []
    for line in lines:
        rows = reports[line]["overrides"]
        overrides |= {(str(o["where"]), str(o["value"])): None for o in rows} if isinstance(rows, list) else {}
        mine = build_facts(project, line), export_facts(project, line), device_facts(project, line)
        builds += mine[0]
        exports += mine[1]
        devices += mine[2]
        pins += pin_facts(project, line, mine[0])
        stacks += stack_facts(project, line, _applied(reports[line]))
        radars += radar_facts(project, line)
    return Facts(
        kz=kz_build.__version__,
        lines=tuple(lines),
        overrides=tuple(overrides),
        stacks=tuple(stacks),
        radars=tuple(radars),
        builds=tuple(builds),
        exports=tuple(exports),
        devices=tuple(devices),
        pairs=tuple(pair_facts(project, builds, exports, devices)),
        pins=together(pins),
        reproduced=tuple(_reproduced(project, lines)),
        reports=reports,
        builds_nothing=not project.pins.targets and not recipes(project.root, project.pins),
    )


def _applied(report: Mapping[str, Any]) -> Applied:
    """Return the verdicts on the stacks that builds of a line applied."""
    stacks = [stack for record in report.get("build", {}).values() for stack in record["stacks"]]
    return {(stack["source"], stack["base"]): stack["patches"] for stack in stacks}


def _reproduced(project: Project, lines: Sequence[str]) -> list[tuple[str, str, bool]]:
    return [
        (line, r.path.parent.name, r.get("same", bool)) for line in lines for r in records(project, "reproduce", line)
    ]
