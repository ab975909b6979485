"""lock: resolve pins to facts. The only stage that resolves; what it cannot reach keeps its facts and is named."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kz_build.core.errors import ConfigError, ConflictError, KzError, LockError, MissingError, UnreachableError
from kz_build.core.paths import excluded
from kz_build.core.progress import Watch
from kz_build.core.rules import bad_file_name
from kz_build.git import refs, remote
from kz_build.git import repository as git
from kz_build.git.machine_errors import reason
from kz_build.pins.lock_file import Lock, parse_lock
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import archive, clones, download, licence, store
from kz_build.sources.fetched import TreeAt
from kz_build.sources.replaced import index_address
from kz_build.sources.request import archive_url
from kz_build.stack.apply import apply_to
from kz_build.stack.files import read_stack
from kz_build.stack.lock_notes import LockNote, sentences, way_to_move
from kz_build.stack.lock_submodules import known_submodules
from kz_build.stack.parse import parse_stack

if TYPE_CHECKING:
    from kz_build.patch.apply import Stack

_UNKNOWN: dict[str, dict[str, Any]] = {
    "git": {"commit": None, "tree": None, "submodules": {}},
    "image": {"digest": None},
}
_FILE = {"sha256": None, "size": None}
_DIGESTS = {"sha256": "digest", "licence": "licence's digest"}
_KEPT = "what pins.lock knows of it is kept"


@dataclass(frozen=True)
class Resolved:
    """The new lock, and one sentence for each source that could not be reached."""

    lock: Lock
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Pin:
    """A pin to resolve. `was` is the lock's entry of its source, even of another version."""

    project: Project
    line: str
    source: Source
    was: Mapping[str, Any]
    trusted: bool
    watch: Watch
    notes: list[LockNote]

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def version(self) -> str:
        return self.project.pins.line(self.line)[self.name]

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The start of the entry: what the pins alone say."""
        entry = {"kind": self.source.kind, "version": self.version}
        if index := self.source.options.get("index"):
            entry["index"] = index  # another index may have another file of that name
        if self.source.kind in ("git", "archive"):
            entry["url"] = self.source.location
        if self.source.kind == "archive":
            entry["url"] = archive_url(self.project, self.line, self.source)
        return entry

    @cached_property
    def old(self) -> Mapping[str, Any]:
        """The lock's entry if it is for this very pin, else {}."""
        if any(self.was.get(key) != self.entry.get(key) for key in ("kind", "version", "index", "url")):
            return {}
        if file := self.was.get("file"):
            from kz_build.sources import package_index

            is_it = package_index.is_wheel_of(file, self.source.location, self.source.options["tag"])
            return self.was if is_it else {}
        return self.was

    def note(self, what: str, error: KzError, then: str, url: str = "") -> None:
        """Note what could not be reached, why, and what the lock says about it now."""
        self.notes.append(LockNote(what, reason(error), then, url))


def lock(project: Project, lines: tuple[str, ...], trust: Collection[str], watch: Watch) -> Resolved:
    """Resolve every source of these lines. `trust` names those to download and hash, whatever the lock says.

    What cannot be reached keeps the lock's facts of the same commit, file or address.
    """
    notes: list[LockNote] = []
    known = {source for line in lines for source in project.pins.line(line)}
    for name in trust:
        if name not in known:
            raise ConfigError(
                f"--trust {name}: no such source in {', '.join(lines)}", hint=f"there are: {', '.join(sorted(known))}"
            )
    new = {line: dict(entries) for line, entries in project.lock.lines.items() if line in project.pins.lines}
    for line in lines:
        new[line] = {}
        for name in project.pins.line(line):
            was, source = project.lock.entry(line, name) or {}, project.pins.source(name)
            new[line][name] = _resolve(_Pin(project, line, source, was, name in trust, watch, notes))
    # What upstream says must have the same form as what a file says.
    return Resolved(parse_lock(Lock(new).text().encode(), "the new pins.lock"), sentences(notes))


def resolve_wheel(project: Project, line: str, name: str, version: str, watch: Watch) -> dict[str, Any]:
    """Return the entry of another version of a wheel, without its stack, with its content as a commit of the store."""
    trial = project.with_pin(line, name, version)
    pin = _Pin(trial, line, trial.pins.source(name), project.lock.entry(line, name) or {}, False, watch, [])
    entry = _file(pin)
    base = _base_of_wheel(pin, entry)
    return {**_with_licence(pin, entry), "commit": base.commit, "tree": base.tree}


def _resolve(pin: _Pin) -> dict[str, Any]:
    kind = pin.source.kind
    try:
        if kind == "image":
            return {**pin.entry, **(_stated(pin, "digest") or _from_registry(pin))}
        entry = _git(pin) if kind == "git" else _file(pin)
    except (UnreachableError, MissingError) as error:
        if pin.trusted or (isinstance(error, MissingError) and kind != "image"):
            raise
        known = any(pin.old.get(key) for key in ("commit", "sha256", "digest"))
        pin.note(f"{pin.name} {pin.version}", error, _KEPT if known else "left unknown")
        return dict(pin.old) or {**pin.entry, **_UNKNOWN.get(kind, _FILE)}
    return _with_stack(pin, entry)


