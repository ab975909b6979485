"""How git marks and names what it stores: modes as they stand in trees, ids by content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True)
class Blob:
    """A file in a tree: git mode ('100644', '100755', '120000', or FOLDER for none) and content."""

    mode: str
    data: bytes

    @cached_property
    def id(self) -> str:
        """The id that git gives this content."""
        return blob_id(self.data)
