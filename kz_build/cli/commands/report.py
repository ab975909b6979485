"""kz report: show what was fetched, built and checked, in one table."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import line_option, open_project, show

EXAMPLE = "--json"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    parser.add_argument(
        "--diff", type=Path, metavar="OLD.json", help="show what changed since this report; exit 7 or 8 if it got worse"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import report as table
    from kz_build.report.report import report

    project = open_project(arguments)
    result = report(project, arguments.line or project.pins.default)
    if arguments.diff:
        _show_diff(arguments, result)
    else:
        show(arguments, result, table(result))


def _show_diff(arguments: argparse.Namespace, new: dict[str, object]) -> None:
    from kz_build.core.env import append_to
    from kz_build.core.errors import AuditError, DeviceError
    from kz_build.report.diff import compare
    from kz_build.report.report_file import read
    from kz_build.report.text_diff import markdown, table

    diff = compare(read(arguments.diff), new, str(arguments.diff))
    show(arguments, diff, table(diff))
    append_to("GITHUB_STEP_SUMMARY", markdown(diff, arguments.diff.name))
    if diff.worse:
        kind = DeviceError if diff.exit_code == DeviceError.exit_code else AuditError
        raise kind(f"{len(diff.worse)} newly failing since {arguments.diff}", hint="kz report --json has all evidence")
