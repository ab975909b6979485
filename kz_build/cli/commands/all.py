"""kz all: build, check, package, export and try a target in one go."""

from __future__ import annotations

import argparse

from kz_build.cli.common import build_options, open_project, relative, show, target_request

EXAMPLE = "--recipe qwen3-4b-qnn-hybrid --serial R5CT123"


def options(parser: argparse.ArgumentParser) -> None:
    build_options(parser, "the recipe's if it can build the target, else the one pins.yaml names")
    parser.add_argument("--recipe", metavar="R", default="", help="the model to export, and to run on the device")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--serial", metavar="S", default="", help="this device; HOST:PORT is connected first")
    where.add_argument("--emulate", action="store_true", help="an EMULATED device, started for this run only")
    parser.add_argument(
        "--require",
        metavar="STAGE",
        action="append",
        default=[],
        choices=("package", "export", "device", "in-app"),
        help="package, export, device or in-app: do not start if it cannot run here (repeatable)",
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import Live
    from kz_build.pipeline.run_all import AllRequest, run_all
    from kz_build.pipeline.text import table

    project = open_project(arguments)
    request = AllRequest(
        build=target_request(arguments),
        recipe=arguments.recipe,
        serial=arguments.serial,
        emulate=arguments.emulate,
        require=tuple(arguments.require),
    )
    with Live() as live:
        result = run_all(project, request, live)
    title = f"{result.target} of {result.line}, in {relative(project.root)}"
    value = {"stages": result.rows, "lacks": result.lacks, "device": result.reports}
    show(arguments, value, "\n\n".join([*result.notes, table(title, result.rows)]))
    if result.failure:
        raise result.failure
