"""kz upstream: make a patch ready for a pull request: rebased and linted."""

from __future__ import annotations

import argparse

from kz_build.cli.common import GOES_ON, Once, changing, line_option, show, step_options, stepped, watching
from kz_build.core.errors import ConfigError

EXAMPLE = "0001"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("patch", metavar="PATCH", nargs="?", help="its file name, number or subject")
    parser.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    parser.add_argument("--onto", metavar="REV", action=Once, default="main", help="where it shall go (default: main)")
    step_options(parser, **GOES_ON)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.stack.submit import resume, submit_patch
    from kz_build.stack.text import ready

    with changing(arguments) as project, watching() as watch:
        line = arguments.line or ""
        if arguments.step == "continue":
            done = resume(project, line, arguments.source)
        elif stepped(arguments, project, "upstream"):
            return 0
        elif not arguments.patch:
            raise ConfigError("kz upstream: PATCH is needed", hint="its file name, number or subject")
        else:
            own = line or project.pins.default
            done = submit_patch(project, own, arguments.source, arguments.patch, arguments.onto, watch)
    show(arguments, done, ready(done))
    return 0
