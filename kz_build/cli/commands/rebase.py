"""kz rebase: move a stack and its pin to another version of upstream."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kz_build.cli.common import (
    DROPS,
    Once,
    engine_option,
    line_option,
    listed,
    locked_project,
    run_in_build_image,
    show,
    take_step,
    watching,
)
from kz_build.core.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    from kz_build.pins.project import Project

EXAMPLE = "--line et-1.4 --onto main --as et-next"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("--source", metavar="S", default="", help="whose stack (default: the line's only git source)")
    parser.add_argument(
        "step", metavar="STEP", nargs="?", choices=tuple(DROPS), help=f"of one that stopped: {listed(DROPS)}"
    )
    parser.add_argument("--onto", metavar="REV", action=Once, default="", help="tag, branch or commit of upstream")
    parser.add_argument("--as", dest="into", metavar="LINE", default="", help="write it as a new line; this one stays")
    parser.add_argument(
        "--keep",
        metavar="PATCH",
        action="append",
        default=[],
        help="apply this patch even if upstream has its change (its file name, number or subject; can be repeated)",
    )
    engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.stack.rebase import rebase
    from kz_build.stack.text import written_stack

    with locked_project(arguments) as project, watching() as watch:
        if arguments.step:
            if arguments.onto or arguments.keep:
                raise ConfigError(f"kz rebase: --onto and --keep begin a rebase: they do not go with {arguments.step}")
            take_step(arguments, project, "rebase", arguments.step)
            return 0
        if not arguments.onto:
            raise ConfigError("kz rebase: --onto REV is needed", hint="or a step: continue, skip, abort, status")
        if arguments.engine == "docker":
            return _rebase_within(arguments, project)
        line = arguments.line or project.pins.default
        done = rebase(project, line, arguments.source, arguments.onto, arguments.into, arguments.keep, watch)
    show(arguments, done, written_stack(done))
    return 0


def _rebase_within(arguments: argparse.Namespace, project: Project) -> int:
    code = run_in_build_image(arguments, project, (arguments.line or project.pins.default,), onto=(arguments.onto,))
    if code == ConflictError.exit_code:
        raise ConflictError(
            "the rebase stopped at a conflict in the image; nothing of it is kept",
            hint="to resolve it in a worktree here, run the same command without --engine docker",
        )
    return code
