"""Where an edit of a patch belongs in upstream's file: ways to make it, each with a score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kz_build.patch.line_map import Edit
from kz_build.resolve.indentation import indented, reindented
from kz_build.resolve.option import Option, Rule
from kz_build.resolve.three_versions import NOWHERE, WORD, Gap, ThreeVersions, key, weight
from kz_build.resolve.token_merge import ALIKE, contained, line_break, merge_tokens, similarity

REACH = 8
"""How many lines on either side of an edit are searched for in upstream's file."""
OFTEN = 12
"""A line that upstream's file has more often than this tells nothing about a place."""
LONG = 200
"""Lines between an edit's neighbours beyond which they are no longer compared by words."""
TELLING = 2.5
"""What the lines around an edit must weigh where upstream's file has such lines in several places."""
NEAR = 40
"""How many lines on either side of an edit tell whether upstream removed the code that it is in."""
GROWN = 0.6
"""The share of an edit's words that upstream's lines still have where it added to them."""
OPTIONS = 4


def options(versions: ThreeVersions, edit: Edit) -> tuple[Option, ...]:
    """Return the ways to make an edit, the best first; just one where it merges."""
    if merged := _merged(versions, edit):
        return (merged,)
    gap = versions.gap(edit)
    nothing = (gap.our_start, gap.our_start, ())
    left_out = Option(*nothing, Rule.GONE, 4.0) if _gone(versions, edit, gap) else Option(*nothing, Rule.LEFT_OUT, 0.0)
    best: dict[tuple[int, int, tuple[bytes, ...]], Option] = {}
    for option in (
        *_there(versions, edit, gap),
        *_replayed(versions, edit, gap),
        *_overridden(versions, edit, gap),
        *_sorted(versions, edit, gap),
        *_placed(versions, edit, gap),
        left_out,
    ):
        known = best.get(option[:3])
        if known is None or known.score < option.score:
            best[option[:3]] = option
    was, now = tuple(versions.base[gap.start : gap.end]), tuple(versions.ours[gap.our_start : gap.our_end])
    ranked = sorted(best.values(), key=lambda option: -option.score)[:OPTIONS]
    return tuple(option._replace(was=was, now=now) for option in ranked)


def _merged(versions: ThreeVersions, edit: Edit) -> Option | None:
    """Make the edit as a three-way merge does: its lines and those on either side are there, and still together."""
    around = [versions.place(at) for at in range(edit.start - 1, edit.end + 1)]
    if NOWHERE in around or around != list(range(around[0], around[0] + len(around))):
        return None
    if not _is_told(versions, edit.start - 1, around):
        return None
    start, end = around[0] + 1, around[-1]
    new, old, mine = versions.new(edit), versions.base[edit.start : edit.end], versions.ours[start:end]
    if old != mine and (words := merge_tokens(old, mine, new, 0, len(old))) is not None:
        return Option(start, end, tuple(words), *((Rule.MERGED, 10.0) if words == mine else (Rule.REFORMATTED, 9.5)))
    return Option(start, end, indented(versions, edit, start, end), Rule.MERGED, 10.0)


def _is_told(versions: ThreeVersions, first: int, around: list[int]) -> bool:
    """Whether lines that stay together tell a place: upstream's file has them once, or they and those beside them are telling.

    They are those of the base from `first` on, and `around` in ours. Braces alone connect one function with another.
    """
    keys, ours = versions.base_keys, versions.our_keys
    last = first + len(around) - 1
    if first < 0 or last >= len(keys):
        return True
    telling = sum(map(weight, keys[first + 1 : last][:4]))
    for at, step in ((first, -1), (last, 1)):
        place = versions.place(at)
        for _ in range(4):
            telling += weight(keys[at]) if keys[at] else 0.0
            at, place = at + step, place + step
            if not 0 <= at < len(keys):
                telling += 1
                break
            if versions.place(at) != place:
                break
    if telling >= TELLING:
        return True
    run = keys[first : last + 1]
    at = min(range(len(run)), key=lambda at: len(versions.where[run[at]]))
    places = versions.where[run[at]]
    return len(places) <= OFTEN and sum(ours[place - at : place - at + len(run)] == run for place in places) < 2


def _there(versions: ThreeVersions, edit: Edit, gap: Gap) -> Iterator[Option]:
    """Make no change where upstream has it."""
    mine = versions.our_keys[gap.our_start : gap.our_end]
    old = versions.base_keys[edit.start : edit.end]
    new = list(map(key, versions.new(edit)))
    telling = sum(map(weight, new))
    undone = _has_most(mine, old, new)
    nothing = (gap.our_start, gap.our_start, ())
    if not new:
        # Lines in place of the removed ones may be the same, rewritten.
        if not mine and not _gone(versions, edit, gap):
            yield Option(*nothing, Rule.THERE, 9.0)
    elif telling >= 0.5 and _has(mine, new) and not undone:
        yield Option(*nothing, Rule.THERE, 8.0 + min(telling, 1))


