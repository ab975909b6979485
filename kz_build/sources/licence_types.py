"""A source's licence that each user accepts, and a user's acceptance. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Acceptance:
    """A user's acceptance: the licence's digest, its source, the date, and how they said so (`asked` or `--yes`)."""

    sha256: str
    source: str
    version: str
    file: str
    date: str
    how: str


@dataclass(frozen=True)
class Licence:
    """The licence of a source: `file` in its wheel (`wheel`, at `place` in the store), and its digest.

    `accepted` is None if this user has not accepted exactly these bytes.
    """

    source: str
    line: str
    version: str
    wheel: str
    place: Path
    file: str
    sha256: str
    accepted: Acceptance | None


@dataclass(frozen=True)
class PinnedLicence:
    """A source of a line whose licence users accept, and this user's acceptance of it."""

    line: str
    source: str
    version: str
    accepted: Acceptance | None
