"""kz report: show what was fetched, built and checked, in one table or on a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.cli.common import line_option, open_project, relative, show

if TYPE_CHECKING:
    from kz_build.pins.project import Project

EXAMPLE = "--html"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--html",
        metavar="FILE",
        nargs="?",
        const="",
        help="write a page of all lines to FILE (default: out/report/report.html), and remember what is on it",
    )
    view.add_argument(
        "--diff", type=Path, metavar="OLD.json", help="show what changed since this report; exit 7 or 8 if it got worse"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import report as table
    from kz_build.report.report import report

    project = open_project(arguments)
    if arguments.html is not None:
        _write_page(arguments, project)
        return
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


def _write_page(arguments: argparse.Namespace, project: Project) -> None:
    from kz_build.core.errors import ConfigError
    from kz_build.core.files import write_atomic
    from kz_build.report import html
    from kz_build.report.collect import collect
    from kz_build.report.history import remember
    from kz_build.report.verdict import verdict

    if arguments.line:
        raise ConfigError("--html shows all lines", hint="leave --line out")
    html.require()
    facts = collect(project, project.pins.lines)
    page = html.page(facts, remember(project, facts))
    path = Path(arguments.html) if arguments.html else project.out("report", "report.html")
    write_atomic(path, page)
    result = verdict(facts)
    where = relative(path.absolute())
    show(arguments, {"page": str(where), "bytes": len(page), "verdict": result}, f"{result.sentence}\n{where}")
