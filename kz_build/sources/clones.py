"""The store's partial clones: commits, blobs in one request, submodules, and files imported as commits."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from kz_build.core import locks
from kz_build.core.env import public_address
from kz_build.core.errors import ConfigError, UnreachableError
from kz_build.core.paths import excluded
from kz_build.core.process import answered, run
from kz_build.core.progress import Watch
from kz_build.core.rules import bad_address, bad_folder
from kz_build.git import fast_import, refs
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.environment import local_environment
from kz_build.git.machine_errors import reason
from kz_build.git.object_types import Blob, FileOnDisk
from kz_build.pins.pins import Source, digest_of
from kz_build.sources import store
from kz_build.sources.fetched import TreeAt


def clone(root: Path, path: str, url: str, watch: Watch | None = None) -> git.Repository:
    """Return the store's partial clone of an address, named after the last part of `path`; it may not exist yet."""
    return git.Repository(git.repository_path(root, Path(path).name, url), watch, url)


def fetch_commit(
    root: Path, name: str, url: str, commit: str, version: str, *, history: bool, watch: Watch | None = None
) -> git.Repository:
    """Return the store's partial clone of an address, with this commit and its trees in it."""
    repo = clone(root, name, url, watch)
    if not repo.has(commit):
        with locks.lock(root, repo.path.name, repo.watch):
            repo.create()
            if not repo.has(commit):
                repo.fetch_commit(commit, version, history=history)
    return repo


def fill(root: Path, repo: git.Repository, commit: str, exclude: Sequence[str], only: frozenset[str] | None) -> None:
    """Fetch the blobs that a verb requires in one request: every file but the excluded ones, or just `only`."""
    marker = repo.path / "kz-whole" / f"{commit}-{digest_of(list(exclude))[:8]}"
    if only is None and marker.exists():
        return
    with locks.lock(root, repo.path.name, repo.watch):
        files = [e for e in repo.entries(commit, exclude) if not e.submodule]
        repo.fetch_blobs({e.id for e in files if only is None or e.path in only})
        if only is None:
            marker.parent.mkdir(exist_ok=True)
            marker.touch()


def import_folder(
    root: Path, path: str, folder: Path, exclude: Sequence[str], only: Sequence[str], watch: Watch | None = None
) -> TreeAt:
    """Import a folder's content as a commit in the store: what is among `only` (all if empty) and not excluded."""
    return import_files(root, path, store.folder_files(folder, exclude, only), "a folder", watch)


def import_files(
    root: Path, path: str, files: Mapping[str, Blob | FileOnDisk], message: str, watch: Watch | None = None
) -> TreeAt:
    """Import files as a commit in the store; the same files give the same commit anywhere."""
    repo = git.Repository(git.contents_path(root), watch)
    with locks.lock(root, repo.path.name, repo.watch):
        repo.create()
    with tempfile.TemporaryFile(dir=repo.path) as stream:
        stream.writelines(fast_import.folder_stream(files, message, "refs/kz/import"))
        commit = repo.fast_import(stream).decode().split()[-1]
    repo.git("update-ref", "--end-of-options", f"refs/kz/{commit}", commit)
    return TreeAt(path, repo.path, commit, repo.tree_id(commit))


Link = tuple[str, str, str]
"""(path, url, commit) of a submodule"""


def submodules_of(
    root: Path,
    first: Sequence[Link],
    source: Source,
    omit: tuple[str, ...],
    replaced: Mapping[str, tuple[str, str] | None],
    watch: Watch,
) -> list[Link]:
    """Return these submodules and all nested in them, as the commits link them; their clones then have these commits.

    `omit` has the paths (`source/path/`) to do without. `replaced` has the (url, commit or '' for the linked one) of those
    that come from elsewhere, None for those that are no commit: their url is ''. Raises ConfigError if such a one has no commit of that name.
    """
    submodules: list[Link] = []

    def visit(links_here: Sequence[Link], prefix: str) -> None:
        for path, url, link in links_here:
            full = f"{prefix}{path}"
            if f"{source.name}/{full}/".startswith(omit) or excluded(full, source.list("exclude")):
                continue
            if (at := replaced.get(full, (url, link))) is None:
                submodules.append((full, "", link))
                continue
            url, link = at[0], at[1] or link
            try:
                inner = fetch_commit(root, path, url, link, link, history=False, watch=watch)
            except UnreachableError as error:
                raise no_commit(f"{source.name}/{full}", url, link, error) if full in replaced else error from error
            if full in replaced:
                link = refs.commit_of(inner, link) or link  # which may be the id of an annotated tag
            submodules.append((full, url, link))
            visit(links(root, inner, link), full + "/")

    visit(first, "")
    return submodules


