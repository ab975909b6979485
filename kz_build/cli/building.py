"""Verbs from pins to a checked library."""

from __future__ import annotations

import argparse
import os
from typing import Any

from kz_build.cli.common import log_folder, relative, show, watching, within
from kz_build.cli.common import project as project_of


def lock(arguments: argparse.Namespace) -> int:
    from kz_build.adapters.files import write_atomic
    from kz_build.adapters.locks import hold
    from kz_build.adapters.project import LOCK, load_project
    from kz_build.model.lock import differences
    from kz_build.stages.lock import lock
    from kz_build.views.terminal import Live

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


def names_of(project: Any, arguments: argparse.Namespace) -> tuple[str, str, Any]:
    """(line, target, request for all its sources) of a command line."""
    from kz_build.model.request import Request

    line = arguments.line or project.pins.default
    target = arguments.target or project.pins.targets[0]
    project.pins.line(line)
    wanted = project.pins.target(target, line)
    unpinned = tuple(getattr(arguments, "allow_unpinned", ()))
    request = Request(line, tuple(wanted["sources"]), unpinned, tuple(wanted["omit"]))
    return line, target, request


def fetch(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.stages.build import require
    from kz_build.stages.fetch import fetch
    from kz_build.views.terminal import Live, sources

    project = project_of(arguments)
    line, target, request = names_of(project, arguments)
    require(project, line, target, request)
    with Live() as live:
        found = fetch(project, replace(request, watch=live.event))
    show(arguments, found, sources(found))
    return 0


def apply(arguments: argparse.Namespace) -> int:
    from kz_build.stages.apply import apply
    from kz_build.views.terminal import trees

    project = project_of(arguments)
    lines = project.pins.lines if arguments.all_lines else (arguments.line or project.pins.default,)
    if arguments.engine == "docker":
        return within(arguments, project, lines)
    with watching() as watch:
        found = {line: apply(project, line, watch) for line in lines}
    show(arguments, found, "\n".join(trees(line, made) for line, made in found.items()))
    return 0


def wheel(arguments: argparse.Namespace) -> int:
    from kz_build.stages.wheel import wheel

    project = project_of(arguments)
    made = wheel(project, arguments.line or project.pins.default, arguments.source)
    show(arguments, made, f"{relative(made.path)}\n  sha256 {made.sha256}\n  tree   {made.tree}")
    return 0


def build(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from kz_build.adapters.process import Commands
    from kz_build.model.errors import AuditError
    from kz_build.stages import audit, report
    from kz_build.stages import build as stage
    from kz_build.stages import papers as beside
    from kz_build.stages.apply import apply
    from kz_build.stages.engines import choose
    from kz_build.stages.fetch import fetch
    from kz_build.stages.plan import plan
    from kz_build.views import terminal

    project = project_of(arguments)
    line, target, request = names_of(project, arguments)
    chosen = choose(project, line, target, "host" if arguments.dry_run else arguments.engine)
    stage.require(project, line, target, request, here=chosen.engine.name == "host")
    sign = beside.signing_key(arguments.sign)
    with terminal.Live() as live:
        request = replace(request, watch=live.event)
        sources = fetch(project, request)
        trees = tuple(t for t in apply(project, line, live.event, request.names))
        sources = stage.with_stacks(sources, trees)
        jobs = arguments.jobs or chosen.cores or os.cpu_count() or 1
        layout, ccache = chosen.engine.layout(), chosen.engine.compile_cache(project.store)
        planned = plan(project, line, target, sources, soc=arguments.soc, jobs=jobs, ccache=ccache, layout=layout)
        if arguments.dry_run:
            from kz_build.views.script import script

            show(arguments, planned, script(planned))
            return 0
        built = stage.done(planned)
        commands = Commands(log_folder(project), live.note, arguments.timeout * 60)
        if built is None:
            from kz_build.stages.proof import prove

            prove(project, sources)
            facts = stage.sources_facts(sources, trees, project, chosen.overrides)
            built = stage.build(planned, chosen.engine, commands, facts, live.event)
    checks = audit.audit(project, built, sources)
    failed = [c for c in checks if c.failed]
    # What is not to be shipped gets no papers.
    made = None if failed else beside.papers(project, built, sources, trees, arguments.soc, sign)
    report.write(project, line)
    folder = str(relative(planned.dist))
    rows = [
        terminal.artifacts(dict(built.files), folder),
        terminal.checks(checks),
        _canonical(built.manifest),
        made and terminal.papers(made.unlicensed, signed=made.signed),
        f"built in {built.manifest['seconds']:g} s; logs in {relative(commands.folder)}"
        if built.fresh
        else "nothing to do: up to date",
    ]
    show(
        arguments,
        {"manifest": built.manifest, "fresh": built.fresh, "checks": checks, "papers": made},
        "\n".join(row for row in rows if row),
    )
    if failed:
        raise AuditError(
            f"{len(failed)} of {len(checks)} checks failed", hint=f"the files are in {folder}; do not ship them"
        )
    return 0


def _canonical(manifest: Any) -> str:
    if manifest["canonical"]:
        return ""
    return "\n".join(
        ["canonical: false. This machine's own:", *(f"  {o['where']}: {o['value']}" for o in manifest["overrides"])]
    )


def audit(arguments: argparse.Namespace) -> int:
    from kz_build.model.errors import AuditError
    from kz_build.stages.audit import recorded
    from kz_build.views import terminal

    project = project_of(arguments)
    line, target, _ = names_of(project, arguments)
    checks = recorded(project, line, target)
    show(arguments, checks, terminal.checks(checks))
    if any(c.failed for c in checks):
        raise AuditError(f"{sum(c.failed for c in checks)} of {len(checks)} checks failed")
    return 0


def report(arguments: argparse.Namespace) -> int:
    from kz_build.stages.report import report
    from kz_build.views.terminal import report as table

    project = project_of(arguments)
    found = report(project, arguments.line or project.pins.default)
    show(arguments, found, table(found))
    return 0


def schema(arguments: argparse.Namespace) -> int:
    from kz_build.views.json import text

    if arguments.of == "pins":
        from kz_build.model.schema import json_schema as made
    else:
        from kz_build.model.recipe_schema import json_schema as made
    print(text(made()))
    return 0
