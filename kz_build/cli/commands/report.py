"""kz report: show what was fetched, built and checked, in one table."""

from __future__ import annotations

import argparse

from kz_build.cli.common import line_option, open_project, show

EXAMPLE = "--json"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import report as table
    from kz_build.report.report import report

    project = open_project(arguments)
    result = report(project, arguments.line or project.pins.default)
    show(arguments, result, table(result))
