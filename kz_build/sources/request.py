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
    target = target or project.pins.targets[0]
    project.pins.line(line)
    wanted = project.pins.target(target, line)
    return line, target, Request(line, tuple(wanted["sources"]), tuple(allow_unpinned), tuple(wanted["omit"]))


def wanted_commits(project: Project, request: Request, source: Source) -> list[tuple[str, str, str]]:
    """Return (path, url, commit) of a git source and, for whole fetches, its submodules; '' as url for local folders."""
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
    overrides = project.pins.submodule_overrides(source.name)
    for path, sub in _submodules(entry).items():
        if any(path == o or path.startswith(o + "/") for o in overrides) or f"{source.name}/{path}/".startswith(
            request.omit
        ):
            continue
        wanted.append((path, sub["url"], sub["commit"]))
    wanted += [(path, project.address(o["git"]), o["commit"]) for path, o in overrides.items() if o.get("git")]
    return wanted


def unknown_submodules(project: Project, request: Request, source: Source) -> list[str]:
    """Return the wanted submodules whose own submodules are not in the lock yet."""
    wanted = {path for path, _, _ in wanted_commits(project, request, source)}
    entry = project.locked(request.line, source.name)
    return [path for path, sub in _submodules(entry).items() if path in wanted and sub["nested"] is None]


def _submodules(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    submodules: dict[str, dict[str, Any]] = entry.get("submodules") or {}
    return submodules


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
