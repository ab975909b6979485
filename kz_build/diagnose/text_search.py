"""Many texts in a block at once.

`bytes.find` takes half a second for each text and gigabyte. Most texts have a character that is rare in logs: one regular
expression stops at those alone, and finds all such texts in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kz_build.diagnose.log_line import WINDOW

_RARE = re.compile(rb"[A-Zkxqzjb\"'_<>`*](?=.)")


class TextSearch:
    """A search for some texts; a text counts once a line."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._plain: list[bytes] = []
        rests: dict[bytes, list[tuple[bytes, int]]] = {}
        for text in texts:
            rare = _RARE.search(text)
            if rare:
                rests.setdefault(text[rare.start() :], []).append((text, rare.start()))
            else:
                self._plain.append(text)
        # Only the longest that fits is reported: with it go those that it begins with.
        self._begun = {
            rest: [one for short in rests if rest.startswith(short) for one in rests[short]] for rest in rests
        }
        self._expression = re.compile(_alternatives(rests)) if rests else None

    def hits(self, block: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each text in a block, and where it is."""
        for text in self._plain:
            at = block.find(text)
            while at >= 0:
                yield text, at
                at = block.find(text, _line_end(block, at + len(text)))
        done: dict[bytes, int] = {}
        match = self._expression.search(block) if self._expression else None
        while match and self._expression:
            for text, before in self._begun[match[0]]:
                at = match.start() - before
                if at >= done.get(text, 0) and block.startswith(text, at):
                    done[text] = _line_end(block, at + len(text))
                    yield text, at
            match = self._expression.search(block, match.start() + 1)


def _alternatives(rests: Iterable[bytes]) -> bytes:
    """Return an expression for texts, grouped by their first byte: it is all that is looked at in most places."""
    groups: dict[bytes, list[bytes]] = {}
    for rest in sorted(rests, key=len, reverse=True):
        groups.setdefault(rest[:1], []).append(re.escape(rest[1:]))
    return b"|".join(re.escape(first) + b"(?:" + b"|".join(more) + b")" for first, more in sorted(groups.items()))


def _line_end(block: bytes, at: int) -> int:
    end = block.find(b"\n", at, at + WINDOW)
    return end if end >= 0 else at + WINDOW
