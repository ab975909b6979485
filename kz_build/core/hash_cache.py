"""What kz computed and can compute again, cached in the store under a hash: plain values, and the sha256 of files on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from kz_build.core.errors import StorageError
from kz_build.core.files import sha256_file, write_atomic

MOST_BYTES = 1 << 28
"""No more of a file is read; the digest of a longer one does not match."""
SMALL = 1 << 18
"""A file that is read as fast as what is cached of it."""
SETTLED_SECONDS = 2.0
"""A file that changed this recently may change again within the same clock tick: not cached, as in git."""
_HEAD = 65
_told = False
"""Whether this process has said that the store takes nothing."""


def read_cached(path: Path) -> Any:
    """Return what `write_cached` wrote; None if there is nothing, or it is damaged or cannot be read.

    The first line is the digest of the rest, so that no reader must judge every value. Change the name of a file with its form.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError:
        return None
    if data[:_HEAD] != _digest(data[_HEAD:]):
        return None
    return json.loads(data[_HEAD:])


def write_cached(path: Path, value: Any, mode: int = 0o644) -> None:
    """Write plain values as JSON, atomically. A store that takes no file is told once: the answer is known without it."""
    global _told
    data = json.dumps(value, separators=(",", ":")).encode()
    try:
        write_atomic(path, _digest(data) + data, mode)
    except StorageError as error:
        from kz_build.core.terminal import Live  # only a failure needs it

        if not _told:
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
            Live().note(f"kz: {path.parent} takes no file ({why}): the next command computes this again")
        _told = True


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode() + b"\n"


def cached_sha256(store: Path, path: Path) -> str:
    """Return the sha256 of a file; read it only if its times, size or inode changed since the last call. Raises OSError if it
    cannot be read."""
    began, facts = time.time(), stat_facts(path.stat())
    if facts[0] < SMALL:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    entry = store / "digests" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()}.json"
    cached = read_cached(entry)
    if cached and cached["facts"] == facts:
        return str(cached["sha256"])
    digest = sha256_file(path)
    if stat_facts(path.stat()) == facts and is_settled(facts, began):
        write_cached(entry, {"facts": facts, "sha256": digest})
    return digest


def stat_facts(status: os.stat_result) -> list[int]:
    """Return what changes with a file's bytes: size, times, inode and device."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def is_settled(facts: list[int], seen: float) -> bool:
    """Whether a file that had these facts at a time cannot change without changing them."""
    return seen - max(facts[1], facts[2]) / 1e9 > SETTLED_SECONDS