def no_commit(name: str, url: str, commit: str, error: UnreachableError) -> ConfigError:
    """Return the error for an address of pins.local.yaml without the commit that is wanted of it."""
    if "safe.directory" in error.hint:
        return ConfigError(f"{url} belongs to another user, so git does not read it", hint=error.hint)
    return ConfigError(
        f"{url} has no commit {commit}, which is wanted of {name}: {reason(error)}",
        hint="correct its `git` or `commit` in pins.local.yaml, or fetch that commit into it",
    )


def links(root: Path, repo: git.Repository, commit: str, only: Sequence[str] = ()) -> list[tuple[str, str, str]]:
    """Return (path, url, commit) of a commit's own submodules, or of those among `only`, by .gitmodules and gitlinks.

    Gitlinks of a commit without .gitmodules lead nowhere; git checks out an empty folder for each.
    """
    try:
        blob = _gitmodules(repo, commit)
    except ObjectsMissing:
        fill(root, repo, commit, (), frozenset({".gitmodules"}))
        blob = _gitmodules(repo, commit)
    if blob is None:
        return []
    gitlinks = {e.path: e.id for e in repo.entries(commit, only=only) if e.submodule}
    urls = _addresses(repo, blob.data) if gitlinks else {}
    if unknown := sorted(set(gitlinks) - set(urls)):
        raise ConfigError(f"{repo.path.name} {commit}: submodule {unknown[0]} is not in .gitmodules")
    for path in sorted(gitlinks):
        for what, wrong in ((path, bad_folder(path)), (urls[path], bad_address(urls[path]))):
            if wrong:
                problem = f"{repo.path.name} {commit}: .gitmodules has {what!r}, which kz refuses: it {wrong}"
                raise ConfigError(problem, hint="pin another version of this source")
    return [(path, urls[path], link) for path, link in sorted(gitlinks.items())]


def _addresses(repo: git.Repository, gitmodules: bytes) -> dict[str, str]:
    """Return path -> absolute address of the submodules in a .gitmodules file, as git reads it."""
    argv = repo.argv("config", "--file=-", "-z", "--get-regexp", r"^submodule\..*\.(path|url)$")
    sections: dict[str, dict[str, str]] = {}
    done = answered(argv, run(argv, env=local_environment(), stdin=gitmodules))
    if done.code not in (0, 1):  # 1: it names none
        why = done.stderr.decode("utf-8", "replace").strip()
        raise ConfigError(
            f"{repo.path.name}: git cannot read .gitmodules: {why}", hint="pin another version of this source"
        )
    for row in done.stdout.split(b"\0"):
        key, _, value = os.fsdecode(row).partition("\n")
        name, _, field = key.rpartition(".")
        sections.setdefault(name, {})[field] = value
    return {
        own["path"]: public_address(_absolute(repo, own["url"]))
        for own in sections.values()
        if own.keys() >= {"path", "url"}
    }


def _gitmodules(repo: git.Repository, commit: str) -> Blob | None:
    with repo.objects() as objects:
        return trees.read_paths(objects, commit, [".gitmodules"])[".gitmodules"]


def _absolute(repo: git.Repository, url: str) -> str:
    """Return a submodule's address; `../other.git` is beside its superproject (gitmodules(5))."""
    if not url.startswith(("./", "../")):
        return url
    own = urlsplit(repo.git("config", "remote.origin.url").decode().strip())
    return urlunsplit(own._replace(path=posixpath.normpath(posixpath.join(own.path, url))))