def _gone(versions: ThreeVersions, edit: Edit, gap: Gap) -> bool:
    """Whether upstream removed the code around an edit: lines on both sides are gone, more than the edit replaces, and hardly any stand there."""
    before, after, old, mine = (
        sum(map(weight, lines))
        for lines in (
            versions.base_keys[max(gap.start, edit.start - NEAR) : edit.start],
            versions.base_keys[edit.end : min(gap.end, edit.end + NEAR)],
            versions.base_keys[edit.start : edit.end],
            versions.our_keys[gap.our_start : min(gap.our_end, gap.our_start + LONG)],
        )
    )
    return bool(before and after) and before + after > max(2 * TELLING + old, 10 * mine)


def _has_most(lines: list[bytes], old: list[bytes], new: list[bytes]) -> bool:
    """Whether lines have most of those that an edit removes."""
    gone = [one for one in old if one not in new]
    there = set(lines)
    return bool(gone) and 2 * sum(weight(one) for one in gone if one in there) > sum(map(weight, gone))


def _has(lines: list[bytes], run: list[bytes]) -> bool:
    """Whether lines have a run of lines in them; joined, so that the search takes no time on hostile ones."""
    return b"\n%b\n" % b"\n".join(run) in b"\n%b\n" % b"\n".join(lines)


def _replayed(versions: ThreeVersions, edit: Edit, gap: Gap) -> Iterator[Option]:
    """Change the same words in lines that upstream rewrote."""
    if gap.our_start == gap.our_end or max(gap.our_end - gap.our_start, gap.end - gap.start) > LONG:
        return
    if (gap.start, gap.end) == (edit.start, edit.start):
        return
    old, mine = versions.base[gap.start : gap.end], versions.ours[gap.our_start : gap.our_end]
    alike = similarity(b"".join(old), b"".join(mine))
    if alike < ALIKE:
        return
    score = 4.0 + 4 * alike - (edit.start == edit.end)
    merged = merge_tokens(old, mine, versions.new(edit), edit.start - gap.start, edit.end - gap.start)
    if merged is None or merged == mine:
        return
    merged = reindented(versions, edit, gap, merged)
    head = tail = 0
    shorter = min(len(mine), len(merged))
    while head < shorter and mine[head] == merged[head]:
        head += 1
    while tail < shorter - head and mine[-1 - tail] == merged[-1 - tail]:
        tail += 1
    lines = tuple(merged[head : len(merged) - tail])
    yield Option(gap.our_start + head, gap.our_end - tail, lines, Rule.REPLAYED, score)


def _overridden(versions: ThreeVersions, edit: Edit, gap: Gap) -> Iterator[Option]:
    """Write the edit's lines in place of what upstream made of those that it replaces."""
    size = edit.end - edit.start
    if not size or max(gap.our_end - gap.our_start, gap.end - gap.start) > LONG:
        return
    old, mine = versions.base[gap.start : gap.end], versions.ours[gap.our_start : gap.our_end]
    start, end = (line_break(old, mine, at - gap.start) for at in (edit.start, edit.end))
    if start is None and (first := _outermost(versions, edit, -1)) is not None:
        start = first - gap.our_start
    if end is None and (last := _outermost(versions, edit, 1)) is not None:
        end = last + 1 - gap.our_start
    if start is None or end is None or not 0 <= start < end <= len(mine):
        return
    was, now = b"".join(versions.base[edit.start : edit.end]), b"".join(mine[start:end])
    alike = similarity(was, now)
    if alike >= ALIKE or contained(was, now) >= GROWN:
        # Where the lines are still there, and together, what upstream has beside them may stay.
        place = versions.place(edit.start)
        there = versions.our_keys[place : place + size] == versions.base_keys[edit.start : edit.end]
        score = 3.0 if place >= 0 and there else 8 * alike - 1
        yield Option(gap.our_start + start, gap.our_start + end, versions.new(edit), Rule.OVERRIDDEN, score)


def _outermost(versions: ThreeVersions, edit: Edit, step: int) -> int | None:
    """Return where the first (-1) or last (1) line that an edit replaces is in ours: beside those that upstream kept, and like it."""
    kept = [at for at in range(edit.start, edit.end) if versions.place(at) >= 0]
    if not kept:
        return None
    at, outermost = (kept[0], edit.start) if step < 0 else (kept[-1], edit.end - 1)
    place = versions.place(at)
    while at != outermost:
        at, place = at + step, place + step
        if not 0 <= place < len(versions.ours) or similarity(versions.base_keys[at], versions.our_keys[place]) < ALIKE:
            return None
    return place


