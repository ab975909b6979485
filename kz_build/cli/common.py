"""What the verbs share."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def project(arguments: argparse.Namespace) -> Any:
    """The project that `-C` names, its store held against `kz store gc`."""
    from kz_build.adapters.project import load_project
    from kz_build.adapters.store import hold

    found = load_project(arguments.root)
    hold(found.store)
    return found


@contextmanager
def changing(arguments: argparse.Namespace) -> Iterator[Any]:
    """The project, while no other command changes it."""
    from kz_build.adapters.environment import cache_root
    from kz_build.adapters.store import locked

    root = arguments.root.resolve()
    with locked(cache_root(), f"project-{hashlib.sha256(bytes(root)).hexdigest()[:12]}"):
        yield project(arguments)


def show(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print a result: as JSON where that is asked for, else as text."""
    if arguments.json:
        from kz_build.views.json import text as as_json

        print(as_json(value))
    elif text:
        print(text)


def relative(path: Path) -> Path:
    """A path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
