"""Which family of errors a line is of: signatures that read the names out of an error instead of knowing it whole."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from kz_build.diagnose.error_lines import Candidate
from kz_build.diagnose.error_words import speaks
from kz_build.diagnose.log_line import undecorated
from kz_build.diagnose.sentence import LONGEST, sentence
from kz_build.diagnose.signature import Signature


def general(candidate: Candidate, families: Iterable[Signature]) -> tuple[Signature | None, dict[str, str]]:
    """Return the first of some families and sentences that an error is of and that tells why; otherwise the first; and its groups."""
    found = _general(candidate, families)
    plain = undecorated(candidate.passage)
    if plain == candidate.passage or (found[0] and not found[0].possible):
        return found
    later = _general(candidate._replace(passage=plain), families)
    return later if later[0] and not (found[0] and later[0].possible) else found


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
