"""kz all: everything about a target: fetched, built, audited, packed, exported, tried on a device."""

from __future__ import annotations

import argparse
import contextlib
import time

from kz_build.cli.chain import Chain
from kz_build.cli.common import build_options, open_project, relative, show
from kz_build.cli.whole import Whole, line_of
from kz_build.core.errors import MissingError
from kz_build.pipeline.run_all import Row, record, walk

EXAMPLE = "--recipe qwen3-4b-qnn-hybrid --serial R5CT123"


def options(parser: argparse.ArgumentParser) -> None:
    build_options(parser, "the recipe's where that builds the target, else the one pins.yaml names")
    parser.add_argument("--recipe", metavar="R", default="", help="the model to export, and to run on the device")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--serial", metavar="S", default="", help="this device; HOST:PORT is connected first")
    where.add_argument("--emulate", action="store_true", help="an EMULATED device, begun for this and ended after it")
    parser.add_argument(
        "--require",
        metavar="STAGE",
        action="append",
        default=[],
        choices=("package", "export", "device", "in-app"),
        help="package, export, device or in-app: where it cannot run here, do not begin (repeatable)",
    )


def run(arguments: argparse.Namespace) -> int:
    from kz_build.core.check import Status
    from kz_build.core.terminal import Live
    from kz_build.pipeline import text as view
    from kz_build.pipeline.report import write
    from kz_build.release.write import signing_key

    project = open_project(arguments)
    arguments.line = arguments.line or line_of(project, arguments)
    with contextlib.ExitStack() as stack, Live() as live:
        chain = Chain(project, arguments, live, arguments.engine)
        whole = Whole(chain, arguments, signing_key(arguments.sign))
        whole.look(stack)
        if skipped := [one for one in whole.lacks if not one.required]:
            live.note(view.lacks(skipped))
        if stopping := [item for one in whole.lacks if one.required for item in one.missing]:
            raise MissingError(tuple(stopping), hint="nothing was begun")
        rows, failure = walk(whole.steps(), live.head)
        started = time.monotonic()
        record(project, chain.line, chain.target, rows, whole.lacks)
        place = str(write(project, chain.line).relative_to(project.root))
        rows = (*rows, Row("report", Status.PASS, round(time.monotonic() - started, 1), place))
    title = f"{chain.target} of {chain.line}, in {relative(project.root)}"
    told = [*whole.told, view.table(title, rows)]
    show(arguments, {"stages": rows, "lacks": whole.lacks, "device": whole.reports}, "\n\n".join(told))
    if failure:
        raise failure
    return 0
