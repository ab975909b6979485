"""kz matrix: list every target on every line that can build it."""

from __future__ import annotations

import argparse

from kz_build.cli.common import line_option, open_project

EXAMPLE = "--format github"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser, "all of them")
    parser.add_argument("--format", choices=("github", "json"), default="github", help="default: github, on one line")


def run(arguments: argparse.Namespace) -> None:
    import json

    from kz_build.core.plain_json import text

    pins = open_project(arguments).pins
    lines = (arguments.line,) if arguments.line else pins.lines
    able = [(line, target) for line in lines for target in pins.targets if pins.can_build(line, target)]
    if arguments.format == "github" and not arguments.json:
        rows = [{"line": line, "target": target} for line, target in able]
        print(json.dumps({"include": rows}, separators=(",", ":")))
    else:
        rows = []
        for line, name in able:
            target = pins.target(name, line)
            rows.append({"line": line, "target": name, "platform": target["platform"], "abi": target["abi"]})
        print(text(rows))
