"""What the verbs share."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def project(arguments: argparse.Namespace) -> Any:
    """The project that `-C` names, its store held against `kz store gc`."""
    from kz_build.core.locks import hold
    from kz_build.pins.load import load_project

    found = load_project(arguments.root)
    hold(found.store)
    return found


@contextmanager
def watching() -> Iterator[Any]:
    """Who is to be told how far a fetch is: a bar on the terminal, made once there is something to tell."""
    made: list[Any] = []

    def told(event: Any) -> None:
        if not made:
            from kz_build.core.terminal import Live

            made.append(Live())
        made[0].event(event)

    try:
        yield told
    finally:
        for live in made:
            live.stop()


@contextmanager
def changing(arguments: argparse.Namespace) -> Iterator[Any]:
    """The project, while no other command changes it."""
    from kz_build.core.env import cache_root
    from kz_build.core.locks import locked

    root = arguments.root.resolve()
    name = f"project-{hashlib.sha256(bytes(root)).hexdigest()[:12]}"
    with locked(cache_root(), name, lambda _: print("kz: waiting: another kz changes this project", file=sys.stderr)):
        yield project(arguments)


def within(arguments: argparse.Namespace, project: Any, lines: Sequence[str], *, onto: Sequence[str] = ()) -> int:
    """Run the verb of this command line in the image instead: what it says is shown as it is; gives its exit code."""
    from kz_build.build.run_in_image import inside
    from kz_build.core.command_log import Commands

    commands = Commands(log_folder(project), lambda text: print(text, file=sys.stderr))
    done = inside(project, lines, arguments.words, commands, onto=onto)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    if done.changed:
        print("\n".join(["changed here:", *(f"  {name}" for name in done.changed)]), file=sys.stderr)
    return done.code


def log_folder(project: Any) -> Path:
    """Where a command leaves its logs."""
    return Path(project.out("log", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"))


def show(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print a result: as JSON where that is asked for, else as text."""
    if arguments.json:
        from kz_build.core.json_text import text as as_json

        print(as_json(value))
    elif text:
        print(text)


def relative(path: Path) -> Path:
    """A path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
