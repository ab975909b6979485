"""kz nightly: judge the newest line on main, and keep one GitHub issue."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, open_project, show, watching

EXAMPLE = ""


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    from kz_build.upstream.nightly import nightly
    from kz_build.upstream.text_health import issue
    from kz_build.upstream.text_history import text

    with watching() as watch:
        found = nightly(open_project(arguments), issue, watch)
    said = f"issue: {found.did}" + (f" {found.url}" if found.url else "")
    show(arguments, found, f"{text(found.history, {})}\n{said}")
    return 0
