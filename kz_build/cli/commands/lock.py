"""kz lock: resolve the pins, and show what changes in pins.lock."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kz_build.cli.common import line_option, locked_project, open_project, show

if TYPE_CHECKING:
    from kz_build.pins.project import Project

EXAMPLE = "--write --trust fbjni"


def options(parser: argparse.ArgumentParser) -> None:
    line_option(parser, "all of them")
    parser.add_argument("--write", action="store_true", help="write pins.lock")
    parser.add_argument(
        "--trust", metavar="NAME", action="append", default=[], help="download NAME and record its digest in the lock"
    )


def run(arguments: argparse.Namespace) -> None:
    # A lock holds for every machine: pins.local.yaml is left out.
    if not arguments.write:
        _lock(arguments, open_project(arguments, local=False))
        return
    # What another command writes into the lock meanwhile would be lost.
    with locked_project(arguments, local=False) as project:
        _lock(arguments, project)


def _lock(arguments: argparse.Namespace, project: Project) -> None:
    from kz_build.core.files import write_atomic
    from kz_build.core.terminal import Live
    from kz_build.pins.load import LOCK
    from kz_build.pins.lock_file import differences
    from kz_build.stack.resolve_lock import lock

    lines = (arguments.line,) if arguments.line else project.pins.lines
    with Live() as live:
        resolved = lock(project, lines, arguments.trust, live.event)
    changed = differences(project.lock.lines, resolved.lock.lines)
    if arguments.write and (changed or not (project.root / LOCK).exists()):
        write_atomic(project.root / LOCK, resolved.lock.text().encode())
    state = "written" if arguments.write else "not written (--write does)"
    rows = [
        *changed,
        *(f"note: {note}" for note in resolved.notes),
        f"{len(changed)} change{'s' if len(changed) != 1 else ''} in {LOCK}" + (f", {state}" if changed else ""),
    ]
    show(arguments, {"changes": changed, "notes": resolved.notes, "written": arguments.write}, "\n".join(rows))
