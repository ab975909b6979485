"""The submodules of a fetched source: as its commit links them, as the lock has them, or from where pins.local.yaml says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.core.errors import ConfigError, LockError
from kz_build.core.paths import below, excluded
from kz_build.git import repository as git
from kz_build.pins.load import LOCAL
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones
from kz_build.sources.clones import Link
from kz_build.sources.content import content
from kz_build.sources.fetched import OVERRIDDEN, TreeAt
from kz_build.sources.request import Request, deviates, lock_holds, replaced_addresses


def compare(what: str, facts: Mapping[str, str], locked: Mapping[str, str | None]) -> None:
    """Compare what git has of a commit with what the lock says of it. What the lock does not know git's ids prove."""
    for key, value in facts.items():
        if (known := locked.get(key)) and known != value:
            raise LockError(
                f"{what} has {key} {value}, pins.lock says {known}", hint="the lock was edited by hand: kz lock --write"
            )


def fetch_submodules(
    project: Project, request: Request, source: Source, links: Sequence[Link], *, proved: bool
) -> list[TreeAt]:
    """Fetch these submodules, and all nested in them. Their ids prove them; what the lock knows of them must agree, if the
    source itself is as the lock has it."""
    replaced, own = replaced_addresses(project, source), project.pins.replaced_submodules(source.name)
    contents = [
        content(project, request.line, source, path, own[path], request.watch)
        for path, at in replaced.items()
        if at is None and not f"{source.name}/{path}/".startswith(request.omit)
    ]
    first = [*links, *(link for at in contents for link in links_below(project, request, source, at))]
    entry = (
        project.lock.entry(request.line, source.name) if proved and lock_holds(project, request.line, source) else None
    )
    locked = (entry or {}).get("submodules") or {}
    trees = list(contents)
    other_commits = [p for p, at in replaced.items() if at and deviates(project, request.line, f"{source.name}/{p}")]
    submodules = clones.submodules_of(project.store, first, source, request.omit, replaced, request.watch)
    _require_linked(request, source, own, {path for path, _, _ in submodules})
    for path, url, commit in submodules:
        if not url:
            continue
        repository = clones.clone(project.store, path, url, request.watch)
        tree = repository.tree_id(commit)
        elsewhere = any(f"{path}/".startswith(f"{one}/") for one in other_commits)
        if not elsewhere:
            compare(f"{source.name}/{path}", {"commit": commit, "tree": tree}, locked.get(path, {}))
        exclude = below(source.list("exclude"), path)
        clones.fill(project.store, repository, commit, exclude, None)
        known_url = "" if elsewhere else locked.get(path, {}).get("url")  # that of a mirror is nobody else's
        note = OVERRIDDEN if elsewhere else ""
        trees.append(TreeAt(path, repository.path, commit, tree, exclude, known_url or url, note))
    return sorted(trees, key=lambda at: at.path)


def _require_linked(request: Request, source: Source, own: Mapping[str, object], linked: set[str]) -> None:
    """Raise ConfigError for a replacement of a submodule that no commit links."""
    for path in own:
        left_out = f"{source.name}/{path}/".startswith(request.omit) or excluded(path, source.list("exclude"))
        if path not in linked and not left_out:
            inside = sorted(other for other in linked if other.startswith(path.rpartition("/")[0]))
            raise ConfigError(
                f"{LOCAL}: sources.{source.name}/{path}: this version of {source.name} has no submodule there",
                hint=f"there are: {', '.join(inside)}" if inside else "correct the path",
            )


def links_below(project: Project, request: Request, source: Source, at: TreeAt) -> list[Link]:
    """Return the submodules that a folder or file in the place of a source, or of a submodule, lacks: those that pins.local.yaml
    names, and those of the lock."""
    files = git.Repository(at.repository).entries(at.commit)
    folders = {str(parent) for entry in files for parent in Path(entry.path).parents}
    prefix = f"{at.path}/" if at.path else ""
    entry = project.lock.entry(request.line, source.name) if lock_holds(project, request.line, source) else None
    locked = (entry or {}).get("submodules") or {}
    replaced = replaced_addresses(project, source)
    wanted = {*locked, *replaced, *(source.list("submodules") if not prefix else ())}
    links: list[Link] = []
    for path in sorted(path for path in wanted if path.startswith(prefix) and path != at.path):
        left_out = f"{source.name}/{path}/".startswith(request.omit) or excluded(path, source.list("exclude"))
        if left_out or any(path.startswith(f"{link[0]}/") for link in links):
            continue
        if path not in replaced and path[len(prefix) :] in folders:
            continue
        if path in replaced and replaced[path] is None:
            links.append((path, "", ""))
            continue
        known = locked.get(path, {})
        url, commit = replaced.get(path) or (str(known.get("url", "")), "")
        if not (commit := commit or known.get("commit") or ""):
            needs = "`commit`" if url else "{git: ADDRESS, commit: ID}, or a folder,"
            raise ConfigError(
                f"the files that replace {source.name}{'/' + at.path if at.path else ''} have no {path[len(prefix) :]}, and pins.lock does not know its commit",
                hint=f"write {needs} for {source.name}/{path} under `sources` in {LOCAL}",
            )
        links.append((path, url, commit))
    return links
