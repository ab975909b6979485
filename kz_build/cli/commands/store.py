"""kz store: show, verify and clean the store of downloads."""

from __future__ import annotations

import argparse
from pathlib import Path

from kz_build.cli.common import json_option, show

EXAMPLE = "gc --older 30 --delete"


def options(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.add_argument("action", choices=("list", "verify", "gc"), help="show, verify or clean it")
    parser.add_argument(
        "--project", metavar="DIR", type=Path, action="append", default=[], help="another project that uses the store"
    )
    parser.add_argument(
        "--older", metavar="DAYS", type=float, default=30.0, help="gc: unused for this long (default: 30)"
    )
    parser.add_argument("--delete", action="store_true", help="gc: remove it (default: only list it)")


def run(arguments: argparse.Namespace) -> None:
    from kz_build.core.errors import LockError
    from kz_build.core.locks import share
    from kz_build.pins.load import load_project
    from kz_build.sources import store_admin as stage
    from kz_build.sources import text_store as view

    projects = [load_project(root) for root in (arguments.root, *arguments.project)]
    if arguments.action == "gc" and arguments.delete:
        removed = stage.collect(projects, arguments.older)
        show(arguments, removed, view.collected(removed, deleted=True))
        return
    share(projects[0].store)
    if arguments.action == "gc":
        unneeded = stage.unneeded(projects, arguments.older)
        show(arguments, unneeded, view.collected(unneeded, deleted=False))
    elif arguments.action == "list":
        listed = stage.entries(projects)
        show(arguments, listed, view.listing(listed))
    else:
        checks = stage.verify(projects)
        show(arguments, checks, view.verified(checks))
        if bad := [c.subject for c in checks if c.failed]:
            raise LockError(f"{len(bad)} of {len(checks)} store entries do not match their digests: {', '.join(bad)}")
