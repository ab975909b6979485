"""kz wheel: write the patched wheel of a source to dist/<line>/wheels."""

from __future__ import annotations

import argparse

from kz_build.cli.common import line_option, open_project, relative, show

EXAMPLE = "torchtune"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument("source")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.build.wheel import wheel

    project = open_project(arguments)
    repacked = wheel(project, arguments.line or project.pins.default, arguments.source)
    show(arguments, repacked, f"{relative(repacked.path)}\n  sha256 {repacked.sha256}\n  tree   {repacked.tree}")
