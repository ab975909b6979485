"""How git marks and names what it stores: modes as they stand in trees, ids by content."""

from __future__ import annotations

import hashlib

FILE = "100644"
LINK = "120000"
"""A symbolic link, whose content is where it points."""
SUBMODULE = "160000"
FOLDER = "40000"
"""A folder; in a Blob also what is no file but takes its place: a folder (its data the paths below it, joined by NUL), a
submodule, or a file above that leaves no room for a folder (both without data)."""


def blob_id(data: bytes) -> str:
    """Git's name of a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
