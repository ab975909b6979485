"""kz fetch: download the sources of a target, verified against the lock."""

from __future__ import annotations

import argparse
from dataclasses import replace

from kz_build.cli.common import open_project, show, sources_options

EXAMPLE = "--target android-arm64-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    sources_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.build.build import require
    from kz_build.core.terminal import Live
    from kz_build.sources.fetch import fetch
    from kz_build.sources.request import resolve_target
    from kz_build.sources.text import sources

    project = open_project(arguments)
    _, target, request = resolve_target(project, arguments.line, arguments.target, arguments.allow_unpinned)
    require(project, target, request)
    with Live() as live:
        result = fetch(project, replace(request, watch=live.event))
    show(arguments, result, sources(result))
