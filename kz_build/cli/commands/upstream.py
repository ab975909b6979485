"""kz upstream: prepare a patch for a pull request: rebase and lint it."""

from __future__ import annotations

import argparse

from kz_build.cli.common import (
    STEPS,
    WHOSE,
    line_option,
    listed,
    locked_project,
    onto_option,
    show,
    take_step,
    watching,
)
from kz_build.core.errors import ConfigError

EXAMPLE = "0001"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    what = f"its file name, number or subject; or a step of one that stopped: {listed(STEPS)}"
    parser.add_argument("patch", metavar="PATCH|STEP", help=what)
    parser.add_argument("--source", metavar="S", default="", help=WHOSE)
    onto_option(parser, "its new base (default: upstream's own branch)")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.submit import resume, submit_patch
    from kz_build.stack.text import ready

    with locked_project(arguments) as project, watching() as watch:
        line = arguments.line or ""
        if arguments.onto and arguments.patch in STEPS:
            raise ConfigError(f"kz upstream: --onto goes with a patch, not with {arguments.patch}")
        if arguments.patch == "continue":
            done = resume(project, line, arguments.source)
        elif arguments.patch in STEPS:
            take_step(arguments, project, "upstream", arguments.patch)
            return
        else:
            own = line or project.pins.default
            done = submit_patch(project, own, arguments.source, arguments.patch, arguments.onto, watch)
    show(arguments, done, ready(done))
