"""kz radar: list pull requests that would break the stack once merged."""

from __future__ import annotations

import argparse

from kz_build.cli.common import Once, fetch_option, line_option, open_project, show, watching

EXAMPLE = "--open"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pr", metavar="N", type=int, action="extend", nargs="+", default=[], help="these pull requests"
    )
    which.add_argument("--open", action="store_true", help="all that are open on GitHub")
    which.add_argument("--since", metavar="DATE", help="those that moved since YYYY-MM-DD")
    parser.add_argument(
        "--onto", metavar="REV", action=Once, default="main", help="what they are merged into (default: main)"
    )
    fetch_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.upstream.radar import PullSelection, radar
    from kz_build.upstream.text_radar import plain, text

    project = open_project(arguments)
    wanted = PullSelection(tuple(arguments.pr), arguments.open, arguments.since, arguments.fetch)
    with watching() as watch:
        result = radar(project, arguments.line or project.pins.default, wanted, arguments.onto, watch)
    show(arguments, [plain(one) for one in result], "\n".join(text(one) for one in result))