def _sorted(versions: ThreeVersions, edit: Edit, gap: Gap) -> Iterator[Option]:
    """Insert lines into a list, such as a file's imports, where it is in order before and after."""
    new = versions.new(edit)
    if not new or edit.start < edit.end or gap.our_end - gap.our_start > LONG:
        return
    form = _form(new[0])
    first, last = _with_neighbours(versions.base, edit.start, edit.end, form)
    start, end = _with_neighbours(versions.ours, gap.our_start, gap.our_end, form)
    theirs, mine = [*versions.base[first : edit.start], *new, *versions.base[edit.end : last]], versions.ours[start:end]
    alike = first < last and len(mine) > 1 and {_form(line) for line in (*mine, *theirs)} == {form}
    if alike and mine == sorted(mine) and theirs == sorted(theirs):
        both = sorted([*mine, *(line for line in new if line not in mine)])
        yield Option(start, end, tuple(both), Rule.SORTED, 8.0)


def _with_neighbours(lines: Sequence[bytes], start: int, end: int, form: bytes) -> tuple[int, int]:
    """Add the line on either side if it has a form."""
    before = start > 0 and _form(lines[start - 1]) == form
    return start - before, end + (end < len(lines) and _form(lines[end]) == form)


def _form(line: bytes) -> bytes:
    """Return a line without its words and paths: the entries of a list have the same. A blank line is of another form."""
    return b"".join(line.split()).translate(None, WORD + b"./-+") if line.strip() else b"\n"


class Spot(NamedTuple):
    """A place where an edit's lines are, with how well the lines around it fit."""

    score: float
    start: int


def _placed(versions: ThreeVersions, edit: Edit, gap: Gap) -> Iterator[Option]:
    """Make the edit where its lines are now, or those around it."""
    size = edit.end - edit.start
    spots = sorted(
        (spot for start in _starts(versions, edit, gap) if (spot := _spot(versions, edit, gap, start))), reverse=True
    )
    for number, spot in enumerate(spots[:3]):
        rival = spots[1 - min(number, 1)].score if len(spots) > 1 else 0.0
        score = min(spot.score, 7) + 2 * min(spot.score - rival, 1) - 1
        end = spot.start + size
        yield Option(spot.start, end, indented(versions, edit, spot.start, end), Rule.PLACED, score)


def _starts(versions: ThreeVersions, edit: Edit, gap: Gap) -> set[int]:
    """Return where the edit would be if a line near it is now where upstream's file has that line."""
    keys, size = versions.base_keys, edit.end - edit.start
    starts = {gap.our_start, gap.our_end - size}
    for at in range(max(edit.start - REACH, 0), min(edit.end + REACH, len(keys))):
        places = versions.where.get(keys[at], ())
        if len(places) <= OFTEN:
            starts.update(place - at + edit.start for place in places)
    return {start for start in starts if 0 <= start <= len(versions.ours) - size}


def _spot(versions: ThreeVersions, edit: Edit, gap: Gap, start: int) -> Spot | None:
    keys, ours = versions.base_keys, versions.our_keys
    old = keys[edit.start : edit.end]
    end = start + len(old)
    if ours[start:end] != old:
        return None
    # What the patch appends to a file stays at its end, behind what upstream appends.
    appended = edit.start == len(keys) and end == len(ours)
    next_before, before = _context(versions, edit.start - 1, (gap.our_start if appended else start) - 1, -1)
    next_after, after = _context(versions, edit.end, end, 1)
    inside = gap.our_start <= start and end <= gap.our_end
    own = sum(map(weight, old[:8]))
    beside = edit.start == gap.start and start == gap.our_start, edit.end == gap.end and end == gap.our_end
    grown = not old and any(beside)
    if max(next_before, next_after) < 0.3 and own < 1 and not grown:
        return None
    return Spot(before + after + 1.5 * min(own, 2) + 1.5 * inside / (1 + (gap.end - gap.start - len(old)) / 4), start)


def _context(versions: ThreeVersions, at: int, place: int, step: int) -> tuple[float, float]:
    """Compare three lines of context. Return the weight of the nearest that is there, and that of all."""
    keys, ours = versions.base_keys, versions.our_keys
    total = nearest = 0.0
    unbroken = True
    for distance in range(3):
        one, other = at + step * distance, place + step * distance
        ended = not 0 <= one < len(keys), not 0 <= other < len(ours)
        if any(ended):
            if all(ended) and unbroken:
                total += 1.0
                nearest = nearest or 1.0
            break
        if keys[one] == ours[other] and not versions.is_copy(one, other):
            total += weight(keys[one]) / (1 + 0.5 * distance)
            if unbroken and nearest < 0.3:
                nearest = max(nearest, weight(keys[one]))
        else:
            unbroken = False
            alike = similarity(keys[one], ours[other]) if distance == 0 else 0.0
            if alike > 0.6:
                total += 0.5 * alike * weight(keys[one])
    return nearest, total
