"""Apply patches in order, except those whose change upstream already has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, Read, Refused, apply_patch, content, overlaid
from kz_build.patch.change import FileChange, Patch, fits, placed, split_lines
from kz_build.patch.place import Place, Presence, mapped_back, nearest, presence, unique_places
from kz_build.patch.rewrite import rewritten

ALREADY_THERE = "what it changes is there already"
PARTLY_THERE = "upstream has this part of the patch already"
NEARER = "the lines it leaves are found nearer to its line"
ELSEWHERE = "the lines it leaves are found elsewhere"


def apply_stack(patches: Sequence[Patch], read: Read, keep: Collection[int] = ()) -> tuple[Applied | Refused, ...]:
    """Apply patches in order to the files that `read` returns; a refused patch is left out for those after it.

    Patches whose number, from 0, is in `keep` are applied even where their change seems to be there already.
    """
    overlay: dict[str, Blob | None] = {}
    current = overlaid(read, overlay)
    outcomes: list[Applied | Refused] = []
    for number, patch in enumerate(patches):
        outcome = _kept(patch, current) if number in keep else attempt(patch, current)
        if isinstance(outcome, Applied):
            overlay.update(outcome.files)
        elif outcome.there:
            outcome = replace(outcome, there=in_target(outcome.there, read, current))
        outcomes.append(outcome)
    return tuple(outcomes)


def in_target(places: tuple[Place, ...], target: Read, current: Read) -> tuple[Place, ...]:
    """Translate places in files that earlier patches changed to places in the target's own files."""
    sides = ((place, content(target(place.path)), content(current(place.path))) for place in places)
    return tuple(mapped_back(place, old, new) if old and new else place for place, old, new in sides)


def _kept(patch: Patch, read: Read) -> Applied | Refused:
    outcome = apply_patch(patch, read)
    if isinstance(outcome, Applied) and all(read(path) == blob for path, blob in outcome.files.items()):
        return Refused(patch, patch.files[0].path if patch.files else "", "it changes nothing there", 0)
    return outcome


def attempt(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch, by its rules if it has any, unless its change, or part of it, is there already."""
    outcome = apply_patch(patch, read)
    patch = outcome.patch
    if isinstance(outcome, Applied):
        outcome = _unless_there(outcome, read, whole=_reverses(patch, read))
    else:
        outcome = located(outcome, read)
    return rewritten(outcome, read) if patch.rewrite else outcome


def _reverses(patch: Patch, read: Read) -> bool:
    return bool(patch.files) and _may_be_there(patch, read) and isinstance(apply_patch(patch.reverse(), read), Applied)


def _unless_there(outcome: Applied, read: Read, *, whole: bool) -> Applied | Refused:
    """Refuse a patch that would apply a second time, as a hunk that only inserts can.

    `whole`: its reverse applies as well.
    """
    patch = outcome.patch
    suspects = outcome.moved if whole else [one for one in outcome.moved if _suspect(*one, read)]
    if not suspects or _made_for(patch, read):
        return outcome
    hunks = [hunk for change, offsets in suspects for hunk in _applied_hunks(patch, change, offsets, read, whole=whole)]
    present = [hunk for hunk in hunks if hunk.presence is Presence.PRESENT]
    if whole and len(present) == len(hunks):
        places = (*(Place(c.path) for c in patch.files if not c.hunks), *(hunk.place for hunk in present))
        return Refused(patch, patch.files[0].path, ALREADY_THERE, 0, True, places, applies=True)
    doubtful = present or [hunk for hunk in hunks if hunk.presence is Presence.UNCLEAR]
    if not doubtful:
        return outcome
    first, places = doubtful[0], tuple(hunk.place for hunk in doubtful)
    reason = PARTLY_THERE if present else f"it applies {first.offset:+d} lines away, but {NEARER}"
    return Refused(patch, first.place.path, reason, first.line, there=places, applies=True)


def _suspect(change: FileChange, offsets: tuple[int, ...], read: Read) -> bool:
    """Return whether hunks that apply may be there already: they can apply twice, or they moved."""
    pairs = [pair for pair in zip(change.hunks, offsets, strict=True) if pair[0].again or pair[1]]
    data = (content(read(change.origin)) or b"") if pairs else b""
    return any(b"".join(hunk.after) in data for hunk, _ in pairs)


def _made_for(patch: Patch, read: Read) -> bool:
    """Return whether the files are exactly those the patch was made for: then none of it is there."""
    changes = [change for change in patch.files if change.hunks and not change.creates]
    blobs = [(change.made_for, read(change.origin)) for change in changes]
    return bool(changes) and all(blob is not None and blob.id == oid for oid, blob in blobs)


class _AppliedHunk(NamedTuple):
    """A hunk that applies: its line in the patch file, its offset, whether it is there already, and where."""

    presence: Presence
    place: Place
    line: int
    offset: int


def _applied_hunks(
    patch: Patch, change: FileChange, offsets: tuple[int, ...], read: Read, *, whole: bool
) -> Iterator[_AppliedHunk]:
    """Find out for each hunk of a change that applies whether it is there already."""
    places_of, fits_in = _placement(patch)
    lines = split_lines(content(read(change.origin)) or b"")
    for hunk, offset, at in zip(change.hunks, offsets, places_of(change.hunks, offsets), strict=True):
        state, start = presence(lines, hunk, at, offset, fits_in, whole=whole)
        yield _AppliedHunk(state, Place(change.origin, start + 1, start + len(hunk.after)), hunk.line, offset)


def located(refused: Refused, read: Read) -> Refused:
    """Find the lines that a patch leaves, where only its reverse applies; it is upstreamed if they are in its place."""
    if not _reverses(refused.patch, read):
        return refused
    patch, (_, fits_in) = refused.patch, _placement(refused.patch)
    places: list[Place] = []
    certain = True
    for change in patch.files:
        data = content(read(change.path))
        if data is None:
            places.append(Place(change.path, gone=True))
            continue
        lines = split_lines(data)
        if change.creates or not change.hunks:
            places.append(Place(change.path, 1, len(lines)) if change.hunks else Place(change.path))
            continue
        unique = unique_places(lines, change.hunks, fits_in)
        certain = certain and unique is not None
        for hunk, at in zip(change.hunks, unique or (nearest(lines, h, fits_in) for h in change.hunks), strict=True):
            places += [] if at is None else [Place(change.path, at + 1, at + len(hunk.after))]
    if certain:
        return replace(refused, reason=ALREADY_THERE, upstreamed=True, there=tuple(places))
    return replace(refused, reason=f"{refused.reason}; {ELSEWHERE}", there=tuple(places))


def _placement(patch: Patch) -> tuple[Callable[..., list[int]], Callable[..., list[int]]]:
    if not patch.gnu:
        return placed, fits
    from kz_build.patch import gnu_place

    return gnu_place.placed, gnu_place.fits


def _may_be_there(patch: Patch, read: Read) -> bool:
    """Return whether the reverse says anything: git reverts any mode, and finds lines removed without context anywhere."""
    for change in patch.files:
        there = read(change.path)
        if change.mode and not (there and there.mode == change.mode):
            return False
        if change.source and (change.copies or read(change.origin)):
            return False
        if there and not change.deletes and not all(hunk.after for hunk in change.hunks):
            return False
    return True
