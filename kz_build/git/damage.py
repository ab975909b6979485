"""Repositories of the store that a kill, a power failure or a decaying disk left damaged."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TOLD = re.compile(r"(?m)^(fatal|error): (missing object |bad object |object file |packfile |.* in [^\n]*/packed-refs)")


def damaged_parts(path: Path, configuration: str) -> list[str]:
    """Return what git requires of a repository that is missing, or not as kz leaves it: `configuration` is its file `config`.

    A look at five names: hot verbs ask.
    """
    damaged = [name for name in ("objects", "refs") if not (path / name).is_dir()]
    if not _content(path / "HEAD").startswith(b"ref: refs/"):
        damaged.append("HEAD")
    if not _whole_lines(path / "packed-refs"):
        damaged.append("packed-refs")
    if not set(configuration.split("\n")) <= set(_content(path / "config").decode("utf-8", "replace").split("\n")):
        damaged.append("config")
    return damaged


def damage_told(errors: str) -> bool:
    """Return whether git's errors say that a file of the repository is damaged."""
    return bool(_TOLD.search(errors))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return b""  # damaged; that it cannot be read does not say so


def _whole_lines(path: Path) -> bool:
    """Return whether packed-refs starts as git writes it and ends with a newline; not there or empty, it has no references."""
    try:
        with path.open("rb") as file:
            start = file.read(1)
            file.seek(-1 if start else 0, os.SEEK_END)
            return not start or (start in b"#0123456789abcdef" and file.read(1) == b"\n")
    except FileNotFoundError:
        return True
    except (NotADirectoryError, IsADirectoryError):
        return False
