"""What to fetch for a line, and what the lock says about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from kz_build.core.errors import LockError
from kz_build.core.progress import Watch, quiet
from kz_build.pins.pins import Source
from kz_build.pins.project import Project


@dataclass(frozen=True)
class Request:
    """What to fetch for a line. `omit` names submodules (`source/path/`) that a target does not use; `paths` limits a
    fetch to those files of the sources themselves (None: all files, and submodules)."""

    line: str
    names: tuple[str, ...]
    allow_unpinned: Collection[str] = ()
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
    """Return (path, url, commit) of a git source and, for whole fetches, of the submodules that the lock knows."""
    url = project.git_url(source)
    if project.pins.overridden(request.line, source.name) and not lock_holds(project, request.line, source):
        version = project.pins.line(request.line)[source.name]
        return [("", url, version)]
    entry = project.locked(request.line, source.name)
    if not entry["commit"]:
        raise LockError(
            f"pins.lock does not know the commit of {source.name}: it could not be reached when the lock was written",
            hint=f"kz lock --write --line {request.line}, where {url} answers",
        )
    wanted = [("", url, str(entry["commit"]))]
    if request.paths is not None:
        return wanted
    overrides = tuple(f"{path}/" for path in project.pins.submodule_overrides(source.name))
    submodules: dict[str, dict[str, str]] = dict(project.lock.entry(request.line, source.name) or {})["submodules"]
    for path, sub in submodules.items():
        if not f"{path}/".startswith(overrides) and not f"{source.name}/{path}/".startswith(request.omit):
            wanted.append((path, sub["url"], sub["commit"]))
    return wanted + [(path, *at) for path, at in submodules_elsewhere(project, source).items() if at]


def submodules_elsewhere(project: Project, source: Source) -> dict[str, tuple[str, str] | None]:
    """Return path -> (url, commit) of the submodules that pins.local.yaml takes from elsewhere; None for a folder."""
    overrides = project.pins.submodule_overrides(source.name)
    return {
        path: (project.address(own["git"]), own["commit"]) if own.get("git") else None
        for path, own in overrides.items()
    }


def lock_holds(project: Project, line: str, source: Source) -> bool:
    """Return whether the lock's commit is still the one meant, even if pins.local.yaml changes something."""
    version = project.pins.line(line)[source.name]
    entry = project.lock.entry(line, source.name)
    return entry is not None and entry["version"] == version and entry.get("kind") == source.kind


def file_entry(project: Project, line: str, source: Source) -> dict[str, Any] | None:
    """Return the lock's entry of a wheel or archive, None if an override names another file."""
    if project.pins.overridden(line, source.name):
        return (
            dict(project.lock.entry(line, source.name) or {})
            if lock_holds(project, line, source) and _same_file(project, source)
            else None
        )
    return project.locked(line, source.name)


def _same_file(project: Project, source: Source) -> bool:
    """Return whether overrides of an archive or wheel keep its file the same."""
    return not any(
        o.where.startswith(f"sources.{source.name}.")
        and o.where.rsplit(".", 1)[1] in ("wheel", "tag", "index", "archive")
        for o in project.pins.overrides
    )


def archive_url(project: Project, line: str, source: Source) -> str:
    """Return the address of an archive's version."""
    return source.location.replace("{version}", project.pins.line(line)[source.name])
