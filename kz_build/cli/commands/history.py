"""kz history: name the upstream commit that broke each patch."""

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

EXAMPLE = "--onto main --why"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser)
    source_option(parser)
    onto_option(parser, "where upstream's history ends (default: upstream's own branch)")
    parser.add_argument(
        "--why", action="store_true", help="show what those commits did to the lines that a patch needs"
    )
    fetch_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.upstream.history import history, why
    from kz_build.upstream.text_history import plain, text

    project = open_project(arguments)
    line = arguments.line or project.pins.default
    with watching() as watch:
        result, absent = history(
            project, line, arguments.onto, sources=arguments.source, fetch=arguments.fetch, watch=watch
        )
        diffs = [why(project, one, watch) if arguments.why else {} for one in result]
    histories = list(zip(result, diffs, strict=True))
    rows = [*(text(*one) for one in histories), *absent_text(absent)]
    show(arguments, [*(plain(*one) for one in histories), *absent], "\n".join(rows))
