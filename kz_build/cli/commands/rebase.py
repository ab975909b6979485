"""kz rebase: move a stack and its pin to another version of upstream."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from kz_build.cli.common import (
    DROPS,
    WHOSE,
    engine_option,
    line_option,
    listed,
    locked_project,
    onto_option,
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
    parser.add_argument("--source", metavar="S", default="", help=WHOSE)
    parser.add_argument(
        "step", metavar="STEP", nargs="?", choices=tuple(DROPS), help=f"of one that stopped: {listed(DROPS)}"
    )
    onto_option(parser, "tag, branch or commit of upstream; of a wheel its version")
    parser.add_argument("--as", dest="into", metavar="LINE", default="", help="write it as a new line; this one stays")
    parser.add_argument(
        "--keep",
        metavar="PATCH",
        action="append",
        default=[],
        help="apply this patch even if upstream has its change (its file name, number or subject; can be repeated)",
    )
    parser.add_argument(
        "--take", metavar="N|FILE", default="", help="continue with candidate N, or with another tool's answer"
    )
    parser.add_argument("--suggest", action="store_true", help="show the candidates for the patch that stopped")
    parser.add_argument(
        "--take-above",
        metavar="P",
        type=float,
        default=0,
        help="with --onto: take a candidate unasked if its confidence is P or more, such as 0.9",
    )
    engine_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.stack import text
    from kz_build.stack.rebase import rebase, resume, suggest
    from kz_build.stack.resolution import take

    with locked_project(arguments) as project, watching() as watch:
        later = arguments.step or ("--take" if arguments.take else "--suggest" if arguments.suggest else "")
        if later and (arguments.onto or arguments.into or arguments.keep or arguments.take_above):
            raise ConfigError(f"kz rebase: --onto, --as, --keep and --take-above begin a rebase: not with {later}")
        if sum(map(bool, (arguments.step, arguments.take, arguments.suggest))) > 1:
            raise ConfigError("kz rebase: a step, --take and --suggest do not go together")
        if not 0 <= arguments.take_above <= 1:
            raise ConfigError(f"kz rebase: --take-above {arguments.take_above:g} is not between 0 and 1")
        if arguments.suggest:
            result = suggest(project, arguments.line or "", arguments.source)
            show(arguments, result.plain() if arguments.json else result, text.suggestion(result))
            return 0
        if arguments.take:
            choice = partial(take, project=project, choice=arguments.take)
            written = resume(project, "rebase", arguments.line or "", arguments.source, choice)
            show(arguments, written, text.written_stack(written))
            return 0
        if arguments.step:
            take_step(arguments, project, "rebase", arguments.step)
            return 0
        if not arguments.onto:
            raise ConfigError("kz rebase: --onto REV is needed", hint="or a step: continue, skip, undo, abort, status")
        if arguments.engine == "docker":
            return _rebase_within(arguments, project)
        line = arguments.line or project.pins.default
        done = rebase(
            project, line, arguments.source, arguments.onto, arguments.into, arguments.keep, arguments.take_above, watch
        )
    show(arguments, done, text.written_stack(done))
    return 0


def _rebase_within(arguments: argparse.Namespace, project: Project) -> int:
    code = run_in_build_image(arguments, project, (arguments.line or project.pins.default,), onto=(arguments.onto,))
    if code == ConflictError.exit_code:
        raise ConflictError(
            "the rebase stopped at a conflict in the image; nothing of it is kept",
            hint="to resolve it in a worktree here, run the same command without --engine docker",
        )
    return code
