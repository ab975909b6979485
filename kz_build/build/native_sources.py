"""kz's own programs that a target builds for its device with its toolchain: the source `kz` of a cmake project."""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).with_name("native")


def digest() -> str:
    """Return the sha256 over the files, by name: an input of a build that has them."""
    result = hashlib.sha256()
    for path in sorted(FOLDER.iterdir()):
        data = path.read_bytes()
        result.update(f"{path.name} {len(data)}\n".encode() + data)
    return result.hexdigest()
