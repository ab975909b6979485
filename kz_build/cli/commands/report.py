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
    parser.add_argument(
        "--join",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="copy the cells of `kz matrix` that other machines built first; all lines",
    )
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
    from kz_build.report.report import report
    from kz_build.report.text import table

    if arguments.join:
        _join(arguments)
        return
    project = open_project(arguments)
    if arguments.html is not None:
        _write_page(arguments, project)
        return
    result = report(project, arguments.line or project.pins.default)
    if arguments.diff:
        _show_diff(arguments, result)
    else:
        show(arguments, result, table(result))


def _join(arguments: argparse.Namespace) -> None:
    from kz_build.cli.common import locked_project
    from kz_build.core.errors import AuditError, ConfigError
    from kz_build.report.join import join
    from kz_build.report.report import report
    from kz_build.report.text import table

    if arguments.line or arguments.diff:
        raise ConfigError("--join shows all lines: leave --line and --diff out")
    with locked_project(arguments) as project:
        joined = join(project, arguments.join)
    if arguments.html is not None:
        _write_page(arguments, project)
    else:
        lines = {line: report(project, line) for line in dict.fromkeys(cell.partition("/")[0] for cell in joined.cells)}
        result = {"cells": joined.cells, "missing": joined.missing, "lines": lines}
        show(arguments, result, "\n\n".join(table(one) for one in lines.values()))
    if joined.missing:
        raise AuditError(
            "no folder has these cells of the matrix:\n" + "\n".join(f"  {cell}" for cell in joined.missing),
            hint="their jobs did not end with a build: their logs say why",
        )


def _show_diff(arguments: argparse.Namespace, new: dict[str, object]) -> None:
    from kz_build.core.env import add_to_job_summary
    from kz_build.core.errors import AuditError, DeviceError
    from kz_build.report.diff import compare
    from kz_build.report.report import read
    from kz_build.report.text_diff import markdown, table

    diff = compare(read(arguments.diff), new, str(arguments.diff))
    show(arguments, diff, table(diff))
    add_to_job_summary(markdown(diff, arguments.diff.name))
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
    lead = "Nothing fails. " if result.good else ""
    show(arguments, {"page": str(where), "bytes": len(page), "verdict": result}, f"{lead}{result.sentence}\n{where}")
