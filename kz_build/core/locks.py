"""Who may use a store, or one thing in it, at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import StorageError
from kz_build.core.files import disk_errors

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

PATIENCE = 2.0
"""Seconds before one who waits is told."""


@contextlib.contextmanager
def locked(store: Path, name: str, watch: Watch | None = None) -> Iterator[None]:
    """Only one process at a time works on `name`; who waits for long and watches is told what for."""
    with contextlib.ExitStack() as stack:
        with disk_errors(store / "locks"):
            handle = _lock_file(store, name)
            stack.callback(os.close, handle)
            taken = _taken(handle)
        if not taken:
            if watch:
                from kz_build.core.progress import Event

                watch(Event(f"waiting: another kz is at {name}"))
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _taken(handle: int) -> bool:
    """Lock a file for this process alone; False where another one has it for longer than PATIENCE."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.05)
    return False


_held: list[int] = []


def hold(store: Path) -> None:
    """Keep `alone` out until `release`. In a store that one may only read, nobody removes anything either."""
    with contextlib.suppress(OSError):
        _held.append(_lock_file(store, "store"))
        fcntl.flock(_held[-1], fcntl.LOCK_SH)


def release() -> None:
    """End every `hold` of this process, as its end does."""
    while _held:
        os.close(_held.pop())


@contextlib.contextmanager
def alone(store: Path) -> Iterator[None]:
    """No other kz uses the store meanwhile: those that start wait. Raises StorageError where one uses it now."""
    with disk_errors(store):
        handle = _lock_file(store, "store")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StorageError(f"another kz is using {store}", hint="run the command again when it has ended") from None
    finally:
        os.close(handle)


def _lock_file(store: Path, name: str) -> int:
    (store / "locks").mkdir(parents=True, exist_ok=True)
    return os.open(store / "locks" / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
