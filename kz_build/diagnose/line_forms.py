"""Lines that a log repeats with other numbers are searched once.

Most lines of a large log were seen before, but for times, sizes and process ids. The form of a line has a 0 for each digit; a form
without any of the texts in it is remembered, and its lines are left out. Forms are compared as sets, which is far faster than any
search.
"""

from __future__ import annotations

import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate

from kz_build.diagnose.text_search import TextSearch

MOST = 20_000
"""Forms that are remembered: a few megabytes."""
LONGEST = 1000
"""Bytes of a form that is remembered."""

_FORM = bytes.maketrans(string.digits.encode(), b"0" * 10)


class FormSearch:
    """A search for texts, block by block, which remembers forms of lines that have none. The texts may become fewer."""

    def __init__(self) -> None:
        self._bare: set[bytes] = set()
        self._texts, self._search = _search(frozenset())

    def choose(self, texts: Iterable[bytes]) -> None:
        """Search for these texts from now on."""
        self._texts, self._search = _search(frozenset(texts))

    def hits(self, block: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each text in a block, and where it is; a text once a line."""
        forms = block.translate(_FORM).split(b"\n")
        fresh = set(forms) - self._bare
        kept = [number for number, form in enumerate(forms) if form in fresh]
        if not kept:
            return
        starts = [0, *accumulate(len(forms[number]) + 1 for number in kept)]
        places = [0, *accumulate(len(form) + 1 for form in forms)]
        matches = list(self._search.hits(b"\n".join([forms[number] for number in kept])))
        for form, at in matches:
            which = bisect_right(starts, at) - 1
            fresh.discard(forms[kept[which]])
            place = places[kept[which]] + at - starts[which]
            end = places[kept[which] + 1]
            for text in self._texts[form]:
                exact = block.find(text, place, end)
                if exact >= 0:
                    yield text, exact
        self._remember(fresh)

    def _remember(self, forms: set[bytes]) -> None:
        if len(self._bare) > MOST:
            self._bare = set()
        self._bare.update(form for form in forms if len(form) <= LONGEST)


@lru_cache(4)
def _search(texts: frozenset[bytes]) -> tuple[dict[bytes, list[bytes]], TextSearch]:
    """Return the texts of each form, and the search for all forms: the same for each scanner of the same signatures."""
    by_form: dict[bytes, list[bytes]] = {}
    for text in sorted(texts):
        by_form.setdefault(text.translate(_FORM), []).append(text)
    return by_form, TextSearch(by_form)
