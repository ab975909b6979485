"""kz import-pr: take a pull request, or some files of it, as patches."""

from __future__ import annotations

import argparse

from kz_build.cli.common import DROPS, WHOSE, line_option, listed, locked_project, show, take_step, watching
from kz_build.core.errors import ConfigError

EXAMPLE = "19146 --path backends/qualcomm"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    what = f"the pull request, or a step of one that stopped: {listed(DROPS)}"
    parser.add_argument("number", metavar="N|STEP", type=number_or_step, help=what)
    parser.add_argument("--source", metavar="S", default="", help=WHOSE)
    parser.add_argument(
        "--path", metavar="P", action="extend", nargs="+", default=[], help="only these files or folders of it"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.import_pr import import_pr
    from kz_build.stack.text import written_stack

    with locked_project(arguments) as project, watching() as watch:
        if arguments.number in DROPS:
            if arguments.path:
                raise ConfigError(f"kz import-pr: --path goes with a number, not with {arguments.number}")
            take_step(arguments, project, "import-pr", arguments.number)
            return
        line = arguments.line or project.pins.default
        done = import_pr(project, line, arguments.source, arguments.number, arguments.path, watch)
    show(arguments, done, written_stack(done))


def number_or_step(text: str) -> int | str:
    return text if text in DROPS else int(text)
