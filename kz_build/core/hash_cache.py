"""sha256 of files on this machine, remembered in the store while their times, size and inode stay the same."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from kz_build.core.files import sha256_file, write_atomic

SETTLED_SECONDS = 2.0
"""A file that changed so recently may change again within the same tick of its clock: not remembered, as git does it."""


def remembered_sha256(store: Path, path: Path) -> str:
    """sha256 of a file; read only if it changed since it was last asked for. Raises OSError where it cannot be read."""
    note = store / "digests" / f"{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()}.json"
    facts = _facts(path)
    try:
        held = json.loads(note.read_bytes())
        if held["facts"] == facts:
            return str(held["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256_file(path)
    if _facts(path) == facts and time.time() - max(facts[1], facts[2]) / 1e9 > SETTLED_SECONDS:
        write_atomic(note, json.dumps({"facts": facts, "sha256": digest}).encode())
    return digest


def _facts(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]
