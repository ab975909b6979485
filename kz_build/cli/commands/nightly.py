"""kz nightly: judge the newest line on main, and report in one GitHub issue."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, open_project, show, watching

EXAMPLE = ""


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(arguments: argparse.Namespace) -> None:
    from kz_build.upstream.nightly import nightly
    from kz_build.upstream.text_history import text

    with watching() as watch:
        result = nightly(open_project(arguments), watch)
    issue_line = f"issue: {result.did}" + (f" {result.url}" if result.url else "")
    show(arguments, result, f"{text(result.history, {})}\n{issue_line}")
