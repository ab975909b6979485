"""fetch: pins and lock -> sources, their bytes proved equal to the lock.

All that is missing on this machine is listed before anything is downloaded.
"""

from __future__ import annotations

from pathlib import Path

from kz_build.core.errors import ConfigError, MissingError, UnreachableError
from kz_build.core.progress import Event
from kz_build.git import refs, remote
from kz_build.git import repository as git
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones, integrity, store
from kz_build.sources.accept import require_accepted
from kz_build.sources.content import content
from kz_build.sources.download import fetched_file
from kz_build.sources.fetched import INSTALLED, OVERRIDDEN, Fetched, TreeAt
from kz_build.sources.folder_tree import folder_tree
from kz_build.sources.installed_sdk import installed
from kz_build.sources.preflight import missing_sources
from kz_build.sources.prove import archive_part
from kz_build.sources.replaced import file_in, folder_of
from kz_build.sources.request import Request, deviates, locked_commit
from kz_build.sources.submodules import compare, fetch_submodules, links_below


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
    own = project.pins.replacement(source.name)
    if own and own.git:
        at = _commit(project, request, source, version, OVERRIDDEN)
        return Fetched(source.name, source.kind, version, f"commit {at.commit}", (at,), note=OVERRIDDEN)
    if sdk := installed(project, request.line, source):
        note = f"not the pinned version: it {sdk.problem}" if sdk.problem else ""
        request.watch(Event(f"reading {source.name}"))
        identity = INSTALLED + folder_tree(project.store, sdk.folder)
        return Fetched(source.name, "archive", version, identity, folder=sdk.folder, note=note, unpinned=bool(note))
    if (
        own
        and (folder := folder_of(project, request.line, source))
        and not file_in(project, request.line, source, folder)
    ):
        at = content(project, request.line, source, "", own, request.watch)
        laid = _laid(project, source, folder)
        return Fetched(source.name, source.kind, version, f"tree {at.tree}", (at,), folder, None, OVERRIDDEN, laid)
    return _fetch_file(project, request, source, version)


def _fetch_file(project: Project, request: Request, source: Source, version: str) -> Fetched:
    file = fetched_file(project, request.line, source, request.watch)
    if source.options.get("licence"):
        require_accepted(source, file)
    folder = integrity.unpacked(project.store, file.name, *archive_part(source, version), request.watch)
    return Fetched(
        source.name,
        source.kind,
        version,
        f"sha256 {file.name}",
        (),
        folder,
        file,
        OVERRIDDEN if deviates(project, request.line, source.name) else "",
        _laid(project, source, folder),
    )


def _laid(project: Project, source: Source, folder: Path) -> Path | None:
    """Return the other layout of a wheel's files that its pin names, if any."""
    lay: dict[str, str] = source.options.get("lay") or {}
    return store.linked_layout(project.store, folder, lay) if lay else None


def _fetch_git(project: Project, request: Request, source: Source, version: str) -> Fetched:
    own = project.pins.replacement(source.name)
    note = OVERRIDDEN if deviates(project, request.line, source.name) else ""
    if own and not own.git:
        top = content(project, request.line, source, "", own, request.watch)
        links = () if request.paths is not None else links_below(project, request, source, top)
        identity = f"tree {top.tree}"
    else:
        top = _commit(project, request, source, version, note)
        repository, wanted = git.Repository(top.repository, request.watch), source.list("submodules")
        links = clones.links(project.store, repository, top.commit, wanted) if wanted and request.paths is None else ()
        identity = f"commit {top.commit}"
    trees = [top]
    if request.paths is None:
        trees += fetch_submodules(project, request, source, links, proved=not note)
        if changed := [at.path for at in trees[1:] if at.note]:
            note = "; ".join(filter(None, [note, f"submodules overridden: {', '.join(changed)}"]))
    return Fetched(source.name, "git", version, identity, tuple(trees), note=note)


def _commit(project: Project, request: Request, source: Source, version: str, note: str) -> TreeAt:
    """Fetch the commit of a git source, or of a wheel or archive that pins.local.yaml takes from a repository."""
    own, url = project.pins.replacement(source.name), project.git_url(source)
    commit = locked_commit(project, request.line, source) or remote.resolve(url, version)
    try:
        root = clones.fetch_commit(project.store, source.name, url, commit, version, history=True, watch=request.watch)
    except UnreachableError as error:
        raise clones.no_commit(source.name, url, commit, error) if own else error from error
    commit = refs.commit_of(root, commit) or commit  # it may be the id of an annotated tag, which is all a bundle says
    tree = root.tree_id(commit)
    if not note:
        compare(source.name, {"tree": tree}, {"tree": str(project.locked(request.line, source.name)["tree"])})
    exclude = source.list("exclude")
    only = None if request.paths is None else request.paths.get(source.name, frozenset())
    clones.fill(project.store, root, commit, exclude, only)
    return TreeAt("", root.path, commit, tree, exclude, url if note else source.location, note)
