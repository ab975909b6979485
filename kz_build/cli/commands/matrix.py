"""kz matrix: list every target on every line that can build it."""

from __future__ import annotations

import argparse

from kz_build.cli.common import line_option, open_project

EXAMPLE = "--format github"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser, "all of them")
    parser.add_argument("--format", choices=("github", "json"), default="github", help="default: github, on one line")


def run(arguments: argparse.Namespace) -> int:
    from kz_build.core.plain_json import text
    from kz_build.pins.matrix import matrix

    rows = matrix(open_project(arguments), arguments.line)
    if arguments.format == "github" and not arguments.json:
        import json

        print(json.dumps({"include": [{"line": r.line, "target": r.target} for r in rows]}, separators=(",", ":")))
    else:
        print(text(rows))
    return 0
