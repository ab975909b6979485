"""Paths that a source leaves out."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence


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
