"""Upstreams that are made up: what `kz lock` asks is answered from here, and no process starts."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kz_build.container import daemon
from kz_build.core import http
from kz_build.core.errors import UnreachableError
from kz_build.core.progress import quiet
from kz_build.git import refs, remote
from kz_build.pins.lock_file import Lock
from kz_build.pins.pins import Pins
from kz_build.pins.project import Project
from kz_build.sources import clones, package_index, store
from kz_build.sources import download as downloads
from kz_build.sources.package_index import WheelFile
from kz_build.stack.resolve_lock import Resolved, lock


def oid(name: str) -> str:
    """The id of a made up commit or tree."""
    return hashlib.sha1(name.encode()).hexdigest()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


OPTIONS: dict[str, dict[str, Any]] = {
    "up": {"git": "https://h/up", "submodules": ["third/a", "third/b"], "exclude": ["third/a/docs/"]},
    "tool": {"wheel": "Tool", "tag": "py3-*", "index": "", "licence": "", "published": {}},
    "sdk": {"archive": "https://h/sdk-{version}.zip", "published": {}},
    "base": {"image": "debian", "published": {}},
}
VERSIONS = {"up": "v1", "tool": "2.0", "sdk": "r28", "base": "bookworm"}
GIT: dict[str, dict[str, str]] = {
    oid("up v1"): {"third/a": "a", "third/b": "b", "other": "other"},
    oid("a"): {"docs": "docs", "deep": "deep"},
    oid("b"): {},
    oid("deep"): {},
}
"""Commit -> its submodules: path -> name of the commit, which lies at https://h/NAME."""


def submodule(name: str, *, known: bool = True) -> dict[str, Any]:
    return {"url": f"https://h/{name}", "commit": oid(name), "tree": oid(f"tree {oid(name)}") if known else None}


SUBMODULES = {"third/a": submodule("a"), "third/a/deep": submodule("deep"), "third/b": submodule("b")}
UP = {
    "kind": "git", "version": "v1", "url": "https://h/up", "commit": oid("up v1"), "tree": oid(f"tree {oid('up v1')}"),
    "submodules": SUBMODULES,
}  # fmt: skip
UNKNOWN_UP: dict[str, Any] = {
    "kind": "git", "version": "v1", "url": "https://h/up", "commit": None, "tree": None, "submodules": {},
}  # fmt: skip


class Repository:
    """A clone of a made up upstream."""

    path = Path("/clones/up.git")

    def __init__(self, has: bool = True) -> None:
        self.fetched = has

    def has(self, commit: str) -> bool:
        return self.fetched and commit in GIT

    def entries(self, commit: str) -> tuple[object, ...]:
        return ()

    def tree_id(self, commit: str) -> str:
        return oid(f"tree {commit}")


class World:
    """What can be reached, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self.asked: list[tuple[Any, ...]] = []
        self.gone: set[tuple[str, str]] = set()
        self.wheel = WheelFile("tool-2.0-py3-none-any.whl", "https://h/tool.whl", "", 0)
        self.file = b"file"
        self.options = {name: dict(options) for name, options in OPTIONS.items()}
        self.old: dict[str, Any] = {}
        self.cloned = True

    def project(self, *names: str, lines: tuple[str, ...] = ("l",)) -> Project:
        versions = {name: VERSIONS[name] for name in names}
        data = {"default": "l", "lines": dict.fromkeys(lines, versions), "sources": self.options, "targets": {}}
        return Project(self.folder, self.store, Pins(data, (), ""), Lock({"l": self.old} if self.old else {}))

    def lock(self, *names: str, trust: tuple[str, ...] = ()) -> Resolved:
        return lock(self.project(*names), ("l",), trust, quiet)

    def entry(self, name: str, **options: Any) -> dict[str, Any]:
        """The entry of a source, without a note."""
        resolved = self.lock(name, **options)
        assert resolved.notes == ()
        return dict(resolved.lock.lines["l"][name])

    def with_note(self, name: str) -> tuple[dict[str, Any], str]:
        resolved = self.lock(name)
        (note,) = resolved.notes
        return dict(resolved.lock.lines["l"][name]), note

    def ask(self, *what: Any) -> None:
        self.asked.append(what)
        if (what[0], what[1]) in self.gone:
            raise UnreachableError(f"git {what[0]} failed:\nwarning: x\nfatal: no route\nmore")

    def put(self, data: bytes) -> str:
        path = store.stored_file(self.store, sha(data))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return sha(data)


def reachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which everything can be reached, in the place of the adapters that would reach it."""
    made = World(tmp_path)

    def resolve(url: str, version: str) -> str:
        made.ask("resolve", url, version)
        return oid(f"up {version}")

    def fetch_commit(root: Path, name: str, url: str, commit: str, version: str, **options: Any) -> Repository:
        assert root == made.store and options["watch"] is quiet
        made.ask("fetch", url, name, commit, version, options["history"])
        return Repository()

    def links(root: Path, repository: Any, commit: str, only: Any = ()) -> list[tuple[str, str, str]]:
        assert root == made.store and isinstance(repository, Repository)
        return sorted((p, f"https://h/{name}", oid(name)) for p, name in GIT[commit].items() if not only or p in only)

    def find_wheel(index: str, name: str, version: str, tag: str) -> WheelFile:
        made.ask("wheel", index, name, version, tag)
        return made.wheel

    def download(project: Project, line: str, source: Any, watch: Any, expected: str = "") -> str:
        made.ask("download", source.name, line, expected)
        assert watch is quiet and project.root == tmp_path
        return made.put(made.file)

    class Daemon:
        def digest(self, location: str, tag: str) -> str:
            made.ask("image", location, tag)
            return f"sha256:{sha(f'{location}:{tag}'.encode())}"

    monkeypatch.setattr(remote, "resolve", resolve)
    monkeypatch.setattr(clones, "fetch_commit", fetch_commit)
    monkeypatch.setattr(refs, "commit_of", lambda repository, name: name)
    monkeypatch.setattr(clones, "links", links)
    monkeypatch.setattr(package_index, "find_wheel", find_wheel)
    monkeypatch.setattr(http, "size", lambda url: {"https://h/tool.whl": 77}[url])
    monkeypatch.setattr(downloads, "download", download)
    monkeypatch.setattr(daemon, "connect", Daemon)
    monkeypatch.setenv("PIP_INDEX_URL", "https://index/simple")
    return made


FILE = {"sha256": sha(b"file"), "size": 4, "origin": "computed"}
OLD: dict[str, Any] = {"sha256": sha(b"old"), "size": 3, "origin": "index"}
WHEEL: dict[str, Any] = {"kind": "wheel", "version": "2.0", "index": "https://i", "file": "tool-2.0-py3-none-any.whl"}


def packed(path: Path, name: str, text: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(name, text)
    return path.read_bytes()
