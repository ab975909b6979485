"""kz export: export a model, after a preflight, and check its contract."""

from __future__ import annotations

import argparse
from dataclasses import replace

from kz_build.cli.common import json_option, listed, open_project, relative, show
from kz_build.core.errors import ConfigError, NotReadyError

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


def run(arguments: argparse.Namespace) -> None:
    from kz_build.export import text as view
    from kz_build.export.load import recipes
    from kz_build.export.plan import plan

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
        every = recipes(project.root, project.pins)
        show(arguments, every, view.listing(every))
        return
    planned = plan(project, arguments.of or arguments.recipe)
    if action == "show":
        show(arguments, planned.recipe, view.shown(planned.recipe))
        return
    if arguments.dry_run:
        show(arguments, planned, view.plan(planned))
        return
    from kz_build.core.terminal import Live
    from kz_build.export.preflight import preflight, smoke_checks
    from kz_build.export.run import export_model

    exported = None
    if action == "preflight":
        ready = preflight(project, planned)
        ready = replace(ready, checks=(*ready.checks, *smoke_checks(project, planned.recipe)))
    else:
        with Live() as live:
            exported, ready = export_model(project, planned, live.event, live.note, again_from=arguments.again)
    if exported:
        show(arguments, exported, view.exported(exported, str(relative(exported.path))))
        return
    show(arguments, ready, view.preflight(ready))
    if ready.failed:
        raise NotReadyError(
            f"this machine is not ready for {ready.recipe}: {', '.join(check.name for check in ready.failed)}"
        )
