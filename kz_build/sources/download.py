"""The files of wheels and archives: from a server or a path of this machine into the store, by their digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kz_build.core import locks
from kz_build.core.errors import ConfigError, LockError
from kz_build.core.progress import Watch
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import replaced, store
from kz_build.sources.request import file_address, file_entry


def expected_digest(project: Project, line: str, source: Source) -> str:
    """Return the sha256 that a wheel or archive must have: one's own, else the lock's; '' if nobody states it."""
    own, entry = project.pins.replacement(source.name), file_entry(project, line, source)
    return str(entry["sha256"] or "") if entry else own.sha256 if own else ""


def local_file(project: Project, line: str, source: Source) -> Path | None:
    """Return the file of this machine that pins.local.yaml takes a wheel or archive from; None for a server or a folder."""
    own, folder = project.pins.replacement(source.name), replaced.folder_of(project, line, source)
    if folder:
        return replaced.file_in(project, line, source, folder)
    if own and own.file:
        return project.local_path(file_address(project, line, source))
    if own and own.index and (index := replaced.index_address(project, source)).startswith("/"):
        return replaced.file_in(project, line, source, Path(index))
    return None


def fetched_file(project: Project, line: str, source: Source, watch: Watch) -> Path:
    """Return a wheel or archive of a line in the store, with the lock's bytes; download it if it is not there."""
    digest = expected_digest(project, line, source)
    if not digest or not store.stored_file(project.store, digest).exists():
        digest = download(project, line, source, watch, digest, again=False)
    return store.stored_file(project.store, digest)


def download(
    project: Project, line: str, source: Source, watch: Watch, expected: str = "", *, again: bool = True
) -> str:
    """Download a wheel or archive into the store; return its sha256. What upstream publishes about it is checked too.

    Without `again`, an earlier download from the same address is reused: for overrides, which no lock has.
    """
    version = project.pins.line(line)[source.name]
    own = project.pins.replacement(source.name)
    published: Mapping[str, Any] = {}
    if (folder := replaced.folder_of(project, line, source)) and (
        file := replaced.file_in(project, line, source, folder)
    ):
        address = str(file)
    elif source.kind == "wheel" and not (own and own.file):
        from kz_build.sources import package_index  # with requests 160 ms

        index = replaced.index_address(project, source)
        wheel = package_index.find_wheel(index, source.location, version, source.options["tag"])
        address, published = wheel.url, {"sha256": wheel.sha256, "size": wheel.size}
    else:
        address = file_address(project, line, source)
        published = {} if own else source.options["published"].get(version) or {}
    hint = _hint(source.name, "" if own else line, bool(own and own.sha256))
    if published.get("sha256") and expected and published["sha256"] != expected:
        by = "pins.local.yaml" if own and own.sha256 else "pins.lock"
        raise LockError(
            f"{address} has sha256 {published['sha256']} by its server, {by} says {expected}",
            hint=hint(published["sha256"]),
        )
    wanted = expected or published.get("sha256") or ""
    known = (project.lock.entry(line, source.name) or {}, published)
    sizes = [facts["size"] for facts in known if wanted and facts.get("sha256") == wanted and facts.get("size")]
    return download_file(
        project, address, wanted, source.name, watch,
        sha1=published.get("sha1") or "", size=sizes[0] if sizes else None, again=again, hint=hint,
    )  # fmt: skip


def download_file(
    project: Project,
    address: str,
    expected: str,
    name: str,
    watch: Watch,
    *,
    sha1: str = "",
    size: int | None = None,
    again: bool = False,
    hint: store.Hint | None = None,
) -> str:
    """Take a file from a URL or an absolute path into the store; return its sha256. Raises LockError for another than `expected`."""
    hint = hint or _hint(name, "", bool(expected))
    part = store.partial_file(project.store, address)
    if path := project.local_path(address):
        from kz_build.core.hash_cache import cached_sha256

        if not path.is_file():
            raise ConfigError(f"the file of {name}, {path}, is not there", hint="correct its address")
        digest = cached_sha256(project.store, path)
        if expected and digest != expected:
            raise LockError(f"{path} has sha256 {digest}, expected {expected}", hint=hint(digest))
        if not store.stored_file(project.store, digest).exists():
            with locks.lock(project.store, part.name, watch):
                store.copy_to(path, part)
                store.adopt(project.store, part, digest, name, hint)
        return digest
    from kz_build.core import http

    with locks.lock(project.store, part.name, watch):
        known = expected or ("" if again else store.last_digest(project.store, address))
        if known and store.stored_file(project.store, known).exists():
            return known
        http.download(address, part, watch, proved=bool(expected or sha1), size=size)
        if sha1:
            _check_sha1(part, sha1, name)
        digest = store.adopt(project.store, part, expected, name, hint)
        store.remember_digest(project.store, address, digest)
        return digest


def _hint(name: str, line: str, stated: bool) -> store.Hint:
    """Return what to do about another digest than the expected one. No command helps where pins.local.yaml names the file
    (`line` is '')."""
    if line:
        return lambda sha256: (
            "upstream changed the file, or something altered it on the way. Nothing was kept; try again, "
            f"and if upstream confirms the change: kz lock --write --line {line} --trust {name}"
        )
    if stated:
        return lambda sha256: f"correct `sha256` of {name} in pins.local.yaml, or name another file"
    return lambda sha256: (
        "it is another file than the pinned one. If you mean it, write its digest beside its address in "
        f"pins.local.yaml: sha256: {sha256}"
    )


def _check_sha1(path: Path, expected: str, name: str) -> None:
    import hashlib

    sha1 = hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    if sha1 != expected:
        path.unlink()
        raise LockError(
            f"{name} has sha1 {sha1}, upstream publishes {expected}",
            hint="nothing was kept; is a proxy or mirror between you and upstream?",
        )
