"""The export of a recipe: preflight, environment, stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.core.command_log import Commands, new_log_folder
from kz_build.core.terminal import Live
from kz_build.export import run as stage
from kz_build.export.environment import prepare
from kz_build.export.preflight import preflight, smoke_check
from kz_build.export.text_progress import ProgressLine

if TYPE_CHECKING:
    from kz_build.core.check import Check
    from kz_build.export.plan import ExportPlan
    from kz_build.export.preflight_rules import Preflight
    from kz_build.export.run import Exported
    from kz_build.pins.project import Project


def export_model(project: Project, plan: ExportPlan, again: str = "") -> tuple[Exported | None, Preflight]:
    """Return (the model, or None if this machine is not ready for it; the preflight). `again` names a stage to run again."""
    ready = preflight(project, plan)
    if failures(ready):
        return None, ready
    commands = Commands(new_log_folder(project.out("log")))
    with Live() as live:
        for check in ready.checks:
            if check.status == "WARN":
                live.note(f"WARN  {check.name}: {check.evidence}")
        environment = prepare(project, plan.recipe, commands, live.event)
    key = stage.keys(project, plan.recipe, environment)[1]
    if not again and (exported := stage.done(plan, key)):
        return exported, ready
    ready = replace(ready, checks=(*ready.checks, *smoke_check(plan.recipe, environment)))
    if failures(ready):
        return None, ready
    with ProgressLine() as course:
        return stage.export_recipe(project, plan, environment, commands, course.moment, again_from=again), ready


def failures(ready: Preflight) -> tuple[Check, ...]:
    """Return the checks that keep a recipe from running here."""
    return tuple(check for check in ready.checks if check.failed)
