"""Git's modes and ids: modes as trees have them, ids by content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

State = Mapping[str, tuple[str, str] | None]
"""path -> (mode, blob id); None if there is no such file."""
_PULL = re.compile(r"\(#(\d+)\)$")

FILE = "100644"
LINK = "120000"
"""A symbolic link; its content is its target."""
SUBMODULE = "160000"
FOLDER = "40000"
"""A folder; in a Blob also what takes the place of a file: a folder (its data the paths below it, joined by NUL), a
submodule, or a file above it that leaves no room for a folder (both without data)."""


def output_lines(output: bytes) -> list[str]:
    """Return the lines of git's output. Only a newline ends one: names and subjects may contain what Python takes for another."""
    return output.decode("utf-8", "replace").removesuffix("\n").split("\n") if output else []


def blob_id(data: bytes) -> str:
    """Return git's id of a content."""
    return object_id("blob", data)


def object_id(kind: str, data: bytes, *, sha256: bool = False) -> str:
    """Return git's id of an object of a kind (blob, tree, commit, tag), in a SHA-1 repository or a SHA-256 one."""
    algorithm = hashlib.sha256 if sha256 else hashlib.sha1
    return algorithm(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Blob:
    """A file in a tree: git mode ('100644', '100755', '120000', or FOLDER for none) and content."""

    mode: str
    data: bytes

    @cached_property
    def id(self) -> str:
        """Git's id of this content."""
        return blob_id(self.data)


@dataclass(frozen=True)
class FileOnDisk:
    """A file that is to become a `Blob`, read each time that its content is asked for."""

    mode: str
    path: Path

    @property
    def data(self) -> bytes:
        """Return its content as it is now."""
        return self.path.read_bytes()


MOST_OF_SUBJECT = 400
"""How many characters of a subject are shown."""


def cut_subject(subject: str) -> str:
    """Return a subject as it is shown: of one that is too long the begin and the end, which may name a pull request."""
    return subject if len(subject) <= MOST_OF_SUBJECT else f"{subject[: MOST_OF_SUBJECT - 20]}…{subject[-19:]}"


@dataclass(frozen=True)
class Commit:
    """An upstream commit that touches the stack's files. `date` is the committer's, ISO 8601."""

    id: str
    date: str
    subject: str
    changes: tuple[tuple[str, str, str, str], ...] = ()
    """(path, mode afterwards, blob before, blob after); an id of zeros where there is no file"""

    @property
    def pull(self) -> int:
        """Number of the pull request that the subject ends with, 0 if it names none."""
        match = _PULL.search(self.subject.rstrip())  # `Revert "… (#N)"` is not N's
        return int(match[1]) if match else 0

    def as_json(self) -> dict[str, object]:
        """Return what results say of it."""
        return {"id": self.id, "date": self.date, "subject": self.subject, "pull": self.pull}

    @property
    def shown(self) -> str:
        """`5fc929fa88 2026-04-28 subject (#N)`."""
        return f"{self.id[:10]} {self.date[:10]} {self.subject}"
