"""Three-way merge by words and signs: what upstream rewrote in a line, and what the patch changes in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kz_build.patch.change import split_lines
from kz_build.patch.line_map import Edit, edits, line_map

_TOKEN = re.compile(rb"(\n)|(\w+|[^\w\s])([^\S\n]*)|([^\S\n]+)")
_NAME = re.compile(rb"[^\W\d]\w*")
_TOO_LONG = 8_000
"""Bytes of one side beyond which nothing is merged or compared by words."""
ALIKE = 0.5
"""The share of words that lines have in common with those that upstream made of them; with less they are others."""

Token = tuple[bytes, bytes]
"""A word, a sign or the end of a line, and the white space after it; indentation is the white space after nothing."""
_NO_WORD = (b"", b"\n")
_START: Token = (b"", b"")
_OPENING = (b"(", b"[", b"{")


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
    common, first, second = _common(one, other)
    return 2 * common / max(first + second, 1)


def contained(one: bytes, other: bytes) -> float:
    """Return the share of the words and signs of one text that another has, in order."""
    common, first, _ = _common(one, other)
    return common / max(first, 1)


def _common(one: bytes, other: bytes) -> tuple[int, int, int]:
    """Count the words and signs that two texts have in common, and those of each."""
    if max(len(one), len(other)) > _TOO_LONG:
        return 0, 1, 1
    a, b = ([word for word, _ in _tokens(text) if word.strip()] for text in (one, other))
    return sum(place >= 0 for place in line_map(a, b)), len(a), len(b)


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
    merged: list[Token] = []
    done = stays = new_stays = 0
    changes = edits([word for word, _ in changed], [word for word, _ in written])
    rest = Edit(len(changed) + 1, len(changed) + 1, len(written) + 1, len(written) + 1)
    for first, last, new_start, new_end in [*changes, rest]:
        # What stays up to the word before an edit gets the white space that the patch alone changed.
        for at, now in zip(range(stays, first - 1), range(new_stays, new_start - 1), strict=True):
            place = places[len(head) + at + 1] - 2
            if place >= 0 and mine[place] == changed[at]:
                mine[place] = written[now]
        stays, new_stays = last, new_end
        if first == rest.start:
            break
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
        old: list[Token] = [_START, *head, *changed][before:after]
        writes: list[Token] = [[_START, *head, *written][len(head) + new_start], *written[new_start:new_end]]
        here = [*(merged[-1:] or [_START]), *mine[places[before] - 1 : places[after] - 2]]
        merged[-1:] = _spaced(old, here, writes)
        done = places[after] - 2
    return split_lines(b"".join(word + space for word, space in [*merged, *mine[done:]]))


def _spaced(old: Sequence[Token], ours: Sequence[Token], new: list[Token]) -> list[Token]:
    """Give what an edit writes the white space of ours where the patch changes none.

    Each starts with the word before the edit. Where the white space before and behind an insertion is the same, the one next to
    a bracket stays there: where ours has `f( a )`, `f(a)` with `, b` inserted becomes `f( a, b )`.
    """
    (first, space), (last, end) = new[0], new[-1]
    before, behind = space == old[0][1], end == old[-1][1] and last not in _NO_WORD
    if before and behind and len(old) == 1 and len(new) > 1 and first not in _NO_WORD:
        before = first in _OPENING
        behind = not before
    space, end = ours[0][1] if before else space, ours[-1][1] if behind else end
    return [(first, space), *new[1:-1], (last, end)] if len(new) > 1 else [(first, space if first in _NO_WORD else end)]
