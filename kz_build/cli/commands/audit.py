"""kz audit: check again what was built."""

from __future__ import annotations

import argparse

from kz_build.cli.common import open_project, show, target_options
from kz_build.core.check import require_passed, table

EXAMPLE = "--target android-arm64-xnnpack"


def options(parser: argparse.ArgumentParser) -> None:
    target_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.terminal import Live
    from kz_build.pipeline.target import audit_again
    from kz_build.sources.request import resolve_target

    project = open_project(arguments)
    line, target, _ = resolve_target(project, arguments.line, arguments.target)
    with Live() as live:
        checks = audit_again(project, line, target, live.event)
    show(arguments, checks, table(checks))
    require_passed(checks)
