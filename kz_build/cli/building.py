"""Verbs from pins to a checked library."""

from __future__ import annotations

import argparse
from typing import Any

from kz_build.cli.chain import Chain, names_of
from kz_build.cli.common import project as project_of
from kz_build.cli.common import relative, show, watching, within


def lock(arguments: argparse.Namespace) -> int:
    from kz_build.core.files import write_atomic
    from kz_build.core.locks import hold
    from kz_build.core.terminal import Live
    from kz_build.pins.load import LOCK, load_project
    from kz_build.pins.lock_file import differences
    from kz_build.stack.resolve_lock import lock

    project = load_project(arguments.root, local=False)  # a lock holds for every machine
    hold(project.store)
    lines = (arguments.line,) if arguments.line else project.pins.lines
    with Live() as live:
        resolved = lock(project, lines, arguments.trust, live.event)
    changed = differences(project.lock.lines, resolved.lock.lines)
    if arguments.write and (changed or not (project.root / LOCK).exists()):
        write_atomic(project.root / LOCK, resolved.lock.text().encode())
    state = "written" if arguments.write else "not written (--write does)"
    rows = [
        *changed,
        *(f"note: {note}" for note in resolved.notes),
        f"{len(changed)} changes in {LOCK}" + (f", {state}" if changed else ""),
    ]
    show(arguments, {"changes": changed, "notes": resolved.notes, "written": arguments.write}, "\n".join(rows))
    return 0


def fetch(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.build.build import require
    from kz_build.core.terminal import Live
    from kz_build.sources.fetch import fetch
    from kz_build.sources.text import sources

    project = project_of(arguments)
    line, target, request = names_of(project, arguments)
    require(project, line, target, request)
    with Live() as live:
        found = fetch(project, replace(request, watch=live.event))
    show(arguments, found, sources(found))
    return 0


def apply(arguments: argparse.Namespace) -> int:
    from kz_build.stack.apply import apply
    from kz_build.stack.text import trees

    project = project_of(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    if arguments.engine == "docker":
        return within(arguments, project, lines)
    with watching() as watch:
        found = {line: apply(project, line, watch) for line in lines}
    show(arguments, found, "\n".join(trees(line, made) for line, made in found.items()))
    return 0


def wheel(arguments: argparse.Namespace) -> int:
    from kz_build.build.wheel import wheel

    project = project_of(arguments)
    made = wheel(project, arguments.line or project.pins.default, arguments.source)
    show(arguments, made, f"{relative(made.path)}\n  sha256 {made.sha256}\n  tree   {made.tree}")
    return 0


def build(arguments: argparse.Namespace) -> int:
    from kz_build.core import terminal
    from kz_build.core.errors import AuditError
    from kz_build.pipeline import report
    from kz_build.release.write import signing_key

    project = project_of(arguments)
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


def audit(arguments: argparse.Namespace) -> int:
    from kz_build.checks.built import recorded
    from kz_build.core import terminal
    from kz_build.core.errors import AuditError

    project = project_of(arguments)
    line, target, _ = names_of(project, arguments)
    checks = recorded(project, line, target)
    show(arguments, checks, terminal.checks(checks))
    if any(c.failed for c in checks):
        raise AuditError(f"{sum(c.failed for c in checks)} of {len(checks)} checks failed")
    return 0


def report(arguments: argparse.Namespace) -> int:
    from kz_build.core.terminal import report as table
    from kz_build.pipeline.report import report

    project = project_of(arguments)
    found = report(project, arguments.line or project.pins.default)
    show(arguments, found, table(found))
    return 0


def schema(arguments: argparse.Namespace) -> int:
    from kz_build.core.json_text import text

    if arguments.of == "pins":
        from kz_build.pins.schema import json_schema as made
    else:
        from kz_build.export.recipe_schema import json_schema as made
    print(text(made()))
    return 0