def _from_registry(pin: _Pin) -> dict[str, Any]:
    from kz_build.container import daemon  # docker costs 200 ms

    return {"digest": daemon.connect().digest(pin.source.location, pin.version), "origin": "index"}


def _git(pin: _Pin) -> dict[str, Any]:
    project, source = pin.project, pin.source
    url, what = project.git_url(source), f"{pin.name} {pin.version}"
    wanted = source.list("submodules")
    unreachable: UnreachableError | None = None
    try:
        commit = remote.resolve(url, pin.version)
    except UnreachableError as error:
        if not pin.old.get("commit"):
            raise
        commit, unreachable = str(pin.old["commit"]), error
    try:
        repo = clones.fetch_commit(project.store, source.name, url, commit, pin.version, history=True, watch=pin.watch)
        commit = refs.commit_of(repo, commit)  # a bundle says of an annotated tag its own object alone
        repo.entries(commit)  # which refuses what no checkout could have
        links = clones.links(project.store, repo, commit, wanted) if wanted else []
    except UnreachableError as error:
        if pin.was.get("commit") != commit:
            raise
        pin.note(what, error, _KEPT, url)
        return {**pin.was, **pin.entry}
    if unreachable:
        pin.note(what, unreachable, "its commit is as pins.lock has it", url)
    for path in set(wanted) - {path for path, _, _ in links}:
        raise ConfigError(f"{what} has no submodule {path}", hint="correct `submodules` of the source in pins.yaml")
    submodules = dict(_submodules(pin, links, ""))
    return {**pin.entry, "commit": commit, "tree": repo.tree_id(commit), "submodules": submodules}


