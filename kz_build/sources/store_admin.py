"""store: what is in it, whether it still is what it says, and what no project requires any more."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core import files, locks
from kz_build.core.check import Check, Status
from kz_build.core.errors import LockError
from kz_build.git import repository as git
from kz_build.pins.project import Project
from kz_build.sources import clones, integrity, store
from kz_build.sources.prove import archive_part

CONTENT = ("git", "sha256", "unpacked")
"""Folders whose entries are proved, each with a seal."""
REMADE = (
    "partial", "addresses", "validated", "verdicts", "radar", "github", "digests", "environments", "laid", "probes",
)  # fmt: skip
"""Folders of files that commands make again."""
DAY = 86400.0
PACKS = 50
"""More packs than this in one repository make git slow; its own gc has the same limit (gc.autoPackLimit)."""


@dataclass(frozen=True)
class StoreEntry:
    """One thing in the store. `size` in bytes; `used`: last fetched, built from or changed, in seconds since 1970;
    `needed_by`: lines and sources of the given projects' locks, `line/source`, and worktrees of any project."""

    kind: str
    name: str
    size: int
    used: float
    needed_by: tuple[str, ...]


def entries(projects: Sequence[Project]) -> tuple[StoreEntry, ...]:
    """Return everything in the store of these projects, biggest first within its kind."""
    root = projects[0].store
    needed = _needed(projects)
    result = []
    for kind in sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
        if kind in CONTENT:
            paths = [path for path in (root / kind).iterdir() if not path.name.startswith(".")]  # an unfinished one
            of_kind = [_entry(root, kind, path, needed) for path in paths]
            result += sorted(of_kind, key=lambda e: (-e.size, e.name))
        elif kind != "locks":
            result.append(StoreEntry(kind, "", _size(root / kind), _changed(root / kind), ()))
    return tuple(result)


def _entry(root: Path, kind: str, path: Path, needed: Mapping[Path, tuple[str, ...]]) -> StoreEntry:
    marks = [path, integrity.seal_file(root, path), path / "objects" / "pack"]
    used = max(_changed(mark) for mark in marks)
    return StoreEntry(kind, path.name, _size(path), used, needed.get(path, ()))


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all below a folder; what another kz removes meanwhile has none."""
    if not path.is_dir() or path.is_symlink():
        return _length(path)
    return sum(_length(Path(at, name)) for at, folders, names in os.walk(path) for name in (*names, *folders))


def _length(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def _needed(projects: Sequence[Project]) -> dict[Path, tuple[str, ...]]:
    """Return path in the store -> what requires it."""
    root = projects[0].store
    users: dict[Path, set[str]] = {git.contents_path(root): {"wheels and folders as commits"}}
    for project in projects:
        for line in project.pins.lines:
            for name in project.pins.line(line):
                for path in _paths(project, line, name):
                    users.setdefault(path, set()).add(f"{line}/{name}")
    for clone, worktree in _worktrees(root):
        users.setdefault(clone, set()).add(f"worktree {worktree}")
    return {path: tuple(sorted(who)) for path, who in users.items()}


def _worktrees(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield (clone, worktree) for each worktree that borrows a clone's objects."""
    for borrower in root.glob(f"git/*.git/{git.BORROWERS}/*"):
        worktree = Path(os.fsdecode(borrower.read_bytes()))
        if (worktree / ".git").is_dir():
            yield borrower.parents[1], worktree


def _paths(project: Project, line: str, name: str) -> Iterator[Path]:
    source, entry = project.pins.source(name), project.lock.entry(line, name) or {}
    root = project.store
    if source.kind == "git":
        yield clones.clone(root, name, project.git_url(source)).path
        for path, sub in (entry.get("submodules") or {}).items():
            yield clones.clone(root, path, project.address(sub["url"])).path
        for path, own in project.pins.replaced_submodules(name).items():
            if own.git:
                yield clones.clone(root, path, project.address(own.git)).path
    replacement = project.pins.replacement(name)
    for sha256 in {entry.get("sha256"), replacement.sha256 if replacement else ""} if source.kind != "git" else ():
        if sha256:
            yield store.stored_file(root, sha256)
            yield store.unpacked_folder(root, sha256, *archive_part(source, project.pins.line(line)[name]))


