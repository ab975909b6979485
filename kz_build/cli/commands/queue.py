"""kz queue: judge what waits to be merged into one's own repository."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, locked_project, show, watching
from kz_build.core.errors import ConflictError

EXAMPLE = ""


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "revisions", metavar="REV", nargs="*", help="branches or commits instead of GitHub's open pull requests"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.env import add_to_job_summary
    from kz_build.core.escape import code_block
    from kz_build.nightly import text_queue
    from kz_build.nightly.queue import queue

    with locked_project(arguments) as project, watching() as watch:
        result = queue(project, arguments.revisions, watch)
    text = text_queue.text(result)
    show(arguments, result, text)
    add_to_job_summary("\n".join(code_block(text, "")) + "\n")
    if not result.holds:
        broken = [one.name for one in result.queued if one.problems] + [
            f"{p.first} with {p.second}" for p in result.pairs
        ]
        raise ConflictError(f"{', '.join(broken)} would break a stack on {result.branch}")
