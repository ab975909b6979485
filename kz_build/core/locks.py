"""Locks on a store, on single things in it, and on temporary folders, so that the next run deletes those of a killed one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.env import temporary_root
from kz_build.core.errors import StorageError
from kz_build.core.files import PATIENCE, disk_errors, remove

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


@contextlib.contextmanager
def lock(store: Path, name: str, watch: Watch | None = None) -> Iterator[None]:
    """Let only one process at a time work on `name`; tell `watch`, or else the terminal, if this takes long."""
    with contextlib.ExitStack() as stack:
        with disk_errors(store / "locks"):
            while True:
                handle = _lock_file(store, name)
                stack.callback(os.close, handle)
                _lock(handle, fcntl.LOCK_EX, f"waiting: another kz uses {name}", watch)
                if _is_at(handle, store / "locks" / f"{name}.lock"):
                    break
        yield


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is still the one at a path: somebody may have deleted it while this process waited."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _lock(handle: int, how: int, text: str, watch: Watch | None) -> None:
    """Lock a file for this process; say so if another process keeps it for longer than PATIENCE."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, how | fcntl.LOCK_NB)
            return
        time.sleep(0.05)
    if watch:
        from kz_build.core.progress import Event

        watch(Event(text))
    else:
        from kz_build.core.terminal import Live

        Live().note(f"kz: {text}")
    fcntl.flock(handle, how)


_shared_handles: list[int] = []


def share(store: Path) -> None:
    """Keep `exclusive` out until `release`. A store without write permission needs no lock: nothing can be removed there."""
    with contextlib.suppress(OSError):
        _shared_handles.append(_lock_file(store, "store"))
        _lock(_shared_handles[-1], fcntl.LOCK_SH, f"waiting: kz store gc uses {store}", None)


def release() -> None:
    """Release every `share` of this process, as its end does."""
    while _shared_handles:
        os.close(_shared_handles.pop())


@contextlib.contextmanager
def exclusive(store: Path) -> Iterator[None]:
    """Keep every other kz out of the store: new ones wait. Raises StorageError if one uses it now."""
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


_SCRATCH = "kz-scratch-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder for this block. It is locked while its process lives, which tells it from a dead one's."""
    root = temporary_root()
    with disk_errors(root):
        remove_dead_scratch()
        folder, handle = _locked_folder(root)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # the next one tries again
            remove(folder)
        os.close(handle)


def remove_dead_scratch() -> None:
    """Delete the folders of processes that were killed."""
    for folder in temporary_root().glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):  # another user's, or one that is in use
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(handle)


def _locked_folder(root: Path) -> tuple[Path, int]:
    """Make a folder and lock it; again if another process takes it for a dead one's before it is locked."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=root, prefix=_SCRATCH))
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists():
                return folder, handle
        os.close(handle)
