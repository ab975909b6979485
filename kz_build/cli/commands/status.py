"""kz status: show what is under way, and what upstream did with the patches."""

from __future__ import annotations

import argparse

from kz_build.cli.common import chosen_lines, fetch_option, lines_options, open_project, show, watching

EXAMPLE = "--fetch"


def options(parser: argparse.ArgumentParser) -> None:
    lines_options(parser)
    fetch_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.session_folder import open_sessions
    from kz_build.stack.text import session_list
    from kz_build.upstream.status import status
    from kz_build.upstream.text_status import text

    project = open_project(arguments)
    lines = chosen_lines(arguments, project)
    sessions = [(o.session, o.folder) for o in open_sessions(project)]
    with watching() as watch:
        result = status(project, lines, fetch=arguments.fetch, watch=watch)
    rows = [session_list(sessions)] if sessions else []
    show(arguments, {"sessions": sessions, "stacks": result}, "\n".join([*rows, *(text(one) for one in result)]))
