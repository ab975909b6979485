"""The lines of a file that are most like what a rule looks for and does not find."""

from __future__ import annotations

import heapq
import re
from collections import Counter

MOST_LINES = 5
MOST_TRIED = 500
"""How many lines with the rarest words are looked at."""
_WORD = re.compile(rb"\w+")


def nearest_lines(wanted: bytes, content: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return the first of these lines, from 1, and the lines; 0 and none if no line has a word of `wanted`.

    A word counts the less, the more lines have it.
    """
    words = set(_WORD.findall(wanted))
    lines = content.split(b"\n")
    shared = [words.intersection(_WORD.findall(line)) for line in lines]
    often = Counter(word for some in shared for word in some)
    size = min(MOST_LINES, max(1, len(wanted.strip().split(b"\n"))))

    def score(at: int) -> float:
        return sum(1 / often[word] for word in set().union(*shared[at : at + size]))

    rare = heapq.nlargest(
        MOST_TRIED, range(len(shared)), key=lambda at: max((1 / often[w] for w in shared[at]), default=0)
    )
    starts = {start for at in rare for start in range(max(0, at - size + 1), at + 1) if shared[start]}
    best = max(sorted(starts), key=score, default=None)
    return (0, ()) if best is None else (best + 1, tuple(lines[best : best + size]))
