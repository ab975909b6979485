"""Three-way merge by words and signs: what upstream rewrote in a line, and what the patch changes in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kz_build.patch.change import split_lines
from kz_build.resolve.line_map import edits, line_map

_TOKEN = re.compile(rb"(\n)|(\w+|[^\w\s])([^\S\n]*)|([^\S\n]+)")
_NAME = re.compile(rb"[^\W\d]\w*")
_TOO_LONG = 8_000
"""Bytes of one side beyond which nothing is merged or compared by words."""

Token = tuple[bytes, bytes]
"""A word, a sign or the end of a line, and the white space after it; indentation is the white space after nothing."""


def line_break(base: Sequence[bytes], ours: Sequence[bytes], at: int) -> int | None:
    """Return which line of ours is the first of what it made of the lines of base from `at` on, None if that is not sure."""
    if at in (0, len(base)):
        return len(ours) if at else 0
    texts = [b"".join(lines) for lines in (base[:at], base[at:], ours)]
    if max(map(len, texts)) > _TOO_LONG:
        return None
    before, after, mine = map(_tokens, texts)
    places = line_map([word for word, _ in (*before, *after)], words := [word for word, _ in mine])
    last = max(places[: len(before) - 1], default=-1)
    first = next((place for place in places[len(before) :] if place >= 0), len(words))
    breaks = [place for place in range(max(last, 0), first) if words[place] == b"\n"]
    return words[: breaks[0] + 1].count(b"\n") if len(breaks) == 1 else None


def similarity(one: bytes, other: bytes) -> float:
    """Return the share of words and signs that two texts have in common, in order."""
    if max(len(one), len(other)) > _TOO_LONG:
        return 0.0
    a, b = ([word for word, _ in _tokens(text) if word.strip()] for text in (one, other))
    return 2 * sum(place >= 0 for place in line_map(a, b)) / max(len(a) + len(b), 1)


def renamed(base: Sequence[bytes], ours: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the word that ours has in place of another, if that is all that is different."""
    texts = [b"".join(lines) for lines in (base, ours)]
    if max(map(len, texts)) > _TOO_LONG:
        return None
    old, new = ([word for word, _ in _tokens(text)] for text in texts)
    pairs = {(*old[one.start : one.end], b" ", *new[one.new_start : one.new_end]) for one in edits(old, new)}
    pair = pairs.pop() if len(pairs) == 1 else ()
    return (pair[0], pair[2]) if len(pair) == 3 and pair[1] == b" " and all(map(_NAME.fullmatch, pair[::2])) else None


def _tokens(text: bytes) -> list[Token]:
    return [(end or word, space or indent) for end, word, space, indent in _TOKEN.findall(text)]


def merge_tokens(
    base: Sequence[bytes], ours: Sequence[bytes], new: Sequence[bytes], start: int, end: int
) -> list[bytes] | None:
    """Make `new` of the lines `start` to `end` of base, word by word in ours, with its white space.

    Where both sides changed the same words, or words side by side, there is no result. Words that both sides
    remove are gone.
    """
    texts = [b"".join(lines) for lines in (base[:start], base[start:end], base[end:], ours, new)]
    if max(sum(map(len, texts[:3])), *map(len, texts)) > _TOO_LONG:
        return None
    head, changed, tail, mine, written = (_tokens(text) for text in texts)
    old_words, my_words = ([word for word, _ in side] for side in ([*head, *changed, *tail], mine))
    # Counted from 1, with a token before the first and one after the last that both sides have; 0 is nowhere.
    places = [1, *(place + 2 if place >= 0 else 0 for place in line_map(old_words, my_words)), len(mine) + 2]
    spaces = [b"", *(space for _, space in (*head, *written))]
    merged: list[Token] = []
    done = 0
    for first, last, new_start, new_end in edits([word for word, _ in changed], [word for word, _ in written]):
        around = before, after = len(head) + first, len(head) + last + 1
        while not places[before]:
            before -= 1
        while not places[after]:
            after += 1
        kept = sum(1 for place in places[before + 1 : after] if place)
        nothing_added = places[after] - places[before] - 1 == kept
        unchanged = nothing_added and kept == after - before - 1
        only_removed = nothing_added and new_start == new_end
        apart = (before, after) == around
        if places[before] - 1 < done or not (apart and (unchanged or only_removed)):
            return None
        merged += mine[done : places[before] - 1]
        merged += _spaced(written[new_start:new_end], merged, spaces[len(head) + new_start])
        done = places[after] - 2
    return split_lines(b"".join(word + space for word, space in [*merged, *mine[done:]]))


def _spaced(inserted: list[Token], before: list[Token], space: bytes) -> list[Token]:
    """Move the white space that ours has before an insertion behind it, where the patch has other white space there."""
    if (
        not inserted
        or not before
        or before[-1][1] == space
        or before[-1][0] in (b"", b"\n")
        or inserted[-1][0] == b"\n"
    ):
        return inserted
    ours = before[-1][1]
    before[-1] = (before[-1][0], space)
    return [*inserted[:-1], (inserted[-1][0], ours)]
