"""Many texts in a block at once.

`bytes.find` takes half a second for each text and gigabyte. One regular expression stops at a few characters alone, of which
nearly every text has one, and finds all such texts in one pass.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator

from kz_build.diagnose.log_line import WINDOW

_STOPS = b"Kz*'(QERqPFCAwyvxhbfds"
"""The characters that it stops at, the rarest in logs first: together a tenth of a log. More of them cost more than they find."""
_ENOUGH = ((8, _STOPS), (5, _STOPS), (2, _STOPS[:15]))
"""Bytes of a text from a stop on, the better the more: few make it stop for nothing."""


class TextSearch:
    """A search for some texts; a text counts once a line."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._plain: list[bytes] = []
        rests: dict[bytes, list[tuple[bytes, int]]] = {}
        for text in texts:
            at = _stop(text)
            if at >= 0:
                rests.setdefault(text[at:], []).append((text, at))
            else:
                self._plain.append(text)
        # A text that has another in it is looked for only in the lines of that one.
        self._inner = {
            inner: [text for text in self._plain if inner in text]
            for inner in self._plain
            if not any(other in inner for other in self._plain if other != inner)
        }
        # Only the longest that fits is reported: with it go those that it begins with.
        self._begun = {
            rest: [one for end in range(1, len(rest) + 1) for one in rests.get(rest[:end], ())] for rest in rests
        }
        self._expression = re.compile(_trie(rests)) if rests else None

    def hits(self, block: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each text in a block, and where it is."""
        for inner, texts in self._inner.items():
            at = block.find(inner)
            while at >= 0:
                end = _line_end(block, at + len(inner))
                start = block.rfind(b"\n", max(0, at - WINDOW), at) + 1 or max(0, at - WINDOW)
                for text in texts:
                    place = block.find(text, start, end)
                    if place >= 0:
                        yield text, place
                at = block.find(inner, end)
        done: dict[bytes, int] = {}
        match = self._expression.search(block) if self._expression else None
        while match and self._expression:
            for text, before in self._begun[match[0]]:
                at = match.start() - before
                if at >= done.get(text, 0) and block.startswith(text, at):
                    done[text] = _line_end(block, at + len(text))
                    yield text, at
            match = self._expression.search(block, match.start() + 1)


def _stop(text: bytes) -> int:
    """Return the place of the rarest character of _STOPS in a text with enough behind it; -1 if it has none."""
    places = (text.find(stop, 0, len(text) - least + 1) for least, stops in _ENOUGH for stop in stops)
    return next((at for at in places if at >= 0), -1)


def _trie(rests: Collection[bytes]) -> bytes:
    """Return an expression for the longest of some texts, in which each byte of a line is compared as seldom as can be."""
    start = os.path.commonprefix([*rests]) or b""
    branches: dict[bytes, list[bytes]] = {}
    for rest in rests:
        branches.setdefault(rest[len(start) : len(start) + 1], []).append(rest[len(start) :])
    short = branches.pop(b"", None)
    if not branches:
        return re.escape(start)
    longer = b"|".join(_trie(more) for more in branches.values())
    return re.escape(start) + b"(?:" + longer + b")" + (b"?" if short else b"")


def _line_end(block: bytes, at: int) -> int:
    end = block.find(b"\n", at, at + WINDOW)
    return end if end >= 0 else at + WINDOW