def verify(projects: Sequence[Project]) -> tuple[Check, ...]:
    """Read every file, folder and repository again, whatever its seal says."""
    root = projects[0].store
    parts = {
        store.unpacked_folder(root, entry["sha256"], *part): part
        for project in projects
        for line in project.pins.lines
        for name, version in project.pins.line(line).items()
        if (entry := project.lock.entry(line, name)) and entry.get("sha256")
        for part in [archive_part(project.pins.source(name), version)]
    }
    return tuple(_verify_entry(root, e, parts) for e in entries(projects) if e.kind in CONTENT)


def _verify_entry(root: Path, entry: StoreEntry, parts: Mapping[Path, tuple[str, tuple[str, ...]]]) -> Check:
    name, path = f"{entry.kind}/{entry.name}", root / entry.kind / entry.name
    part = parts.get(path, ("", ()) if re.fullmatch("[0-9a-f]{64}", entry.name) else None)
    try:
        if entry.kind == "sha256":
            integrity.prove_file(root, entry.name, again=True)
        elif entry.kind == "git":
            integrity.prove_repository(root, path, again=True)
        elif part is None:
            return Check(name, "store", Status.SKIP, "no project named says which part of its archive it is", False)  # fmt: skip
        elif not store.stored_file(root, entry.name[:64]).is_file():
            return Check(name, "store", Status.SKIP, "its archive is not in the store", False)
        else:
            integrity.prove_unpacked(root, path, *part, again=True)
    except LockError as error:
        return Check(name, "store", Status.FAIL, str(error), True)
    return Check(name, "store", Status.PASS, f"{entry.size:,} B", True)


def unneeded(projects: Sequence[Project], days: float) -> tuple[StoreEntry, ...]:
    """Return what no lock of these projects requires and nobody has used for this many days."""
    before = time.time() - days * DAY
    root = projects[0].store
    unneeded_entries = [e for e in entries(projects) if e.kind in CONTENT and not e.needed_by and e.used < before]
    for kind in REMADE:
        if (root / kind).is_dir():
            old = [
                p for p in (root / kind).iterdir() if _changed(p) < before and not _is_address_of_file(root, kind, p)
            ]
            unneeded_entries += [StoreEntry(kind, p.name, _size(p), _changed(p), ()) for p in old]
    return tuple(unneeded_entries)


def _is_address_of_file(root: Path, kind: str, path: Path) -> bool:
    """Return whether this is the address of a file that is still there."""
    return kind == "addresses" and store.stored_file(root, path.read_text()).is_file()


def _left_by_git(root: Path) -> Iterator[Path]:
    """What a killed or failed git left in repositories. A person's git may work in a worktree, so what is new stays, and its locks."""
    objects = ("objects/**/tmp_*", "objects/incoming-*")
    locked = ("objects/**/*.lock", "refs/**/*.lock", "*.lock", "worktrees/*/*.lock")
    crashed = "fast_import_crash_*"
    globs = [(root / "git", f"*.git/{pattern}") for pattern in (*objects, crashed, *locked)]
    globs += [(worktree / ".git", pattern) for _, worktree in _worktrees(root) for pattern in (*objects, crashed)]
    for folder, pattern in globs:
        for path in folder.glob(pattern):
            if _changed(path) < time.time() - 600:
                yield path


def collect(projects: Sequence[Project], days: float) -> tuple[StoreEntry, ...]:
    """Remove what `unneeded` returns, and join the many packs of clones, while no other kz uses the store. Raises
    StorageError if one does."""
    root = projects[0].store
    with locks.exclusive(root):
        for gone in root.glob(".gone-*"):
            files.remove_unfinished(gone)
        hidden = (path for kind in (*CONTENT, *REMADE, "seals") for path in (root / kind).glob(".*"))
        for leftover in (*hidden, *_left_by_git(root)):
            files.remove(leftover)  # of a killed process: none is alive
        locks.remove_dead_scratch()
        unneeded_entries = unneeded(projects, days)
        for entry in unneeded_entries:
            path = root / entry.kind / entry.name
            integrity.unseal(root, path)
            with files.disk_errors(path):
                files.remove_at_once(path, root / f".gone-{entry.kind}-{entry.name}")
        for path in (root / "git").glob("*.git"):
            if (clone := git.Repository(path)).packs() > PACKS:
                clone.repack()
    return unneeded_entries
