"""A source's licence that each user accepts for himself, and what one accepted. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Accepted:
    """A user's word: the licence's digest, what it came with, when, and how he said so (`asked` or `--yes`)."""

    sha256: str
    source: str
    version: str
    file: str
    date: str
    how: str


@dataclass(frozen=True)
class Licence:
    """The licence of a source: `file` in its wheel (`wheel`, at `place` in the store), and its digest.

    `accepted` is None where this user has not accepted these very bytes.
    """

    source: str
    line: str
    version: str
    wheel: str
    place: Path
    file: str
    sha256: str
    accepted: Accepted | None


@dataclass(frozen=True)
class Pinned:
    """A source of a line whose licence users accept, and what this one accepted of it."""

    line: str
    source: str
    version: str
    accepted: Accepted | None
