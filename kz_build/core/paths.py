"""Paths below a folder: all of them, and those that a source leaves out.

`os.walk` and `Path.rglob` leave out what they cannot read, and say nothing.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches `*.gif` (in any folder), `folder/` or an exact path."""
    for pattern in patterns:
        if pattern.endswith("/") and f"{path}/".startswith(pattern):
            return True
        if fnmatch.fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern):
            return True
    return False


def below(patterns: Sequence[str], path: str) -> tuple[str, ...]:
    """Return exclude patterns relative to the submodule at `path`."""
    return tuple(p.removeprefix(path + "/") for p in patterns if "/" not in p or p.startswith(path + "/"))


def refuse(error: OSError) -> None:
    """Raise an error that `os.walk` meets, its `onerror`; a folder that is not there has nothing in it."""
    if not isinstance(error, FileNotFoundError):
        raise error


def all_below(folder: Path) -> Iterator[Path]:
    """Yield every path below a folder, not through links to folders. Raises OSError for a folder that cannot be read."""
    for base, folders, names in os.walk(folder, onerror=refuse):
        yield from (Path(base, name) for name in (*folders, *names))


def files_below(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files below a folder whose names match, sorted. Raises OSError for a folder that cannot be read."""
    return sorted(path for path in all_below(folder) if path.match(pattern) and path.is_file())


def files_at(folder: Path, pattern: str) -> list[Path]:
    """Return the files at a pattern such as `*/manifest.json`, sorted. Raises OSError for a folder that cannot be read."""
    places = [folder]
    for part in pattern.split("/"):
        places = [
            place / name
            for place in places
            if place.is_dir()
            for name in os.listdir(place)
            if fnmatch.fnmatchcase(name, part)
        ]
    return sorted(place for place in places if place.is_file())
