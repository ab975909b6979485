"""kz env: make the environment that a recipe runs in."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, open_project, show

EXAMPLE = "tiny-qwen3-xnnpack --shell"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("recipe", metavar="RECIPE", help="its name: a file of recipes/ without .yaml")
    parser.add_argument(
        "--shell", action="store_true", help='print it as lines for a shell: eval "$(kz env R --shell)"'
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.command_log import Commands, new_log_folder
    from kz_build.core.terminal import Live
    from kz_build.export import text as view
    from kz_build.export.environment import prepare
    from kz_build.export.load import named

    project = open_project(arguments)
    recipe = named(project.root, project.pins, arguments.recipe)
    with Live() as live:
        environment = prepare(project, recipe, Commands(new_log_folder(project.out("log"))), live.event)
    if arguments.shell:
        print(view.shell(environment))
    else:
        show(arguments, environment, view.environment(recipe.name, environment))
