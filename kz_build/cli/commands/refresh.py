"""kz refresh: write an edited stack back to its files."""

from __future__ import annotations

import argparse

from kz_build.cli.common import WHOSE, line_option, locked_project, show

EXAMPLE = "executorch"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("source", nargs="?", default="", help=WHOSE)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.edit import meant_edit, refresh
    from kz_build.stack.text import written_stack

    with locked_project(arguments) as project:
        done = refresh(project, *meant_edit(project, arguments.line or "", arguments.source))
    show(arguments, done, written_stack(done))
