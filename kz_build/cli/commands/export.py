"""kz export: export a model, after a preflight, and check its contract."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.cli.common import json_option, listed, open_project, relative, show
from kz_build.core.errors import ConfigError, NotReadyError

if TYPE_CHECKING:
    from kz_build.export.plan import ExportPlan
    from kz_build.export.preflight_rules import Preflight
    from kz_build.pins.project import Project

EXAMPLE = "tiny-qwen3-xnnpack"
ACTIONS = {
    "list": "every recipe",
    "show": "everything in one",
    "preflight": "everything that this machine lacks for one, at once",
}


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    what = f"its name: a file of recipes/ without .yaml; or an action: {listed(ACTIONS)}"
    parser.add_argument("recipe", metavar="RECIPE|ACTION", help=what)
    parser.add_argument("of", metavar="RECIPE", nargs="?", help="the recipe to show or to preflight")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="print the commands, the environment and what it needs")
    which.add_argument("--again", metavar="STAGE", default="", help="run this stage and those after it once more")


def run(arguments: argparse.Namespace) -> int:
    from kz_build.export import plan as stage
    from kz_build.export import text as view

    action = arguments.recipe if arguments.recipe in ACTIONS else ""
    if bool(arguments.of) != (action in ("show", "preflight")):
        raise ConfigError(
            f"kz export: RECIPE is needed after {action}"
            if action and not arguments.of
            else "kz export takes one RECIPE",
            hint="kz export list names them",
        )
    if action and (arguments.dry_run or arguments.again):
        raise ConfigError(f"kz export {action}: --dry-run and --again go with RECIPE alone")
    project = open_project(arguments)
    if action == "list":
        recipes = stage.every(project)
        show(arguments, recipes, view.listing(recipes))
        return 0
    plan = stage.plan(project, arguments.of or arguments.recipe)
    if action == "preflight":
        return _preflight(arguments, project, plan)
    if action == "show":
        show(arguments, plan.recipe, view.shown(plan.recipe))
    elif arguments.dry_run:
        show(arguments, plan, view.plan(plan))
    else:
        return _export(arguments, project, plan)
    return 0


def _export(arguments: argparse.Namespace, project: Project, plan: ExportPlan) -> int:
    from kz_build.export import text as view
    from kz_build.pipeline.export import export_model

    exported, ready = export_model(project, plan, arguments.again)
    if exported is None:
        return _answers(arguments, ready)
    show(arguments, exported, view.exported(exported, str(relative(exported.path))))
    return 0


def _preflight(arguments: argparse.Namespace, project: Project, plan: ExportPlan) -> int:
    from kz_build.export.preflight import preflight, smoke_checks

    ready = preflight(project, plan)
    return _answers(arguments, replace(ready, checks=(*ready.checks, *smoke_checks(project, plan.recipe))))


def _answers(arguments: argparse.Namespace, ready: Preflight) -> int:
    from kz_build.export.text import preflight as text

    show(arguments, ready, text(ready))
    if failed := [check.name for check in ready.checks if check.failed]:
        raise NotReadyError(f"this machine is not ready for {ready.recipe}: {', '.join(failed)}")
    return 0
