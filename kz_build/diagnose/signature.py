"""What logs say when something is wrong, as data, and what was found of it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A line as the program prints it, and the public address where it stands."""

    line: str
    at: str


@dataclass(frozen=True)
class Signature:
    """One trouble.

    A line shows it if it holds one of the texts `find` and, where given, fits `match` (a regular expression whose named
    groups may stand in braces in `title`, `cause` and `next`). `explains` names what only follows from it.
    """

    id: str
    title: str
    find: tuple[str, ...]
    cause: str
    next: str
    seen: tuple[Seen, ...]
    near: tuple[str, ...]
    match: str = ""
    explains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A signature in a log. `line` counts from 1; `times` stops at the scanner's limit."""

    id: str
    title: str
    line: int
    text: str
    times: int
    more: bool
    cause: str
    next: str
    at: tuple[str, ...]
    follows: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All of one log; what follows from something else comes after it."""

    log: str
    lines: int
    signatures: int
    found: tuple[Found, ...]


def signature(id: str, plain: dict[str, Any]) -> Signature:
    """One signature from its YAML form. Raises TypeError for a key that it does not know."""
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    fields["seen"] = tuple(Seen(**one) for one in plain["seen"])
    return Signature(id=id, **fields)
