"""fetch: pins and lock -> sources, their bytes proved equal to the lock.

All that is missing on this machine is listed before anything is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kz_build.core import locks
from kz_build.core.env import index_url
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.core.paths import below
from kz_build.core.progress import Watch
from kz_build.git import remote
from kz_build.git import repository as git
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones, integrity, store
from kz_build.sources.accept import require_accepted
from kz_build.sources.fetched import Fetched, TreeAt
from kz_build.sources.installed_sdk import installed
from kz_build.sources.preflight import missing_sources
from kz_build.sources.prove import archive_part
from kz_build.sources.request import (
    Request,
    archive_url,
    file_entry,
    lock_holds,
    submodules_elsewhere,
    wanted_commits,
)


def fetch(project: Project, request: Request) -> tuple[Fetched, ...]:
    """Fetch every named source of a line. Raises MissingError, LockError or CommandError; earlier sources stay fetched."""
    if missing := missing_sources(project, request):
        raise MissingError(missing)
    return tuple(_fetch_source(project, request, project.pins.source(name)) for name in request.names)


def _fetch_source(project: Project, request: Request, source: Source) -> Fetched:
    version = project.pins.line(request.line).get(source.name)
    if version is None:
        raise ConfigError(
            f"line {request.line} has no version of {source.name}", hint="add it under `lines` in pins.yaml"
        )
    if source.kind == "git":
        return _fetch_git(project, request, source, version)
    if source.kind == "folder":
        folder = Path(source.location).expanduser()
        if not folder.is_dir():
            raise ConfigError(
                f"the folder of {source.name}, {folder}, is not there", hint="fix `sources` in pins.local.yaml"
            )
        tree = clones.import_folder(project.store, "", folder, request.watch)
        return Fetched(
            source.name, "folder", version, f"tree {tree.tree}", (tree,), folder, None, "a folder of this machine"
        )
    if own := installed(source, version):
        note = f"not the pinned version: it {own.problem}" if own.problem else ""
        identity = f"installed {own.revision or 'unknown'}"
        return Fetched(source.name, "archive", version, identity, folder=own.folder, note=note)
    return _fetch_file(project, request, source, version)


def _fetch_file(project: Project, request: Request, source: Source, version: str) -> Fetched:
    file = fetched_file(project, request.line, source, request.watch)
    if source.options.get("licence"):
        require_accepted(source, file)
    folder = integrity.unpacked(project.store, file.name, *archive_part(source, version))
    lay: dict[str, str] = source.options.get("lay") or {}
    return Fetched(
        source.name,
        source.kind,
        version,
        f"sha256 {file.name}",
        (),
        folder,
        file,
        "overridden in pins.local.yaml" if file_entry(project, request.line, source) is None else "",
        store.linked_layout(project.store, folder, lay) if lay else None,
    )


def fetched_file(project: Project, line: str, source: Source, watch: Watch) -> Path:
    """Return a wheel or archive of a line in the store, with the lock's bytes; download it if it is not there."""
    entry = file_entry(project, line, source)
    digest = str(entry["sha256"]) if entry else download(project, line, source, watch, again=False)
    if not store.stored_file(project.store, digest).exists():
        download(project, line, source, watch, digest)
    return store.stored_file(project.store, digest)


def download(
    project: Project, line: str, source: Source, watch: Watch, expected: str = "", *, again: bool = True
) -> str:
    """Download a wheel or archive into the store; return its sha256. What upstream publishes about it is checked too.

    Without `again`, an earlier download from the same address is reused: for overrides, which no lock has.
    """
    from kz_build.core import http  # requests costs 160 ms
    from kz_build.sources import package_index

    version = project.pins.line(line)[source.name]
    if source.kind == "wheel":
        wheel = package_index.find_wheel(
            index_url(source.options["index"]), source.location, version, source.options["tag"]
        )
        url = wheel.url
        published: dict[str, Any] = {"sha256": wheel.sha256, "size": wheel.size}
    else:
        url, published = archive_url(project, line, source), source.options["published"].get(version) or {}
    part = store.partial_file(project.store, url)
    with locks.lock(project.store, part.name, watch):
        known = expected or ("" if again else store.last_digest(project.store, url))
        if known and store.stored_file(project.store, known).exists():
            return known
        proved = bool(expected or any(published.get(key) for key in ("sha1", "sha256")))
        wanted = expected or published.get("sha256")
        known_facts = (project.lock.entry(line, source.name) or {}, published)
        sizes = [facts["size"] for facts in known_facts if wanted and facts.get("sha256") == wanted]
        http.download(url, part, watch, proved=proved, size=next(filter(None, sizes), None))
        if sha1 := published.get("sha1"):
            _check_sha1(part, sha1, source.name)
        if published.get("sha256") and expected and published["sha256"] != expected:
            raise LockError(
                f"upstream says {source.name} {version} has sha256 {published['sha256']}, pins.lock says {expected}",
                hint="a release must not change. If you trust the new file: kz lock --write --trust " + source.name,
            )
        digest = store.adopt(project.store, part, expected or published.get("sha256", ""), source.name)
        store.remember_digest(project.store, url, digest)
        return digest


