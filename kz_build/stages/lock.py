"""lock: resolve pins to facts. The only stage that resolves; what it cannot reach stays null and is named."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kz_build.adapters import clones, git, licence, remote, store
from kz_build.adapters.environment import index_url
from kz_build.adapters.series import read_stack
from kz_build.adapters.stacks import parse_stack
from kz_build.model.errors import CommandError, ConfigError, ConflictError, MissingError
from kz_build.model.events import Watch, quiet
from kz_build.model.exclude import excluded
from kz_build.model.lock import Lock
from kz_build.model.pins import Source
from kz_build.model.project import Project
from kz_build.model.sources import TreeAt
from kz_build.stages import fetch
from kz_build.stages.apply import apply_to

_UNKNOWN: dict[str, dict[str, Any]] = {
    "git": {"commit": None, "tree": None, "submodules": {}},
    "image": {"digest": None},
}


@dataclass(frozen=True)
class Resolved:
    """The new lock, and one sentence for each fact that could not be had."""

    lock: Lock
    notes: tuple[str, ...]


def lock(project: Project, lines: tuple[str, ...], trust: Collection[str], watch: Watch) -> Resolved:
    """Resolve every source of these lines. `trust` names those to download and take the digest of, whatever the lock says."""
    notes: list[str] = []
    known = {source for line in lines for source in project.pins.line(line)}
    for name in trust:
        if name not in known:
            raise ConfigError(
                f"--trust {name}: no such source in {', '.join(lines)}", hint=f"there are: {', '.join(sorted(known))}"
            )
    new = {line: dict(entries) for line, entries in project.lock.lines.items() if line in project.pins.lines}
    for line in lines:
        new[line] = {
            name: _resolve(project, line, project.pins.source(name), name in trust, watch, notes)
            for name in project.pins.line(line)
        }
    return Resolved(Lock(new), tuple(notes))


def _resolve(
    project: Project, line: str, source: Source, trusted: bool, watch: Watch, notes: list[str]
) -> dict[str, Any]:
    version = project.pins.line(line)[source.name]
    old = dict(project.lock.entry(line, source.name) or {})
    entry: dict[str, Any] = {"kind": source.kind, "version": version}
    if index := source.options.get("index"):
        entry["index"] = index  # another index may have another file of that name
    if any(old.get(key) != entry.get(key) for key in ("kind", "version", "index")):
        old = {}
    try:
        if source.kind == "image":
            return {**entry, "digest": (not trusted and old.get("digest")) or _digest(source, version)}
        if source.kind == "git":
            return _stacked(project, line, source, _git(project, source, version, entry, watch, notes))
        return _stacked(project, line, source, _file(project, line, source, entry, old, trusted, watch), watch)
    except (CommandError, MissingError) as error:
        if isinstance(error, MissingError) and source.kind != "image":
            raise
        said = str(error).splitlines()
        notes.append(
            f"{source.name} {version}: "
            + (said[0] if len(said) == 1 else f"{said[0]}: {said[-1]}")
            + ("; the lock's old facts are kept" if old else "; left unknown")
        )
        return old or {**entry, **_UNKNOWN.get(source.kind, {"sha256": None, "size": None})}


def _digest(source: Source, tag: str) -> str:
    from kz_build.adapters import daemon  # docker costs 200 ms

    return daemon.connect().digest(source.location, tag)


def _git(
    project: Project, source: Source, version: str, entry: dict[str, Any], watch: Watch, notes: list[str]
) -> dict[str, Any]:
    url = project.git_url(source)
    commit = remote.resolve(url, version)
    repo = clones.fetch_commit(project.store, source.name, url, commit, version, history=True, watch=watch)
    submodules: dict[str, Any] = {}

    def visit(repo: git.Repository, commit: str, prefix: str, wanted: tuple[str, ...] | None) -> None:
        found = clones.links(project.store, repo, commit)
        for path in set(wanted or ()) - {path for path, _, _ in found}:
            raise ConfigError(
                f"{source.name} {version} has no submodule {path}", hint="mend `submodules` of the source in pins.yaml"
            )
        for path, link_url, link in found:
            full = prefix + path
            if (wanted is not None and path not in wanted) or excluded(full, source.list("exclude")):
                continue
            submodules[full] = {"url": link_url, "commit": link, "tree": None, "nested": None}
            try:
                inner = clones.fetch_commit(project.store, full, link_url, link, link, history=False, watch=watch)
            except CommandError as error:
                notes.append(
                    f"{source.name}/{full}: {str(error).splitlines()[-1]}; its tree and nested submodules are left unknown"
                )
                continue
            submodules[full]["tree"] = inner.tree_id(link)
            submodules[full]["nested"] = len(clones.links(project.store, inner, link))
            visit(inner, link, full + "/", None)

    visit(repo, commit, "", source.list("submodules"))
    return {**entry, "url": source.location, "commit": commit, "tree": repo.tree_id(commit), "submodules": submodules}


def submodules_at(
    project: Project, source: Source, repository: git.Repository, commit: str, old: dict[str, Any]
) -> dict[str, Any]:
    """The wanted submodules of a commit without asking their own upstreams: what the lock knows of the same commits is
    kept, the rest is null until `kz lock --write`."""
    known: dict[str, Any] = old.get("submodules") or {}
    found: dict[str, Any] = {}
    wanted = source.list("submodules")
    for path, url, link in clones.links(project.store, repository, commit, wanted) if wanted else ():
        if excluded(path, source.list("exclude")):
            continue
        if known.get(path, {}).get("commit") == link:
            found.update({p: entry for p, entry in known.items() if p == path or p.startswith(f"{path}/")})
        else:
            found[path] = {"url": url, "commit": link, "tree": None, "nested": None}
    return found


def _file(
    project: Project,
    line: str,
    source: Source,
    entry: dict[str, Any],
    old: dict[str, Any],
    trusted: bool,
    watch: Watch,
) -> dict[str, Any]:
    from kz_build.adapters import http

    if source.kind == "archive":
        entry["url"] = source.location.replace("{version}", entry["version"])
        if not trusted:
            same = old.get("url") == entry["url"]
            return {**entry, "sha256": old.get("sha256") if same else None, "size": old.get("size") if same else None}
        digest = fetch.download(project, line, source, watch)
        return {**entry, "sha256": digest, "size": store.stored_file(project.store, digest).stat().st_size}
    if old.get("sha256") and not trusted and http.tag_fits(old["file"], source.options["tag"]):
        return _licensed(
            project, source, {**entry, "file": old["file"], "sha256": old["sha256"], "size": old["size"]}, old
        )
    wheel = http.find_wheel(
        index_url(source.options["index"]), source.location, entry["version"], source.options["tag"]
    )
    if wheel.sha256 and not trusted:
        size = wheel.size or http.size(wheel.url)
        return _licensed(project, source, {**entry, "file": wheel.name, "sha256": wheel.sha256, "size": size}, old)
    digest = fetch.download(project, line, source, watch)
    size = store.stored_file(project.store, digest).stat().st_size
    return _licensed(project, source, {**entry, "file": wheel.name, "sha256": digest, "size": size}, old)


def _licensed(project: Project, source: Source, entry: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Add the digest of the licence that users accept; null where neither the wheel nor an old lock can tell."""
    if not (name := source.options["licence"]):
        return entry
    wheel = store.stored_file(project.store, entry["sha256"])
    known = old.get("licence") if old.get("sha256") == entry["sha256"] else None
    return {**entry, "licence": licence.digest(wheel, name) if wheel.exists() else known}


def _stacked(
    project: Project, line: str, source: Source, entry: dict[str, Any], watch: Watch = quiet
) -> dict[str, Any]:
    """Add what the stack gives on this source."""
    files = read_stack(project, line, source.name)
    if files is None:
        return entry
    stack = parse_stack(files)
    if source.kind == "git":
        repo = clones.clone(project.store, source.name, project.git_url(source))
        clones.fill(project.store, repo, entry["commit"], (), stack.touched)
        base = TreeAt("", repo.path, entry["commit"], entry["tree"])
    else:
        if not store.stored_file(project.store, entry["sha256"]).exists():
            fetch.download(project, line, source, watch, entry["sha256"])
        content = store.wheel_files(store.stored_file(project.store, entry["sha256"]))
        base = clones.import_files(project.store, "", content, f"sha256 {entry['sha256']}")
        entry = {**entry, "commit": base.commit, "tree": base.tree}
    tree, problems = apply_to(git.Repository(base.repository), base.commit, stack, "")
    if tree is None:
        raise ConflictError(
            "\n".join([f"the stack of {source.name} does not hold:", *(f"  {p}" for p in problems)]),
            hint="the lock was not written",
        )
    return {**entry, "patched": {"commit": tree.commit, "tree": tree.tree}}
