"""kz init: begin a project for one git repository and its patches."""

from __future__ import annotations

import argparse

from kz_build.cli.common import json_option, show

EXAMPLE = "https://github.com/pytorch/executorch v1.2.0"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument(
        "address", nargs="?", default="", help="upstream's git repository (default: that of debian/upstream/metadata)"
    )
    parser.add_argument(
        "version", nargs="?", default="", help="its tag, branch or full commit (default: the newest tag)"
    )


def run(arguments: argparse.Namespace) -> None:
    from kz_build.stack.new_project import DEBIAN, begin

    new = begin(arguments.root, arguments.address, arguments.version)
    rows = ["written:", *(f"  {name}" for name in new.written)]
    if new.ignore:
        rows.append(f"your .gitignore is as it was; it should have {' and '.join(new.ignore)}")
    rows += ["then:", "  kz lock --write"]
    if new.stack == DEBIAN:
        rows += ["  kz apply", "  kz verify --onto HEAD"]
    else:
        rows.append(f"  kz edit {new.source}      (makes a worktree: git am your patches there, or commit)")
        rows.append(f"  kz refresh {new.source}   (writes them to {new.stack})")
    show(arguments, new, "\n".join(rows))
