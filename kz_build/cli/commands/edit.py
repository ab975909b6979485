"""kz edit: turn a stack into commits in a worktree, to change them."""

from __future__ import annotations

import argparse

from kz_build.cli.common import line_option, locked_project, show, watching

EXAMPLE = "executorch"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    throw = "delete the worktree, with what was not refreshed"
    parser.add_argument("step", metavar="abort", nargs="?", choices=("abort",), help=throw)
    parser.add_argument("source")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.errors import ConfigError
    from kz_build.stack.edit import edit
    from kz_build.stack.rebase import abort
    from kz_build.stack.text import aborted, edit_result

    with locked_project(arguments) as project, watching() as watch:
        if arguments.source == "status" and not arguments.step and "status" not in project.pins.data["sources"]:
            raise ConfigError("kz edit has no step status", hint="kz status shows the worktrees")
        line = arguments.line or project.pins.default
        if arguments.step:
            dropped = abort(project, "edit", line, arguments.source)
            show(arguments, dropped, aborted(dropped))
            return
        result = edit(project, line, arguments.source, watch)
    show(arguments, result, edit_result(result))
