"""kz build: build a target into dist/<line>/<target>, and audit it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kz_build.cli.common import build_options, open_project, relative, show, target_request
from kz_build.core.check import require_passed, table

if TYPE_CHECKING:
    from kz_build.core.stage_record import StageRecord
    from kz_build.pins.project import Project
    from kz_build.pipeline.target import TargetRequest
    from kz_build.release.write import ReleaseFiles

EXAMPLE = "--target android-arm64-xnnpack --dry-run"


def options(parser: argparse.ArgumentParser) -> None:
    build_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan as a script")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import Live
    from kz_build.pipeline.target import TargetBuild
    from kz_build.report import report
    from kz_build.report.text import artifacts

    project = open_project(arguments)
    request = target_request(arguments)
    if arguments.dry_run:
        _dry_run(arguments, project, replace(request, engine="host", distributed=""))
        return
    with Live() as live:
        build = TargetBuild(project, request, live.event, live.note)
        build.run(live.fold)
    report.write(project, build.line)
    built, released = build.built, build.release_files
    record = built.record.plain()
    folder = str(relative(build.planned.dist))
    rows = [
        artifacts(record["files"], folder),
        table(build.checks),
        _canonical(built.record),
        _shares(record),
        released and _release_files(released),
        f"built in {record['seconds']:g} s; logs in {relative(build.commands.folder)}"
        if built.fresh
        else "nothing to do: up to date",
    ]
    show(
        arguments,
        {"manifest": record, "fresh": built.fresh, "checks": build.checks, "papers": released},
        "\n".join(row for row in rows if row),
    )
    require_passed(build.checks, f"the files are in {folder}; do not ship them")


def _dry_run(arguments: argparse.Namespace, project: Project, request: TargetRequest) -> None:
    from kz_build.build.text_script import script
    from kz_build.core.terminal import Live
    from kz_build.pipeline.target import TargetBuild

    with Live() as live:
        build = TargetBuild(project, request, live.event, live.note)
        for stage in (build.require, build.fetch, build.apply):
            stage()
        build.plan(script=True)
        show(arguments, build.planned, script(build.planned), script=True)


def _release_files(released: ReleaseFiles) -> str:
    """Say what lies beside the artifacts, and which licences to look for by hand."""
    summary = "release files: provenance, SBOM, notices, SHA256SUMS" + (", signed" if released.signed else "")
    return summary + (f"\n  no licence file in: {', '.join(released.unlicensed)}" if released.unlicensed else "")


def _shares(record: Mapping[str, Any]) -> str:
    """Say who compiled, if it was not this machine alone."""
    if not (known := record.get("distributed")):
        return ""
    workers = known["workers"]
    rows = [f"  {worker}: {count}" for worker, count in workers.items()]
    return "\n".join(
        [f"objects compiled by {len(workers)} workers: {sum(workers.values())}; here: {known['local']}", *rows]
    )


def _canonical(record: StageRecord) -> str:
    if record.get("canonical", bool):
        return ""
    own = [f"  {o['where']}: {o['value']}" for o in record.get("overrides", list)]
    return "\n".join(["canonical: false. This machine's own:", *own])
