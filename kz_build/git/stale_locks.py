"""Lock files that a killed git leaves behind. Git never removes them, and the same command then fails every time."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from kz_build.core.process import Output

_LOCK = r"Unable to create '(.+\.lock)': File exists|could not lock config file (.+): File exists"
QUIET = 2.0
"""Seconds that a lock file must stay unchanged before it counts as stale."""


def retry_past_stale_locks(repository: Path, git: Callable[[], Output]) -> Output:
    """Run git in a repository; remove a dead git's lock file that is in its way, and run it again."""
    done, removed = git(), set[Path]()
    while done.code and (lock := _stale_lock(repository, done.stderr)) and lock not in removed:
        lock.unlink(missing_ok=True)
        removed.add(lock)
        done = git()
    return done


def _stale_lock(repository: Path, output: bytes) -> Path | None:
    """Return the lock file that made git fail with this output; None if it is in use, or not of this repository."""
    match = re.search(_LOCK, output.decode("utf-8", "replace"))
    lock = Path(match[1] or f"{match[2]}.lock").resolve() if match else Path()
    if not lock.is_relative_to(repository.resolve()):  # a server can print such a message too
        return None
    before = _stamp(lock)
    time.sleep(min(max(before[0] + QUIET - time.time(), 0), QUIET))
    return None if _stamp(lock) not in (before, _GONE) or _open(str(lock)) else lock


_GONE = (0.0, 0)


def _stamp(path: Path) -> tuple[float, int]:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return _GONE
    return facts.st_mtime, facts.st_ino


def _open(path: str) -> bool:
    """Return whether a process has a file open, as far as this user may see."""
    for process in os.listdir("/proc") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):  # it is none, has ended, or is another user's
            folder = f"/proc/{process}/fd"
            if any(os.readlink(f"{folder}/{handle}") == path for handle in os.listdir(folder)):
                return True
    return False
