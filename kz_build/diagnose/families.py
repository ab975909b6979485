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


def general(candidate: Candidate, families: Iterable[Signature]) -> tuple[Signature | None, dict[str, str]]:
    """Return the first of some families and sentences that an error is of and that tells why; otherwise the first; and its groups.

    What stands around the error is taken off where that finds one that says more: a family more than a sentence's words, and
    either more than what is only possible.
    """
    found = _general(candidate, families)
    for form in (undecorated, joined, inner, named):
        text = form(candidate.passage)
        if text != candidate.passage and _says(found[0]) < FAMILY:
            later = _general(candidate._replace(passage=text), families)
            found = later if _says(later[0]) > _says(found[0]) else found
    return found


FAMILY = 3
"""How much a family says that tells why: more than a sentence, that more than what is only possible, and that more than nothing."""


def _says(one: Signature | None) -> int:
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
