"""kz build: build a target into dist/<line>/<target>, then audit it."""

from __future__ import annotations

import argparse
from typing import Any

from kz_build.cli.chain import Chain
from kz_build.cli.common import build_options, open_project, relative, show
from kz_build.core.errors import AuditError

EXAMPLE = "--target android-arm64-xnnpack --dry-run"


def options(parser: argparse.ArgumentParser) -> None:
    build_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan as commands one can paste")


def run(arguments: argparse.Namespace) -> int:
    from kz_build.core import terminal
    from kz_build.pipeline import report
    from kz_build.release.write import signing_key

    project = open_project(arguments)
    with terminal.Live() as live:
        chain = Chain(project, arguments, live, "host" if arguments.dry_run else arguments.engine)
        chain.require()
        sign = signing_key(arguments.sign)
        chain.fetch()
        chain.apply()
        chain.plan()
        if arguments.dry_run:
            from kz_build.build.text_script import script

            show(arguments, chain.planned, script(chain.planned))
            return 0
        chain.build()
    chain.audit(sign)
    report.write(project, chain.line)
    built, made = chain.built, chain.papers
    record = built.record.plain()
    folder = str(relative(chain.planned.dist))
    rows = [
        terminal.artifacts(record["files"], folder),
        terminal.checks(chain.checks),
        _canonical(record),
        made and terminal.papers(made.unlicensed, signed=made.signed),
        f"built in {record['seconds']:g} s; logs in {relative(chain.commands.folder)}"
        if built.fresh
        else "nothing to do: up to date",
    ]
    show(
        arguments,
        {"manifest": record, "fresh": built.fresh, "checks": chain.checks, "papers": made},
        "\n".join(row for row in rows if row),
    )
    if chain.failed:
        raise AuditError(
            f"{len(chain.failed)} of {len(chain.checks)} checks failed",
            hint=f"the files are in {folder}; do not ship them",
        )
    return 0


def _canonical(record: Any) -> str:
    if record["canonical"]:
        return ""
    return "\n".join(
        ["canonical: false. This machine's own:", *(f"  {o['where']}: {o['value']}" for o in record["overrides"])]
    )
