"""kz queue: judge what waits to be merged into one's own repository."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, locked_project, show, watching
from kz_build.core.errors import ConflictError, Missing, MissingError

EXAMPLE = ""
MOST_NAMED = 3
"""How many pairs the last line names."""


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
        broken = [one.name for one in result.queued if one.problems]
        pairs = [f"{pair.first} with {pair.second}" for pair in result.pairs if pair.problems]
        broken += pairs if len(pairs) <= MOST_NAMED else [f"{len(pairs)} pairs"]
        raise ConflictError(f"{', '.join(broken)} would break a stack on {result.branch}")
    unknown = {one.name: one.unknown for one in result.queued if one.unknown}
    unknown |= {f"{pair.first} with {pair.second}": pair.unknown for pair in result.pairs if pair.unknown}
    if unknown:
        why = tuple(Missing(name, reason, "run it again") for name, reason in unknown.items())
        raise MissingError(why, hint="the others hold, alone and every two together")
