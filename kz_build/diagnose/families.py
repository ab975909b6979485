"""Which family of errors a line is of: signatures that read the names out of an error instead of knowing it whole."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from kz_build.diagnose.error_lines import Candidate
from kz_build.diagnose.error_words import speaks
from kz_build.diagnose.sentence import LONGEST, sentence
from kz_build.diagnose.signature import Signature
from kz_build.diagnose.wrapped_error import inner, joined, named, undecorated

FAMILY = 3
"""The most that an answer can tell: see `_tells`."""


def general(candidate: Candidate, families: Iterable[Signature]) -> tuple[Signature | None, dict[str, str]]:
    """Return the family or sentence that fits an error, and its groups: the first that tells why, otherwise the first.

    The error is also read without the text around it, and a match that tells more is taken instead.
    """
    found = _general(candidate, families)
    for form in (undecorated, joined, inner, named):
        text = form(candidate.passage)
        if text != candidate.passage and _tells(found[0]) < FAMILY:
            later = _general(candidate._replace(passage=text), families)
            found = later if _tells(later[0]) > _tells(found[0]) else found
    return found


def _tells(one: Signature | None) -> int:
    """Return how much an answer tells: 0 is none, 1 only possible, 2 a sentence's words, FAMILY a family that tells why."""
    return 0 if not one else 1 if one.possible else 2 if one.sentence else FAMILY


def _general(candidate: Candidate, families: Iterable[Signature]) -> tuple[Signature | None, dict[str, str]]:
    spoken = sentence(candidate.passage)
    first: tuple[Signature | None, dict[str, str]] = None, {}
    for one in families:
        if first[0] and one.possible:
            continue
        if one.sentence:
            match = speaks(candidate.rank, candidate.line.text) and compiled(one.match).search(spoken.words)
        else:
            match = compiled(one.match, re.MULTILINE).match(candidate.passage)
        if match:
            groups = (spoken._asdict() if one.sentence else {}) | match.groupdict()
            groups = {key: " ".join((value or "").split())[:LONGEST] for key, value in groups.items()}
            if not one.possible:
                return one, groups
            first = one, groups
    return first


@cache
def compiled(match: str, flags: int = 0) -> re.Pattern[str]:
    """Compile what a signature matches when a line first needs it: all take longer than a small log, and are more than `re` remembers."""
    return re.compile(match, flags)
