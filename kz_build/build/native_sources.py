"""Programs of kz's own that a target builds for its device with its own toolchain: the source `kz` of a cmake project."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("native")


def digest() -> str:
    """sha256 over the files, by name: what a build that has them depends on."""
    found = hashlib.sha256()
    for path in sorted(FOLDER.iterdir()):
        data = path.read_bytes()
        found.update(f"{path.name} {len(data)}\n".encode() + data)
    return found.hexdigest()
