"""kz radar: list pull requests that would break the stack once merged."""

from __future__ import annotations

import argparse

from kz_build.cli.common import (
    absent_text,
    fetch_option,
    line_option,
    onto_option,
    open_project,
    show,
    source_option,
    watching,
)

EXAMPLE = "--open"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    source_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pr", metavar="N", type=int, action="extend", nargs="+", default=[], help="these pull requests"
    )
    which.add_argument("--open", action="store_true", help="all that are open on GitHub")
    which.add_argument("--since", metavar="DATE", help="those that moved since YYYY-MM-DD")
    onto_option(parser, "what they are merged into (default: upstream's own branch)")
    fetch_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.upstream.radar import PullSelection, radar
    from kz_build.upstream.text_radar import plain, text

    project = open_project(arguments)
    wanted = PullSelection(
        tuple(arguments.pr), arguments.open, arguments.since, arguments.fetch, tuple(arguments.source)
    )
    with watching() as watch:
        result, absent = radar(project, arguments.line or project.pins.default, wanted, arguments.onto, watch)
    if arguments.open:
        import datetime

        from kz_build.upstream.radar_record import save

        asked = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        for one in result:
            save(project, one, asked)
    rows = [*(text(one) for one in result), *absent_text(absent)]
    show(arguments, [*(plain(one) for one in result), *absent], "\n".join(rows))