def _submodules(pin: _Pin, links: Sequence[tuple[str, str, str]], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, facts) of these submodules and of all that are nested in them."""
    store, exclude = pin.project.store, pin.source.list("exclude")
    for path, url, commit in links:
        full = f"{prefix}{path}"
        if excluded(full, exclude):
            continue
        facts: dict[str, Any] = {"url": url, "commit": commit, "tree": None}
        try:
            repo = clones.fetch_commit(store, full, url, commit, commit, history=False, watch=pin.watch)
            facts["tree"] = repo.tree_id(commit)
            repo.entries(commit)
            nested = clones.links(store, repo, commit)
        except UnreachableError as error:
            known = known_submodules(pin.was, full, commit)
            facts["tree"] = known.pop(full, facts).get("tree")
            consequence = _KEPT if facts["tree"] else "its tree and nested submodules are left unknown"
            pin.note(f"{pin.name}/{full} {commit[:10]}", error, consequence, url)
            yield full, facts
            yield from ((below, entry) for below, entry in known.items() if not excluded(below, exclude))
            continue
        yield full, facts
        yield from _submodules(pin, nested, f"{full}/")


def _file(pin: _Pin) -> dict[str, Any]:
    facts = _stated(pin, "sha256")
    if facts is None:
        facts = _FILE if pin.source.kind == "archive" and not pin.trusted else _from_index(pin)
    entry = _with_licence(pin, {**pin.entry, **facts})
    if unknown := [what for key, what in _DIGESTS.items() if entry.get(key, "") is None]:
        why = f"its {' and '.join(unknown)} is left unknown, for only a download tells it"
        what, command = f"{pin.name} {pin.version}", f"kz lock --write --line {pin.line} --trust {pin.name}"
        pin.notes.append(LockNote(what, f"{why}: {command}", ""))
    return entry


def _stated(pin: _Pin, key: str) -> dict[str, Any] | None:
    """Return what the lock or pins.yaml has of a file, with its digest as `key`; None if neither has any. Citations are
    read again, so that a new one counts."""
    if pin.trusted:
        return None
    published = pin.source.options["published"].get(pin.version) or {}
    cited = f"sha256:{published['sha256']}" if published.get("sha256") and key == "digest" else published.get("sha256")
    kept = pin.old if pin.old.get(key) and pin.old["origin"] != "published" else None
    if kept and cited and kept[key] != cited:
        raise LockError(
            f"pins.lock has {pin.name} {pin.version} as {kept[key]}, `published` in pins.yaml as {cited}",
            hint="a release must not change. Correct pins.yaml, or if you trust the file: "
            f"kz lock --write --line {pin.line} --trust {pin.name}",
        )
    if kept:
        return {name: kept[name] for name in (key, "size", "file", "origin") if name in kept}
    sources = published.get("sources") or []
    if not cited or not sources:
        return None
    facts: dict[str, Any] = {key: cited, "origin": "published", "sources": len(sources)}
    facts |= {} if key == "digest" else {"size": published["size"]}
    return facts | ({"file": published["file"]} if pin.source.kind == "wheel" else {})


def _from_index(pin: _Pin) -> dict[str, Any]:
    """Return what an index says of a wheel, or what was downloaded where that is trusted or no index states a digest."""
    from kz_build.core import http
    from kz_build.sources import package_index

    project, source, file = pin.project, pin.source, {}
    if source.kind == "wheel":
        index = index_address(project, source)
        wheel = package_index.find_wheel(index, source.location, pin.version, source.options["tag"])
        if wrong := bad_file_name(wheel.name):
            raise LockError(f"{index} has a wheel of {pin.name} named {wheel.name!r}, which {wrong}")
        file = {"file": wheel.name}
        if wheel.sha256 and not pin.trusted:
            return {**file, "sha256": wheel.sha256, "size": wheel.size or http.size(wheel.url), "origin": "index"}
    digest = download.download(project, pin.line, source, pin.watch)
    size = store.stored_file(project.store, digest).stat().st_size
    return {**file, "sha256": digest, "size": size, "origin": "computed"}


def _with_licence(pin: _Pin, entry: dict[str, Any]) -> dict[str, Any]:
    """Add the digest of the licence that users accept; null if neither the wheel nor an old lock has it."""
    if not (name := pin.source.options.get("licence")):
        return entry
    wheel = store.stored_file(pin.project.store, entry["sha256"])
    known = pin.was.get("licence") if pin.was.get("sha256") == entry["sha256"] else None
    return {**entry, "licence": licence.digest(wheel, name) if wheel.exists() else known}


def _with_stack(pin: _Pin, entry: dict[str, Any]) -> dict[str, Any]:
    """Add the commit and tree that the stack produces on this source."""
    entry = {key: value for key, value in entry.items() if key != "patched"}
    files = read_stack(pin.project, pin.line, pin.name)
    if files is None:
        return entry
    stack = parse_stack(files)
    try:
        base = _base_of_git(pin, entry, stack) if pin.source.kind == "git" else _base_of_wheel(pin, entry)
    except UnreachableError as error:
        return {**entry, **_kept_facts(pin, entry, stack, error)}
    if pin.source.kind == "wheel":
        entry |= {"commit": base.commit, "tree": base.tree}
    tree, problems = apply_to(git.Repository(base.repository), base.commit, stack.mails, "")
    if tree is None:
        raise ConflictError(
            "\n".join([f"the stack of {pin.name} does not hold:", *(f"  {p}" for p in problems)]),
            hint=f"the lock was not written{way_to_move(pin.line, pin.name, pin.was.get('version'), pin.version)}",
        )
    pin.notes.extend(LockNote(f"{stack.folder}/{p.name}", p.left_out_text, "") for p in stack.patches if p.left_out)
    return {**entry, "patched": {"commit": tree.commit, "tree": tree.tree}}


def _base_of_git(pin: _Pin, entry: Mapping[str, Any], stack: Stack) -> TreeAt:
    repo = clones.clone(pin.project.store, pin.name, pin.project.git_url(pin.source))
    if not repo.has(entry["commit"]):
        raise UnreachableError(f"{entry['commit']} was never fetched here")
    clones.fill(pin.project.store, repo, entry["commit"], (), stack.touched)
    return TreeAt("", repo.path, entry["commit"], entry["tree"])


def _base_of_wheel(pin: _Pin, entry: Mapping[str, Any]) -> TreeAt:
    root, sha256 = pin.project.store, entry["sha256"]
    if not store.stored_file(root, sha256).exists():
        download.download(pin.project, pin.line, pin.source, pin.watch, sha256)
    return clones.import_files(root, "", archive.wheel_files(store.stored_file(root, sha256)), f"sha256 {sha256}")


def _kept_facts(pin: _Pin, entry: Mapping[str, Any], stack: Stack, error: UnreachableError) -> dict[str, Any]:
    """Return what the lock knows of the same stack on the same source, which cannot be read here."""
    what, identity = f"the stack of {pin.name}", "commit" if pin.source.kind == "git" else "sha256"
    kept: dict[str, Any] = {}
    if pin.was.get(identity) == entry[identity]:
        kept = {key: pin.was[key] for key in ("commit", "tree", "patched") if key in pin.was}
    patched = kept.get("patched")
    if patched and _applied_another(pin, patched["commit"], kept["commit"], stack):
        del kept["patched"]
        patched = None
    pin.note(what, error, "the tree of the result is kept, and not proved" if patched else "its result is left unknown")
    return kept


def _applied_another(pin: _Pin, commit: str, base: str, stack: Stack) -> bool:
    """Return whether a locked commit is known to come from another stack: this store has it under another digest."""
    if (commit == base) != (not stack.patches):
        return True
    path = git.contents_path(pin.project.store)
    if pin.source.kind == "git":
        path = clones.clone(pin.project.store, pin.name, pin.project.git_url(pin.source)).path
    repository = git.Repository(path)
    if not repository.exists():
        return False
    words = ("--format=%(refname)", f"--points-at={commit}", "refs/kz/stack")
    refs = repository.git("for-each-ref", *words).decode().split()
    return bool(refs) and not any(ref.endswith(stack.digest[:16]) for ref in refs)