def _check_sha1(path: Path, expected: str, name: str) -> None:
    import hashlib

    sha1 = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    if sha1 != expected:
        path.unlink()
        raise LockError(
            f"{name} has sha1 {sha1}, upstream publishes {expected}",
            hint="nothing was kept; is a proxy or mirror between you and upstream?",
        )


def _fetch_git(project: Project, request: Request, source: Source, version: str) -> Fetched:
    overridden = project.pins.overridden(request.line, source.name)
    note = "overridden in pins.local.yaml" if overridden else ""
    if request.paths is None and (changed := project.pins.submodule_overrides(source.name)):
        note = note or f"submodules overridden: {', '.join(sorted(changed))}"
    _, url, commit = wanted_commits(project, request, source)[0]
    locked_tree = ""
    if overridden and not lock_holds(project, request.line, source):
        commit = remote.resolve(url, commit)
    else:
        locked_tree = str(project.locked(request.line, source.name)["tree"])
    exclude = source.list("exclude")
    root = clones.fetch_commit(project.store, source.name, url, commit, version, history=True, watch=request.watch)
    tree = root.tree_id(commit)
    _compare(source.name, {"tree": tree}, {"tree": locked_tree})
    only = None if request.paths is None else request.paths.get(source.name, frozenset())
    clones.fill(project.store, root, commit, exclude, only)
    trees = [TreeAt("", root.path, commit, tree, exclude)]
    if request.paths is None:
        entry = project.lock.entry(request.line, source.name) if locked_tree else None
        locked = entry["submodules"] if entry else {}
        trees += _fetch_submodules(project, request, source, TreeAt("", root.path, commit, tree), locked)
    return Fetched(source.name, "git", version, f"commit {commit}", tuple(trees), note=note)


def _compare(what: str, facts: Mapping[str, str], locked: Mapping[str, str | None]) -> None:
    """Compare what git has of a commit with what the lock says of it. What the lock does not know git's ids prove."""
    for key, value in facts.items():
        if (known := locked.get(key)) and known != value:
            raise LockError(
                f"{what} has {key} {value}, pins.lock says {known}", hint="the lock was edited by hand: kz lock --write"
            )


def _fetch_submodules(
    project: Project, request: Request, source: Source, top: TreeAt, locked: Mapping[str, Mapping[str, str | None]]
) -> list[TreeAt]:
    """Fetch the submodules that a source's commit links. Their ids prove them; what the lock knows of them must agree."""
    trees = []
    repository = git.Repository(top.repository, request.watch)
    elsewhere = submodules_elsewhere(project, source)
    ours = tuple(f"{path}/" for path in elsewhere)
    for path, url, commit in clones.submodules_of(
        project.store, repository, top.commit, source, request.omit, elsewhere
    ):
        repo = clones.clone(project.store, path, url, request.watch)
        tree = repo.tree_id(commit)
        if not f"{path}/".startswith(ours):
            _compare(f"{source.name}/{path}", {"commit": commit, "tree": tree}, locked.get(path, {}))
        exclude = below(source.list("exclude"), path)
        clones.fill(project.store, repo, commit, exclude, None)
        trees.append(TreeAt(path, repo.path, commit, tree, exclude))
    for path, override in project.pins.submodule_overrides(source.name).items():
        if override.get("folder"):
            folder = Path(override["folder"]).expanduser()
            if not folder.is_dir():
                raise ConfigError(
                    f"the folder of submodule {path}, {folder}, is not there",
                    hint="fix `submodules` in pins.local.yaml",
                )
            trees.append(clones.import_folder(project.store, path, folder, request.watch))
    return sorted(trees, key=lambda t: t.path)
