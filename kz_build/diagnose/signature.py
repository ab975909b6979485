"""Signatures of known problems in logs, and the findings of a scan. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kz_build.diagnose.codes import decode

PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")
"""`{group}` in a signature's texts, and `{group:table}` for a number that has a name in `codes`."""


def filled(place: re.Match[str], groups: dict[str, str]) -> str:
    """Return what a place in braces stands for: a group of `match`, or the name that a table has for its number."""
    text = groups.get(place[1], place[0])
    return decode(place[2], text) if place[2] else text


@dataclass(frozen=True)
class Seen:
    """A line as the program prints it, and its public address, if it is of one thread."""

    line: str
    at: str = ""


@dataclass(frozen=True)
class Signature:
    """One known problem.

    A line matches if it contains one of the texts `find` and, if given, fits `match` (a regular expression whose named
    groups may be used in its texts, as PLACE says). `cause` is what such a line proves. `reasons` are what was behind it where people
    met it, the most frequent first, if the line alone does not tell: there may be another. `explains` names signatures that only follow from it.
    A `consequence` follows from whatever stands before it in the log. A `possible` one tells what happened and not why: it is
    never claimed as the cause. A `warning` is printed by a program that mostly goes on: it is no longer claimed where another error tells
    why. A `harmless` line looks like an error and is none.
    A `family` is a class of errors. It has no texts: its `match` is held against the likeliest error of a log, and the lines
    around that, where no other signature says what went wrong. A `sentence` is a form in which programs say the cause
    themselves: its `match` is searched in the words of that error, where no family fits, and {who}, {place} and {words} are
    the parts of what is said.
    """

    id: str
    title: str
    find: tuple[str, ...]
    cause: str
    next: str
    seen: tuple[Seen, ...]
    near: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    match: str = ""
    explains: tuple[str, ...] = ()
    consequence: bool = False
    possible: bool = False
    warning: bool = False
    harmless: bool = False
    family: bool = False
    sentence: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Return all that it says."""
        return self.title, self.cause, *self.reasons, self.next


@dataclass(frozen=True)
class Finding:
    """A signature in a log. `line` counts from 1; `times` stops at the scanner's limit.

    A `possible` one is no cause: it tells what happened and not why, or is read from a line that is not the likeliest error.
    """

    id: str
    title: str
    line: int
    text: str
    times: int
    more: bool
    cause: str
    reasons: tuple[str, ...]
    next: str
    at: tuple[str, ...]
    follows: str = ""
    harmless: bool = False
    possible: bool = False


@dataclass(frozen=True)
class ErrorLine:
    """A line that looks like an error and is not recognised; `search` is what to search for."""

    line: int
    text: str
    search: str


@dataclass(frozen=True)
class Diagnosis:
    """All findings in one log; each comes before those that follow from it, and harmless ones come last.

    Where none says what went wrong, `not_recognised` has the lines that look like the error, the likeliest first.
    """

    log: str
    lines: int
    signatures: int
    found: tuple[Finding, ...]
    not_recognised: tuple[ErrorLine, ...] = ()

    @property
    def causes(self) -> tuple[Finding, ...]:
        """Return why it went wrong: the findings that follow from no other, and are neither harmless nor only possible."""
        return tuple(one for one in self.found if not (one.follows or one.harmless or one.possible))

    @property
    def possible(self) -> tuple[Finding, ...]:
        """Return the findings that tell what happened and not why, the likeliest first."""
        return tuple(one for one in self.found if one.possible)


def parse_signature(id: str, plain: dict[str, Any]) -> Signature:
    """Build one signature from its YAML form. Raises TypeError for an unknown key."""
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    fields["seen"] = tuple(Seen(**one) for one in plain["seen"])
    return Signature(id=id, **{"find": (), **fields})
