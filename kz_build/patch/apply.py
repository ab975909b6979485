"""A stack: the ordered patches on one source in one line, and what applying one of them gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kz_build.git.object_types import FILE, FOLDER, LINK, Blob
from kz_build.patch.change import FileChange, HunkFailure, Patch, apply_hunks
from kz_build.patch.intent_checks import Check
from kz_build.patch.place import Place


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
        return frozenset(c.file for c in self.checks).union(*(p.reads for p in self.patches))


def content(blob: Blob | None) -> bytes | None:
    """What a file holds; None where there is no file."""
    return blob.data if blob and blob.mode != FOLDER else None


Read = Callable[[str], Blob | None]


@dataclass(frozen=True)
class Applied:
    """A patch that applied: the files it leaves (None where deleted), and of each change how far its hunks moved."""

    patch: Patch
    files: Mapping[str, Blob | None]
    moved: tuple[tuple[FileChange, tuple[int, ...]], ...]

    @property
    def offsets(self) -> tuple[tuple[str, int, int], ...]:
        """(path, line of the hunk in the patch file, offset in lines; negative is earlier) of the hunks that moved."""
        pairs = ((c.path, h, off) for c, offsets in self.moved for h, off in zip(c.hunks, offsets, strict=True))
        return tuple((path, hunk.line, offset) for path, hunk, offset in pairs if offset)

    @property
    def commit(self) -> tuple[str, str, Mapping[str, Blob | None]]:
        """The commit to write: author and date, those of the patch; message; files."""
        return f"{self.patch.author} {self.patch.date}", self.patch.message, self.files


@dataclass(frozen=True)
class Refused:
    """A patch that did not apply, or must not.

    `upstreamed` when what it changes is there already, in its place. `there` are the lines that have it, or part of it.
    `applies` where it would apply all the same.
    """

    patch: Patch
    path: str
    reason: str
    patch_line: int
    upstreamed: bool = False
    there: tuple[Place, ...] = ()
    applies: bool = False


def overlaid(read: Read, changed: Mapping[str, Blob | None]) -> Read:
    """What is read once these files have changed; `changed` may grow meanwhile."""

    def current(path: str) -> Blob | None:
        there = changed[path] if path in changed else read(path)
        if not changed or (there and there.mode != FOLDER):
            return there
        inside = set(there.data.split(b"\0")) if there else set()
        for name, blob in changed.items():
            if name.startswith(f"{path}/"):
                below = name[len(path) + 1 :].encode("utf-8", "surrogateescape")
                (inside.add if blob else inside.discard)(below)
        if inside == {b""} and any(parent in changed and changed[parent] is None for parent in _above(path)):
            return None  # the file above it is gone
        return Blob(FOLDER, b"\0".join(sorted(inside))) if inside else None

    return current


def apply_patch(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch to what `read` gives: all of it or nothing."""
    state = _State(patch, read)
    moved: list[tuple[FileChange, tuple[int, ...]]] = []
    for change in patch.files:
        result = state.change(change)
        if isinstance(result, HunkFailure):
            return Refused(patch, change.path, result.reason, result.hunk.line)
        if isinstance(result, str):
            line = change.hunks[0].line if change.hunks else change.line
            return Refused(patch, change.path, result, line)
        moved.append((change, result))
    # As git writes: what goes goes first, so that files may swap their names.
    files: dict[str, Blob | None] = {**dict.fromkeys(state.gone), **state.made}
    unsaid = {f.origin for f in patch.files if f.leaves and not f.old_mode}
    after = overlaid(read, files)
    if path := next((path for path in state.made if _blocked(path, state, after, unsaid)), ""):
        return Refused(patch, path, "a folder is in its place, or a file where its folder would be", 0)
    return Applied(patch, files, tuple(moved))


class _State:
    """Files while a patch is applied. A rename or copy reads what was there before the patch, all else what it has made so far."""

    def __init__(self, patch: Patch, read: Read) -> None:
        self.read = read
        self.gnu = patch.gnu
        self.apply = apply_hunks
        if patch.gnu:
            from kz_build.patch import gnu_place

            self.apply = gnu_place.apply_hunks
        self.leaving = {f.origin for f in patch.files if f.leaves}
        self.gone: list[str] = []
        self.made: dict[str, Blob] = {}
        self.now: dict[str, Blob | None] = {}

    def change(self, change: FileChange) -> tuple[int, ...] | HunkFailure | str:
        """Do one change: the offsets of its hunks, or why it cannot be done."""
        if self.gnu:
            change = self._as_gnu(change)
        before = None
        if not change.creates:
            seen = not change.source and change.origin in self.now
            before = self.now[change.origin] if seen else self.read(change.origin)
            if before is None or before.mode == FOLDER:
                return "the file is gone by then" if seen else "the file is not there"
            said = [mode for mode in (change.old_mode, change.mode) if mode] or [FILE] * self.gnu
            if any((mode == LINK) != (before.mode == LINK) for mode in said):
                return "it is a symbolic link" if before.mode == LINK else "it is no symbolic link"
        if (change.creates or (change.source and not self.gnu)) and self._taken(change.path):
            return "the file it creates is there already"
        if change.binary and self.gnu:
            return "GNU patch takes no binary changes"
        if change.binary:
            made = change.binary.apply(before.data if before else None)
            result: tuple[bytes, tuple[int, ...]] | HunkFailure | str = made if isinstance(made, str) else (made, ())
        else:
            result = self.apply(change.path, before.data if before else b"", change.hunks)
        if not isinstance(result, tuple):
            return result
        data, offsets = result
        if change.deletes and data:
            return "the file it deletes has other content"
        if not change.deletes:
            mode = change.mode or (before.mode if before else FILE)
            self.now[change.path] = self.made[change.path] = Blob(mode, data)
        if change.leaves:
            self.now[change.origin] = None
            self.gone.append(change.origin)
        return offsets

    def _as_gnu(self, change: FileChange) -> FileChange:
        """GNU patch creates what a hunk from nothing meets no file for, and fills an empty file instead of creating it."""
        if not change.hunks or change.hunks[0].before or change.hunks[0].old_start:
            return change
        there = self.now[change.origin] if change.origin in self.now else self.read(change.origin)
        data = content(there)
        return replace(change, creates=data is None or (change.creates and bool(data)))

    def _taken(self, path: str) -> bool:
        if path in self.now:
            free = self.now[path] is None
        else:
            free = path in self.leaving
        there = None if free else self.read(path)
        return there is not None and there.mode != FOLDER


def _blocked(path: str, state: _State, after: Read, unsaid: set[str]) -> bool:
    """Whether a file cannot be written: a folder is there that the patch does not empty, or a file stays above it."""
    for parent in _above(path):
        above = after(parent)
        if above and above.mode != FOLDER:
            return True
        # A link that goes leaves its place to a folder only where the patch says that it was a link: git's rule.
        if parent in unsaid and (gone := state.read(parent)) and gone.mode == LINK:
            return True
    there = overlaid(state.read, dict.fromkeys(state.gone))(path)
    return there is not None and there.mode == FOLDER


def _above(path: str) -> list[str]:
    return [path[:at] for at, char in enumerate(path) if char == "/"]
