"""sha256 of files on this machine, cached in the store while their times, size and inode stay the same."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from kz_build.core.files import sha256_file, write_atomic

SMALL = 1 << 18
"""A file that is read as fast as what is cached of it."""
SETTLED_SECONDS = 2.0
"""A file that changed this recently may change again within the same clock tick: not cached, as in git."""


def cached_sha256(store: Path, path: Path) -> str:
    """Return the sha256 of a file; read it only if it changed since the last call. Raises OSError if it cannot be read."""
    facts = _facts(path)
    if facts[0] < SMALL:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    entry = store / "digests" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()}.json"
    try:
        cached = json.loads(entry.read_bytes())
        if cached["facts"] == facts:
            return str(cached["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256_file(path)
    if _facts(path) == facts and time.time() - max(facts[1], facts[2]) / 1e9 > SETTLED_SECONDS:
        write_atomic(entry, json.dumps({"facts": facts, "sha256": digest}).encode())
    return digest


def _facts(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]
