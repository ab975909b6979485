"""Candidates for a patch that no longer applies: complete results for its files, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kz_build.patch.change import split_lines
from kz_build.resolve.line_map import edits, line_map

Files = Mapping[str, bytes]
"""Contents by path; a path that is not in it is no file."""


@dataclass(frozen=True)
class Candidate:
    """One result: `files` has what it changes in upstream's files, None for a file that goes away.

    `confidence` is how many of 100 such candidates are what a maintainer makes of it, as a share; `rule` names the way it was
    made, `reason` explains it in one sentence.
    """

    files: Mapping[str, bytes | None]
    rule: str
    confidence: float
    reason: str


def candidates(base: Files, ours: Files, theirs: Files) -> tuple[Candidate, ...]:
    """Return up to three candidates, the best first; none where there is nothing to offer.

    `base` and `theirs` are the files of the patch before and after it, on the version it was made for. `ours` are upstream's
    files now: those of the patch and, where upstream moved code, the files that may have it.
    """
    files: dict[str, bytes | None] = {}
    for path in sorted({*base, *theirs}):
        before, there, after = base.get(path), ours.get(path), theirs.get(path)
        if before == after or there == after:
            continue
        if there == before:
            files[path] = after
        elif before is None or there is None or after is None:
            return ()
        else:
            merged = three_way(before, there, after)
            if merged is None:
                return ()
            files[path] = merged
    return (Candidate(files, "three-way", 0.9, "a three-way merge has no conflict"),) if files else ()


def three_way(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge as git does, with a patience diff; None if both sides changed the same or adjacent lines."""
    before, there, after = split_lines(base), split_lines(ours), split_lines(theirs)
    # Counted from 1, with a line before the first and one after the last that both sides have.
    places = [0, *(place + 1 for place in line_map(before, there)), len(there) + 1]
    merged, done = [], 0
    for start, end, new_start, new_end in edits(before, after):
        around = places[start : end + 2]
        if around != list(range(around[0], around[0] + len(around))) or not all(around[1:]):
            return None
        merged += [*there[done : around[0]], *after[new_start:new_end]]
        done = around[-1] - 1
    return b"".join([*merged, *there[done:]])
