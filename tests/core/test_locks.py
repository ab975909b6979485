"""Locks on things in the store."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from kz_build.core.locks import lock


def test_a_lock_file_that_is_deleted_while_another_process_waits_locks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process would make another file, and both would work at the same time."""
    path = tmp_path / "locks" / "x.lock"
    usual = fcntl.flock

    def deleting(handle: int, how: int) -> None:
        usual(handle, how)
        monkeypatch.setattr(fcntl, "flock", usual)
        path.unlink()

    monkeypatch.setattr(fcntl, "flock", deleting)
    with lock(tmp_path, "x"):
        handle = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            usual(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    usual(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)
