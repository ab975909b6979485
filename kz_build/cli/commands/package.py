"""kz package: put the libraries of targets into an AAR for an app."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import line_option, open_project, relative, show, sign_option
from kz_build.core.check import require_passed, table

EXAMPLE = "--line et-1.2"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    sign_option(parser)
    parser.add_argument(
        "--target",
        metavar="T",
        action="append",
        default=[],
        help="whose libraries (default: the first of pins.yaml); repeatable, one for each ABI",
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import Live
    from kz_build.release.aar import package
    from kz_build.release.gradle import snippet
    from kz_build.release.write import signing_key

    project = open_project(arguments)
    line, targets = arguments.line or project.pins.default, arguments.target or [project.pins.first_target]
    with Live() as live:
        artifact = package(project, line, targets, live.event, signing_key(arguments.sign))
    rows = [
        *(f"  {path}: {what}" for path, what in (*artifact.libraries, *artifact.left_out)),
        *(f"  canonical: false, {o['where']}: {o['value']}" for o in artifact.overrides),
        table(artifact.checks),
    ]
    if artifact.path:
        path = Path(artifact.path)
        piece = snippet(artifact).rstrip()
        rows = [f"{relative(path)}\n  sha256 {artifact.sha256}\n  tree   {artifact.tree}", *rows, "", piece]
    show(arguments, artifact, "\n".join(rows))
    require_passed(artifact.checks, "no AAR was written")
