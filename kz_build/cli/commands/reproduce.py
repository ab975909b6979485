"""kz reproduce: build twice in varied surroundings, and explain what differs."""

from __future__ import annotations

import argparse
import os

from kz_build.cli.common import jobs, open_project, relative, show, soc_option, sources_options
from kz_build.core.errors import AuditError

EXAMPLE = "--target android-arm64-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    sources_options(parser)
    soc_option(parser)
    parser.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.build.reproduce import ReproduceTarget, reproduce
    from kz_build.build.text_reproduce import reproduced
    from kz_build.core.terminal import Live
    from kz_build.pipeline.target import TargetBuild, TargetRequest
    from kz_build.sources.prove import prove

    project = open_project(arguments)
    request = TargetRequest(
        arguments.line or "", arguments.target or "", "host", allow_unpinned=arguments.allow_unpinned
    )
    with Live() as live:
        build = TargetBuild(project, request, live.event, live.note)
        for stage in (build.require, build.fetch, build.apply):
            stage()
        prove(project, build.sources)
        jobs = arguments.jobs or os.cpu_count() or 1
        subject = ReproduceTarget(project, build.line, build.target, build.sources, arguments.soc, jobs)
        result = reproduce(subject, build.commands, live.event)
    show(arguments, {**vars(result), "same": result.same}, reproduced(result))
    if not result.same:
        count = len({d.file for d in result.differences}) or len(result.files)
        raise AuditError(
            f"{build.target} of {build.line} does not reproduce",
            hint=f"{count} files differ; both builds are in {relative(subject.folder)}",
        )
