"""kz import-pr: take a pull request, or some files of it, as patches."""

from __future__ import annotations

import argparse

from kz_build.cli.common import DROPS, changing, line_option, show, step_options, stepped, watching
from kz_build.core.errors import ConfigError

EXAMPLE = "19146 --path backends/qualcomm"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("number", metavar="N", nargs="?", type=int, help="the pull request")
    parser.add_argument("--source", metavar="S", default="", help="whose (default: the line's only git source)")
    parser.add_argument(
        "--path", metavar="P", action="extend", nargs="+", default=[], help="only these files or folders of it"
    )
    step_options(parser, **DROPS)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.stack.import_pr import import_pr
    from kz_build.stack.text import written_stack

    with changing(arguments) as project, watching() as watch:
        if stepped(arguments, project, "import-pr"):
            return 0
        if not arguments.number:
            raise ConfigError("kz import-pr: N, the number of a pull request, is needed", hint="kz import-pr --help")
        line = arguments.line or project.pins.default
        done = import_pr(project, line, arguments.source, arguments.number, arguments.path, watch)
    show(arguments, done, written_stack(done))
    return 0
