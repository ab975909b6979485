"""What to fetch for a line, and what the lock says about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from posixpath import dirname
from typing import Any

from kz_build.core.errors import LockError
from kz_build.core.progress import Watch, quiet
from kz_build.pins.pins import Source
from kz_build.pins.project import Project


@dataclass(frozen=True)
class Request:
    """What to fetch for a line. `omit` names submodules (`source/path/`) that a target does not use; `paths` limits a
    fetch to those files of the sources themselves (None: all files, and submodules). `allow_unpinned` is None where the
    verb has no such option."""

    line: str
    names: tuple[str, ...]
    allow_unpinned: Collection[str] | None = None
    omit: tuple[str, ...] = ()
    paths: dict[str, frozenset[str]] | None = None
    watch: Watch = field(default=quiet)


def resolve_target(
    project: Project, line: str | None, target: str | None, allow_unpinned: Collection[str] = ()
) -> tuple[str, str, Request]:
    """Return (line, target, request for all its sources); without a name, the one that pins.yaml takes."""
    line = line or project.pins.default
    target = target or project.pins.first_target
    project.pins.line(line)
    wanted = project.pins.target(target, line)
    names = tuple(wanted["sources"])
    replaced = (f"{place}/" for name in names if (place := project.pins.place(name, names)) != name)
    return line, target, Request(line, names, tuple(allow_unpinned), (*wanted["omit"], *replaced))


def wanted_commits(project: Project, request: Request, source: Source) -> list[tuple[str, str, str]]:
    """Return (path, url, commit) of a git source and, for whole fetches, of the submodules that the lock knows. Folders and
    files of this machine are left out."""
    url, own = project.git_url(source), project.pins.replacement(source.name)
    commit = locked_commit(project, request.line, source)
    wanted = [("", url, commit or project.pins.line(request.line)[source.name])]
    if own and not own.git:
        wanted = []
    if request.paths is not None or own and own.commit or not lock_holds(project, request.line, source):
        return wanted
    replaced = replaced_addresses(project, source)
    submodules: dict[str, dict[str, str]] = dict(project.lock.entry(request.line, source.name) or {}).get(
        "submodules", {}
    )
    for path, sub in submodules.items():
        at = replaced.get(path, ("", ""))
        outside = any(f"{path}/".startswith(f"{other}/") for other in replaced if other != path)
        # Upstream's .gitmodules may name it relative to the source: beside the mirror then.
        outside |= bool(own and own.git and path not in replaced and dirname(sub["url"]) == dirname(source.location))
        if at and not outside and not f"{source.name}/{path}/".startswith(request.omit):
            wanted.append((path, at[0] or sub["url"], at[1] or sub["commit"]))
    return wanted


def locked_commit(project: Project, line: str, source: Source) -> str:
    """Return the commit of a git source: its own here, else the lock's; '' if only its address can tell. Raises LockError
    where the pin is as pins.yaml has it and pins.lock does not know it."""
    own = project.pins.replacement(source.name)
    if own and own.commit:
        return own.commit
    if own or project.pins.changed(line, source.name):
        entry = project.lock.entry(line, source.name) if lock_holds(project, line, source) else None
        return str((entry or {}).get("commit") or "")
    entry = project.locked(line, source.name)
    if not entry["commit"]:
        raise LockError(
            f"pins.lock does not know the commit of {source.name}: it could not be reached when the lock was written",
            hint=f"kz lock --write --line {line}, where {project.git_url(source)} answers",
        )
    return str(entry["commit"])


def replaced_addresses(project: Project, source: Source) -> dict[str, tuple[str, str] | None]:
    """Return path -> (url, commit or '') of the submodules that pins.local.yaml replaces; None for a folder or file."""
    replaced = project.pins.replaced_submodules(source.name)
    return {path: (project.address(own.git), own.commit) if own.git else None for path, own in replaced.items()}


def lock_holds(project: Project, line: str, source: Source) -> bool:
    """Return whether the lock is of the version that is meant, even if pins.local.yaml changes something."""
    version = project.pins.line(line)[source.name]
    entry = project.lock.entry(line, source.name)
    return entry is not None and entry["version"] == version and entry.get("kind") == source.kind


def deviates(project: Project, line: str, name: str) -> bool:
    """Return whether pins.local.yaml takes other bytes of a source, or of SOURCE/PATH, than the lock can prove. Another address
    of the same commit or digest is a mirror."""
    top, _, path = name.partition("/")
    source, own = project.pins.source(top), project.pins.replacement(name)
    entry = (project.lock.entry(line, top) or {}) if lock_holds(project, line, source) else {}
    if not path and (project.pins.changed(line, top) or not own):
        return project.pins.changed(line, top)
    if own is None:
        return False
    if own.git:
        known = ((entry.get("submodules") or {}).get(path) or {}) if path else entry
        linked = bool(path) and not own.commit
        return source.kind != "git" or not (linked or known.get("commit") and own.commit in ("", known["commit"]))
    if own.folder and not source.options.get("installed"):  # an SDK's identity file says whether it is the pin
        return True
    return source.kind == "git" or not entry.get("sha256") or own.sha256 not in ("", entry["sha256"])


def file_entry(project: Project, line: str, source: Source) -> dict[str, Any] | None:
    """Return the lock's entry of a wheel or archive, None if pins.local.yaml names a file that the lock does not know."""
    own = project.pins.replacement(source.name)
    if not own and not project.pins.changed(line, source.name):
        return project.locked(line, source.name)
    entry = dict(project.lock.entry(line, source.name) or {}) if lock_holds(project, line, source) else {}
    known = entry.get("sha256") and not (source.options.get("licence") and not entry.get("licence"))
    return entry if known and not (own and own.sha256 not in ("", entry["sha256"])) else None


def file_address(project: Project, line: str, source: Source) -> str:
    """Return the address of an archive's file, or of a wheel's that pins.local.yaml names: a URL, or an absolute path."""
    own = project.pins.replacement(source.name)
    return filled(project, line, source.name, own.file if own and own.file else source.location)


def filled(project: Project, line: str, name: str, address: str) -> str:
    """Return an address with the version of a source in it: a URL, or an absolute path."""
    address = address.replace("{version}", project.pins.line(line)[name])
    path = project.local_path(address)
    return str(path) if path else address


def archive_url(project: Project, line: str, source: Source) -> str:
    """Return the address of an archive's version."""
    return source.location.replace("{version}", project.pins.line(line)[source.name])
