"""kz reproduce: build twice in varied surroundings, and explain what differs."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from kz_build.cli.common import jobs, open_project, relative, show, soc_option, sources_options
from kz_build.core.errors import AuditError

EXAMPLE = "--target android-arm64-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    sources_options(parser)
    soc_option(parser)
    parser.add_argument("--jobs", type=jobs, default=0, metavar="N", help="parallel compilations (default: one a core)")


def run(arguments: argparse.Namespace) -> int:
    from kz_build.build.build import require, with_stacks
    from kz_build.build.reproduce import ReproduceTarget, reproduce
    from kz_build.build.text_reproduce import reproduced
    from kz_build.core.command_log import Commands, new_log_folder
    from kz_build.core.terminal import Live
    from kz_build.sources.fetch import fetch
    from kz_build.sources.prove import prove
    from kz_build.sources.request import resolve_target
    from kz_build.stack.apply import apply

    project = open_project(arguments)
    line, target, request = resolve_target(project, arguments.line, arguments.target, arguments.allow_unpinned)
    require(project, line, target, request)
    with Live() as live:
        request = replace(request, watch=live.event)
        sources = fetch(project, request)
        sources = with_stacks(sources, apply(project, line, live.event, request.names))
        prove(project, sources)
        subject = ReproduceTarget(project, line, target, sources, arguments.soc, arguments.jobs or os.cpu_count() or 1)
        result = reproduce(subject, Commands(new_log_folder(project.out("log")), live.note), live.event)
    show(arguments, {**vars(result), "same": result.same}, reproduced(result))
    if not result.same:
        count = len({d.file for d in result.differences}) or len(result.files)
        raise AuditError(
            f"{target} of {line} does not reproduce",
            hint=f"{count} files differ; both builds are in {relative(subject.folder)}",
        )
    return 0
