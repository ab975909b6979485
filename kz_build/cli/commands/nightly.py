"""kz nightly: propose what moves by itself on GitHub, and report what does not."""

from __future__ import annotations

import argparse
import sys

from kz_build.cli.common import json_option, locked_project, show, watching

EXAMPLE = "--dry-run"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="print what would be pushed and said, and do neither")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.env import add_to_job_summary
    from kz_build.nightly.nightly import Night
    from kz_build.nightly.text import summary, terminal

    with locked_project(arguments) as project, watching() as watch:
        night = Night(project, watch, dry_run=arguments.dry_run)
        result = night.run()
    show(arguments, result, terminal(result))
    add_to_job_summary(summary(result))
    for failure in night.failures[1:]:
        print(f"kz: {failure}", file=sys.stderr)
    if night.failures:
        raise night.failures[0]
