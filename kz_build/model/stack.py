"""A stack: the ordered patches on one source in one line, and what applying it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kz_build.model.intent import Check
from kz_build.model.patch import FileChange, HunkFailure, Patch, apply_hunks


@dataclass(frozen=True)
class Stack:
    """`folder` is for messages; `digest` covers series, patches and checks to the byte."""

    line: str
    source: str
    folder: str
    patches: tuple[Patch, ...]
    checks: tuple[Check, ...]
    digest: str

    @property
    def touched(self) -> frozenset[str]:
        """Paths that the patches change or the checks read."""
        return frozenset(f.path for p in self.patches for f in p.files) | {c.file for c in self.checks}


@dataclass(frozen=True)
class Blob:
    """A file in a tree: git mode ('100644', '100755', '120000') and content."""

    mode: str
    data: bytes

    @cached_property
    def id(self) -> str:
        """The id that git gives this content."""
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data, usedforsecurity=False).hexdigest()


Read = Callable[[str], Blob | None]


@dataclass(frozen=True)
class Applied:
    """A patch that applied: the files it leaves (None where deleted) and the hunks that sat at an offset."""

    patch: Patch
    files: Mapping[str, Blob | None]
    offsets: tuple[tuple[str, int, int], ...]
    """(path, line of the hunk in the patch file, offset in lines; negative is earlier)"""


@dataclass(frozen=True)
class Refused:
    """A patch that did not apply. `upstreamed` when its reverse does: what it changes is already there."""

    patch: Patch
    path: str
    reason: str
    patch_line: int
    upstreamed: bool


def apply_stack(patches: tuple[Patch, ...], read: Read) -> tuple[Applied | Refused, ...]:
    """Apply patches in order on what `read` gives; a refused patch is left out for those after it."""
    overlay: dict[str, Blob | None] = {}

    def current(path: str) -> Blob | None:
        return overlay[path] if path in overlay else read(path)

    outcomes: list[Applied | Refused] = []
    for patch in patches:
        outcome = attempt(patch, current)
        if isinstance(outcome, Applied):
            overlay.update(outcome.files)
        outcomes.append(outcome)
    return tuple(outcomes)


def attempt(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch unless its reverse applies: what it changes is then there already."""
    outcome = apply_patch(patch, read)
    # Asked also where it applies: a hunk that only inserts applies a second time.
    if not isinstance(apply_patch(reversed_patch(patch), read), Refused):
        path, line = (outcome.path, outcome.patch_line) if isinstance(outcome, Refused) else (patch.files[0].path, 0)
        return Refused(patch, path, "what it changes is already there", line, True)
    return outcome


def reversed_patch(patch: Patch) -> Patch:
    """The patch that takes this one back."""
    files = tuple(
        FileChange(f.path, tuple(h.reverse() for h in f.hunks), "", creates=f.deletes, deletes=f.creates)
        for f in patch.files
    )
    return Patch(patch.name, patch.author, patch.date, patch.message, files)


def apply_patch(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch to what `read` gives: all of it or nothing."""
    files: dict[str, Blob | None] = {}
    offsets: list[tuple[str, int, int]] = []
    for change in patch.files:
        before = files[change.path] if change.path in files else read(change.path)
        line = change.hunks[0].line if change.hunks else 0
        if change.creates and before is not None:
            return Refused(patch, change.path, "the file it creates is there already", line, False)
        if not change.creates and before is None:
            return Refused(patch, change.path, "the file is not there", line, False)
        result = apply_hunks(change.path, before.data if before else b"", change.hunks)
        if isinstance(result, HunkFailure):
            return Refused(patch, change.path, result.reason, result.hunk.line, False)
        data, moved = result
        if change.deletes and data:
            return Refused(patch, change.path, "the file it deletes has other content", line, False)
        mode = change.mode or (before.mode if before else "100644")
        files[change.path] = None if change.deletes else Blob(mode, data)
        offsets += [(change.path, h.line, off) for h, off in zip(change.hunks, moved, strict=True) if off]
    return Applied(patch, files, tuple(offsets))
