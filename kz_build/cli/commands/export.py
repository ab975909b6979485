"""kz export: export a model: its preflight first, its contract last."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.cli.common import json_option, open_project, relative, show
from kz_build.core.errors import ConfigError, NotReadyError

if TYPE_CHECKING:
    from kz_build.export.plan import ExportPlan
    from kz_build.export.preflight_rules import Preflight
    from kz_build.pins.project import Project

EXAMPLE = "tiny-qwen3-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="its name: a file of recipes/ without .yaml")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="every recipe of the project")
    which.add_argument("--show", action="store_true", help="all of one recipe")
    which.add_argument("--dry-run", action="store_true", help="print the commands, the environment and what it needs")
    which.add_argument(
        "--preflight", action="store_true", help="is this machine ready? Everything that is not, at once"
    )
    which.add_argument("--again", metavar="STAGE", default="", help="run this stage and those after it once more")


def run(arguments: argparse.Namespace) -> int:
    from kz_build.export import plan as stage
    from kz_build.export import text as view

    found = open_project(arguments)
    if arguments.list:
        recipes = stage.every(found)
        show(arguments, recipes, view.listing(recipes))
        return 0
    if not arguments.recipe:
        raise ConfigError("kz export: RECIPE is needed", hint="or --list")
    plan = stage.plan(found, arguments.recipe)
    if arguments.show:
        show(arguments, plan.recipe, view.shown(plan.recipe))
    elif arguments.preflight:
        return _preflight(arguments, found, plan)
    elif arguments.dry_run:
        show(arguments, plan, view.plan(plan))
    else:
        return _export(arguments, found, plan)
    return 0


def _export(arguments: argparse.Namespace, project: Project, plan: ExportPlan) -> int:
    from kz_build.export import text as view
    from kz_build.pipeline.export import export_model

    found, ready = export_model(project, plan, arguments.again)
    if found is None:
        return _answers(arguments, ready)
    show(arguments, found, view.exported(found, str(relative(found.path))))
    return 0


def _preflight(arguments: argparse.Namespace, project: Project, plan: ExportPlan) -> int:
    from kz_build.export.preflight import entries, preflight

    found = preflight(project, plan)
    return _answers(arguments, replace(found, checks=(*found.checks, *entries(project, plan.recipe))))


def _answers(arguments: argparse.Namespace, found: Preflight) -> int:
    from kz_build.export.text import preflight as text

    show(arguments, found, text(found))
    if failed := [check.name for check in found.checks if check.failed]:
        raise NotReadyError(f"this machine is not ready for {found.recipe}: {', '.join(failed)}")
    return 0
