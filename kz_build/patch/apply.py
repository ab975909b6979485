"""A stack: the ordered patches on one source in one line. And the result of applying one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from kz_build.core.rules import bad_link
from kz_build.git.object_types import FILE, FOLDER, LINK, Blob
from kz_build.patch.change import NOT_THERE, FileChange, Hunk, Patch, apply_hunks, folders_above
from kz_build.patch.intent_checks import IntentCheck
from kz_build.patch.place import Place


@dataclass(frozen=True)
class Stack:
    """`folder` is for messages; `digest` covers series, patches and checks to the byte."""

    line: str
    source: str
    folder: str
    patches: tuple[Patch, ...]
    checks: tuple[IntentCheck, ...]
    digest: str

    @property
    def touched(self) -> frozenset[str]:
        """Paths that the patches change or the checks read."""
        return frozenset(c.file for c in self.checks).union(*(p.reads for p in self.patches))

    @property
    def mails(self) -> Stack:
        """The stack as its mails alone have it: what a build applies."""
        return replace(self, patches=tuple(replace(patch, rewrite=None) for patch in self.patches))

    @property
    def on_own_base(self) -> Stack:
        """The stack for the base it is pinned to, where mails and rules must agree."""
        patches = (replace(p, rewrite=p.rewrite._replace(own=True)) if p.rewrite else p for p in self.patches)
        return replace(self, patches=tuple(patches))


def content(blob: Blob | None) -> bytes | None:
    """Return the content of a file, or None if there is no file."""
    return blob.data if blob and blob.mode != FOLDER else None


Read = Callable[[str], Blob | None]


@dataclass(frozen=True)
class Applied:
    """A patch that applied: the files it leaves (None: deleted), how far the hunks of each change moved, and a remark."""

    patch: Patch
    files: Mapping[str, Blob | None]
    moved: tuple[tuple[FileChange, tuple[int, ...]], ...]
    remark: str = ""

    @property
    def offsets(self) -> tuple[tuple[str, int, int], ...]:
        """(path, line of the hunk in the patch file, offset in lines) of the hunks that moved; a negative offset is earlier."""
        pairs = ((c.path, h, off) for c, offsets in self.moved for h, off in zip(c.hunks, offsets, strict=True))
        return tuple((path, hunk.line, offset) for path, hunk, offset in pairs if offset)

    @property
    def commit(self) -> tuple[str, str, Mapping[str, Blob | None]]:
        """The commit to write: author and date of the patch, message, files."""
        return f"{self.patch.author} {self.patch.date}", self.patch.message, self.files


@dataclass(frozen=True)
class Refused:
    """A patch that did not apply, or must not.

    `upstreamed`: its change is there already, in its place. `there`: the lines that have it, or part of it.
    `applies`: it would apply all the same. `by_rules`: its rules do not match.
    """

    patch: Patch
    path: str
    reason: str
    patch_line: int
    upstreamed: bool = False
    there: tuple[Place, ...] = ()
    applies: bool = False
    by_rules: bool = False


def overlaid(read: Read, changed: Mapping[str, Blob | None]) -> Read:
    """Return a reader that sees these changes over `read`; `changed` may grow later."""
    known: list[str] = []
    below: dict[str, list[str]] = {}

    def current(path: str) -> Blob | None:
        there = changed[path] if path in changed else read(path)
        if not changed or (there and there.mode != FOLDER):
            return there
        for name in islice(changed, len(known), None):  # those that are new since the last call
            known.append(name)
            for folder in folders_above(name):
                below.setdefault(folder, []).append(name)
        inside = set(there.data.split(b"\0")) if there else set()
        for name in below.get(path, ()):
            entry = name[len(path) + 1 :].encode("utf-8", "surrogateescape")
            (inside.add if changed[name] else inside.discard)(entry)
        if inside == {b""} and any(parent in changed and changed[parent] is None for parent in folders_above(path)):
            return None  # the file above it is gone
        return Blob(FOLDER, b"\0".join(sorted(inside))) if inside else None

    return current


def apply_patch(patch: Patch, read: Read) -> Applied | Refused:
    """Apply one patch to the files that `read` returns: all of it or nothing."""
    if patch.gnu:
        from kz_build.patch import gnu_names  # few stacks are not ours

        patch = gnu_names.with_names_chosen(patch, read)
    state = _State(patch, read)
    moved: list[tuple[FileChange, tuple[int, ...]]] = []
    for change in patch.files:
        result = state.change(change)
        if isinstance(result, Hunk):
            return Refused(patch, change.path, NOT_THERE, result.line)
        if isinstance(result, str):
            line = change.hunks[0].line if change.hunks else change.line
            return Refused(patch, change.path, result, line)
        moved.append((change, result))
    # In git's order: deletions first, so that files may swap their names.
    files: dict[str, Blob | None] = {**dict.fromkeys(state.gone), **state.written}
    mode_unknown = {f.origin for f in patch.files if f.leaves and not f.old_mode}
    freed, after = overlaid(read, dict.fromkeys(path for path in files if not files[path])), overlaid(read, files)
    if path := next((path for path in state.written if _blocked(path, state, freed, after, mode_unknown)), ""):
        return Refused(patch, path, "a folder is in its place, or a file where its folder would be", 0)
    return Applied(patch, files, tuple(moved))


class _State:
    """The files while a patch is applied. A rename or copy reads the files before the patch; all else reads the current ones."""

    def __init__(self, patch: Patch, read: Read) -> None:
        self.read = read
        self.gnu = patch.gnu
        self.apply = apply_hunks
        if patch.gnu:
            from kz_build.patch import gnu_place

            self.apply = gnu_place.apply_hunks
        self.leaving = {f.origin for f in patch.files if f.leaves}
        self.gone: list[str] = []
        self.written: dict[str, Blob] = {}
        self.now: dict[str, Blob | None] = {}

    def change(self, change: FileChange) -> tuple[int, ...] | Hunk | str:
        """Apply one change: the offsets of its hunks, or the reason why it cannot be applied."""
        if self.gnu:
            change = self._as_gnu(change)
            # Without hunks GNU patch makes a file only to give it a mode, and deletes one only if it is there.
            idle = (change.creates and not change.mode) or (change.deletes and not self._there(change.origin))
            if idle and not change.hunks and not change.binary:
                return ()
        before = None
        if not change.creates:
            seen = not change.source and change.origin in self.now
            before = self.now[change.origin] if seen else self.read(change.origin)
            if before is None or before.mode == FOLDER:
                return "the file is gone by then" if seen else "the file is not there"
            modes = [mode for mode in (change.old_mode, change.mode) if mode] or [FILE] * self.gnu
            if any((mode == LINK) != (before.mode == LINK) for mode in modes):
                return "it is a symbolic link" if before.mode == LINK else "it is not a symbolic link"
        if (change.creates or (change.source and not self.gnu)) and self._exists(change.path):
            return "the file it creates is there already"
        if change.binary and self.gnu:
            return "GNU patch does not apply binary changes"
        if change.binary:
            after = change.binary.apply(before.data if before else None)
            result: tuple[bytes, tuple[int, ...]] | Hunk | str = after if isinstance(after, str) else (after, ())
        else:
            result = self.apply(before.data if before else b"", change.hunks)
        if not isinstance(result, tuple):
            return result
        data, offsets = result
        if change.deletes and data:
            return "the file it deletes has other content"
        if not change.deletes:
            mode = change.mode or (before.mode if before else FILE)
            if mode == LINK and (reason := bad_link(change.path)):
                return reason
            self.now[change.path] = self.written[change.path] = Blob(mode, data)
        if change.leaves:
            self.now[change.origin] = None
            self.gone.append(change.origin)
        return offsets

    def _as_gnu(self, change: FileChange) -> FileChange:
        """GNU patch creates a missing file for a hunk from nothing, and keeps what is there if the hunk may follow it."""
        if not change.from_nothing:
            return change
        data = content(self._there(change.origin))
        return replace(change, creates=data is None or (change.creates and bool(data and change.hunks)))

    def _there(self, path: str) -> Blob | None:
        return self.now[path] if path in self.now else self.read(path)

    def _exists(self, path: str) -> bool:
        if path in self.now:
            free = self.now[path] is None
        else:
            free = path in self.leaving
        there = None if free else self.read(path)
        return there is not None and there.mode != FOLDER


def _blocked(path: str, state: _State, freed: Read, after: Read, mode_unknown: set[str]) -> bool:
    """Return whether a file cannot be written: a folder that the patch does not empty is there, or a file is above it.

    `freed` are the files without those that are gone afterwards, `after` those that it leaves.
    """
    before = state.read(path)
    if before and before.mode != FOLDER and not any(parent in state.written for parent in folders_above(path)):
        return False  # its own file is there; to look into the folders of every path takes longer than all else
    for parent in folders_above(path):
        above = after(parent)
        if above and above.mode != FOLDER:
            return True
        # A deleted link makes room for a folder only where the patch says that it was a link: git's rule.
        if parent in mode_unknown and (gone := state.read(parent)) and gone.mode == LINK:
            return True
    there = freed(path)
    return there is not None and there.mode == FOLDER
