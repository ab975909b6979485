"""Applying patches in order, each unless what it changes is there already: upstream has taken it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, Read, Refused, apply_patch, content, overlaid
from kz_build.patch.change import FileChange, Patch, fits, placed, split_lines
from kz_build.patch.place import Place, Standing, nearest, settled, standing, traced

THERE = "what it changes is there already"
PART = "upstream has this part of the patch already"
NEARER = "what it changes stands nearer to its line"
ELSEWHERE = "what it changes stands elsewhere"


def apply_stack(patches: Sequence[Patch], read: Read, keep: Collection[int] = ()) -> tuple[Applied | Refused, ...]:
    """Apply patches in order on what `read` gives; a refused patch is left out for those after it.

    Those whose number, from 0, is in `keep` are applied although what they change may be there already.
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
    """Places in files as earlier patches left them, as places in the target's own."""
    sides = ((place, content(target(place.path)), content(current(place.path))) for place in places)
    return tuple(traced(place, old, new) if old and new else place for place, old, new in sides)


def _kept(patch: Patch, read: Read) -> Applied | Refused:
    outcome = apply_patch(patch, read)
    if isinstance(outcome, Applied) and all(read(path) == blob for path, blob in outcome.files.items()):
        return Refused(patch, patch.files[0].path if patch.files else "", "it changes nothing there", 0)
    return outcome


def attempt(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch unless what it changes is there already, in its place or in part."""
    outcome = apply_patch(patch, read)
    whole = (
        bool(patch.files) and _could_be_there(patch, read) and isinstance(apply_patch(patch.reverse(), read), Applied)
    )
    if isinstance(outcome, Applied):
        return _unless_there(outcome, read, whole=whole)
    return _where(outcome, read) if whole else outcome


def _unless_there(outcome: Applied, read: Read, *, whole: bool) -> Applied | Refused:
    """Refuse a patch that applies where it would do again what is done, as a hunk that only inserts can.

    `whole`: its reverse applies as well.
    """
    patch = outcome.patch
    suspects = outcome.moved if whole else [one for one in outcome.moved if _suspect(*one, read)]
    if not suspects or _made_for(patch, read):
        return outcome
    found = [stood for change, offsets in suspects for stood in _stood(patch, change, offsets, read, whole=whole)]
    there = [stood for stood in found if stood.standing is Standing.THERE]
    if whole and len(there) == len(found):
        places = (*(Place(c.path) for c in patch.files if not c.hunks), *(stood.place for stood in there))
        return Refused(patch, patch.files[0].path, THERE, 0, True, places, applies=True)
    doubtful = there or [stood for stood in found if stood.standing is Standing.UNCLEAR]
    if not doubtful:
        return outcome
    first, places = doubtful[0], tuple(stood.place for stood in doubtful)
    reason = PART if there else f"it applies {first.offset:+d} lines away, but {NEARER}"
    return Refused(patch, first.place.path, reason, first.line, there=places, applies=True)


def _suspect(change: FileChange, offsets: tuple[int, ...], read: Read) -> bool:
    """Whether hunks that apply may be there already: those that can apply twice, or that moved."""
    pairs = [pair for pair in zip(change.hunks, offsets, strict=True) if pair[0].again or pair[1]]
    data = (content(read(change.origin)) or b"") if pairs else b""
    return any(b"".join(hunk.after) in data for hunk, _ in pairs)


def _made_for(patch: Patch, read: Read) -> bool:
    """Whether the files are the very ones that the patch was made for: then nothing of it is there."""
    changes = [change for change in patch.files if change.hunks and not change.creates]
    blobs = [(change.made_for, read(change.origin)) for change in changes]
    return bool(changes) and all(blob is not None and blob.id == oid for oid, blob in blobs)


class _Stood(NamedTuple):
    """A hunk that applies, by its line in the patch file and its offset: whether it is there already, and where."""

    standing: Standing
    place: Place
    line: int
    offset: int


def _stood(patch: Patch, change: FileChange, offsets: tuple[int, ...], read: Read, *, whole: bool) -> Iterator[_Stood]:
    """What is to be said of each hunk of a change that applies."""
    places_of, fits_in = _rules(patch)
    lines = split_lines(content(read(change.origin)) or b"")
    for hunk, offset, at in zip(change.hunks, offsets, places_of(change.hunks, offsets), strict=True):
        what, start = standing(lines, hunk, at, offset, fits_in, whole=whole)
        yield _Stood(what, Place(change.origin, start + 1, start + len(hunk.after)), hunk.line, offset)


def _where(refused: Refused, read: Read) -> Refused:
    """Where the lines stand that a patch leaves, and whether that is its place: it does not apply, but its reverse does."""
    patch, (_, fits_in) = refused.patch, _rules(refused.patch)
    places: list[Place] = []
    sure = True
    for change in patch.files:
        data = content(read(change.path))
        if data is None:
            places.append(Place(change.path, gone=True))
            continue
        lines = split_lines(data)
        if change.creates or not change.hunks:
            places.append(Place(change.path, 1, len(lines)) if change.hunks else Place(change.path))
            continue
        found = settled(lines, change.hunks, fits_in)
        sure = sure and found is not None
        for hunk, at in zip(change.hunks, found or (nearest(lines, h, fits_in) for h in change.hunks), strict=True):
            places += [] if at is None else [Place(change.path, at + 1, at + len(hunk.after))]
    if sure:
        return replace(refused, reason=THERE, upstreamed=True, there=tuple(places))
    return replace(refused, reason=f"{refused.reason}; {ELSEWHERE}", there=tuple(places))


def _rules(patch: Patch) -> tuple[Callable[..., list[int]], Callable[..., list[int]]]:
    if not patch.gnu:
        return placed, fits
    from kz_build.patch import gnu_place

    return gnu_place.placed, gnu_place.fits


def _could_be_there(patch: Patch, read: Read) -> bool:
    """Whether the reverse can tell anything: git takes back any mode, and lines removed without context anywhere."""
    for change in patch.files:
        there = read(change.path)
        if change.mode and not (there and there.mode == change.mode):
            return False
        if change.source and (change.copies or read(change.origin)):
            return False
        if there and not change.deletes and not all(hunk.after for hunk in change.hunks):
            return False
    return True
