"""What `kz lock` notes of each kind of source, and what it leaves unknown and says so.

Upstreams are made up here: tests/e2e and tests/tools lock real ones.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kz_build.adapters import clones, daemon, http, remote, store
from kz_build.adapters.http import WheelFile
from kz_build.model.errors import CommandError, ConfigError, ConflictError, Missing, MissingError, Problem
from kz_build.model.events import quiet
from kz_build.model.lock import Lock
from kz_build.model.pins import Pins
from kz_build.model.project import Project
from kz_build.model.sources import Tree, TreeAt
from kz_build.stages import fetch
from kz_build.stages import lock as stage
from kz_build.stages.lock import Resolved, lock, submodules_at
from tests.unit.test_diff import GOOD
from tests.unit.test_mail import DATE, FROM, SUBJECT

OPTIONS: dict[str, dict[str, Any]] = {
    "up": {"git": "https://h/up", "submodules": ["third/a", "third/b"], "exclude": ["third/a/docs/"]},
    "tool": {"wheel": "Tool", "tag": "py3-*", "index": "", "licence": ""},
    "sdk": {"archive": "https://h/sdk-{version}.zip", "published": {}},
    "base": {"image": "debian"},
}
VERSIONS = {"up": "v1", "tool": "2.0", "sdk": "r28", "base": "bookworm"}
GIT: dict[str, dict[str, tuple[str, str]]] = {
    "commit-v1": {"third/a": ("https://h/a", "commit-a"), "third/b": ("https://h/b", "commit-b"), "other": ("https://h/o", "x")},
    "commit-a": {"docs": ("https://h/docs", "d"), "deep": ("https://h/deep", "commit-deep")},
    "commit-b": {},
    "commit-deep": {},
}  # fmt: skip
"""Commit -> its submodules: path -> (address, commit)."""
SUBMODULES = {
    "third/a": {"url": "https://h/a", "commit": "commit-a", "tree": "tree of commit-a", "nested": 2},
    "third/a/deep": {"url": "https://h/deep", "commit": "commit-deep", "tree": "tree of commit-deep", "nested": 0},
    "third/b": {"url": "https://h/b", "commit": "commit-b", "tree": "tree of commit-b", "nested": 0},
}
UP = {
    "kind": "git", "version": "v1", "url": "https://h/up", "commit": "commit-v1", "tree": "tree of commit-v1",
    "submodules": SUBMODULES,
}  # fmt: skip


class Repository:
    """A clone of a made up upstream."""

    path = Path("/clones/up.git")

    def tree_id(self, commit: str) -> str:
        return f"tree of {commit}"


class World:
    """What can be reached, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[Any, ...]] = []
        self.gone: set[str] = set()
        self.wheel = WheelFile("tool-2.0-py3-none-any.whl", "https://h/tool.whl", "", 0)
        self.file = b"file"
        self.options = {name: dict(options) for name, options in OPTIONS.items()}
        self.old: dict[str, Any] = {}

    def project(self, *names: str, lines: tuple[str, ...] = ("l",)) -> Project:
        versions = {name: VERSIONS[name] for name in names}
        data = {"default": "l", "lines": dict.fromkeys(lines, versions), "sources": self.options, "targets": {}}
        return Project(
            self.folder, self.folder / "store", Pins(data, (), ""), Lock({"l": self.old} if self.old else {})
        )

    def lock(self, *names: str, trust: tuple[str, ...] = ()) -> Resolved:
        return lock(self.project(*names), ("l",), trust, quiet)

    def entry(self, name: str, **options: Any) -> dict[str, Any]:
        return dict(self.lock(name, **options).lock.lines["l"][name])

    def ask(self, *what: Any) -> None:
        self.asked.append(what)
        if str(what[1]) in self.gone:
            raise CommandError(f"git fetch failed\nmore\nfatal: no {what[1]}")

    def store(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        path = store.stored_file(self.folder / "store", digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return digest


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which everything can be reached."""
    made = World(tmp_path)

    def resolve(url: str, version: str) -> str:
        made.ask("resolve", url, version)
        return f"commit-{version}"

    def fetch_commit(root: Path, name: str, url: str, commit: str, version: str, **options: Any) -> Repository:
        assert root == tmp_path / "store" and options["watch"] is quiet
        made.ask("fetch", url, name, commit, version, options["history"])
        return Repository()

    def links(root: Path, repository: Any, commit: str, only: Any = ()) -> list[tuple[str, str, str]]:
        assert root == tmp_path / "store" and isinstance(repository, Repository)
        return sorted((p, url, link) for p, (url, link) in GIT[commit].items() if not only or p in only)

    def find_wheel(index: str, name: str, version: str, tag: str) -> WheelFile:
        made.ask("wheel", index, name, version, tag)
        return made.wheel

    def download(project: Project, line: str, source: Any, watch: Any, expected: str = "") -> str:
        made.ask("download", source.name, line, expected)
        assert watch is quiet and project.root == tmp_path
        return made.store(made.file)

    class Daemon:
        def digest(self, location: str, tag: str) -> str:
            made.ask("image", location, tag)
            return f"sha256:{location}:{tag}"

    monkeypatch.setattr(remote, "resolve", resolve)
    monkeypatch.setattr(clones, "fetch_commit", fetch_commit)
    monkeypatch.setattr(clones, "links", links)
    monkeypatch.setattr(http, "find_wheel", find_wheel)
    monkeypatch.setattr(http, "size", lambda url: {"https://h/tool.whl": 77}[url])
    monkeypatch.setattr(fetch, "download", download)
    monkeypatch.setattr(daemon, "connect", Daemon)
    monkeypatch.setenv("PIP_INDEX_URL", "https://index/simple")
    return made


FILE = {"sha256": hashlib.sha256(b"file").hexdigest(), "size": 4}


def test_a_git_source_and_all_its_submodules(world: World) -> None:
    resolved = world.lock("up")
    assert resolved.lock.lines == {"l": {"up": UP}}
    assert resolved.notes == ()
    assert world.asked == [
        ("resolve", "https://h/up", "v1"),
        ("fetch", "https://h/up", "up", "commit-v1", "v1", True),
        ("fetch", "https://h/a", "third/a", "commit-a", "commit-a", False),
        ("fetch", "https://h/deep", "third/a/deep", "commit-deep", "commit-deep", False),
        ("fetch", "https://h/b", "third/b", "commit-b", "commit-b", False),
    ]


def test_a_git_source_below_the_project(world: World) -> None:
    world.options["up"]["git"] = "up.bundle"
    assert world.entry("up")["url"] == "up.bundle"
    assert world.asked[0] == ("resolve", str(world.folder / "up.bundle"), "v1")


def test_without_submodules_named_there_are_none(world: World) -> None:
    world.options["up"]["submodules"] = []
    assert world.entry("up")["submodules"] == {}


def test_a_submodule_that_upstream_does_not_have(world: World) -> None:
    world.options["up"]["submodules"] = ["third/a", "third/c"]
    with pytest.raises(ConfigError) as caught:
        world.lock("up")
    assert str(caught.value) == "up v1 has no submodule third/c"
    assert caught.value.hint == "mend `submodules` of the source in pins.yaml"


def test_a_submodule_that_cannot_be_reached_is_left_unknown_and_said(world: World) -> None:
    world.gone.add("https://h/a")
    resolved = world.lock("up")
    assert resolved.notes == ("up/third/a: fatal: no https://h/a; its tree and nested submodules are left unknown",)
    unknown = {"url": "https://h/a", "commit": "commit-a", "tree": None, "nested": None}
    entry = resolved.lock.lines["l"]["up"]
    assert entry["submodules"] == {"third/a": unknown, "third/b": SUBMODULES["third/b"]}


def test_an_upstream_that_cannot_be_reached(world: World) -> None:
    world.gone.add("https://h/up")
    resolved = world.lock("up")
    unknown: dict[str, Any] = {"kind": "git", "version": "v1", "commit": None, "tree": None, "submodules": {}}
    assert resolved.lock.lines == {"l": {"up": unknown}}
    assert resolved.notes == ("up v1: git fetch failed: fatal: no https://h/up; left unknown",)
    world.old = {"up": UP}
    resolved = world.lock("up")
    assert resolved.lock.lines == {"l": {"up": UP}}
    assert resolved.notes == ("up v1: git fetch failed: fatal: no https://h/up; the lock's old facts are kept",)
    world.old = {"up": {**UP, "version": "v0"}}
    assert world.entry("up") == unknown


def test_a_reason_of_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise CommandError("no route")

    monkeypatch.setattr(remote, "resolve", refuse)
    assert world.lock("up").notes == ("up v1: no route; left unknown",)


def test_an_image(world: World) -> None:
    assert world.entry("base") == {"kind": "image", "version": "bookworm", "digest": "sha256:debian:bookworm"}
    old = {"kind": "image", "version": "bookworm", "digest": "sha256:old"}
    world.old = {"base": old}
    assert world.entry("base") == old
    assert world.entry("base", trust=("base",))["digest"] == "sha256:debian:bookworm"
    world.old = {"base": {**old, "digest": None}}
    assert world.entry("base")["digest"] == "sha256:debian:bookworm"
    world.old = {"base": {**old, "version": "trixie"}}
    assert world.entry("base")["digest"] == "sha256:debian:bookworm"


def missing(*_: object) -> Any:
    raise MissingError((Missing("docker", "an image", "apt install docker"),))


def test_without_docker_an_image_is_left_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "connect", missing)
    resolved = world.lock("base")
    assert resolved.lock.lines["l"]["base"] == {"kind": "image", "version": "bookworm", "digest": None}
    assert resolved.notes == ("base bookworm: missing on this machine: 1:       -> apt install docker; left unknown",)


def test_what_is_missing_for_another_source_ends_the_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "find_wheel", missing)
    with pytest.raises(MissingError):
        world.lock("tool")


ARCHIVE = {"kind": "archive", "version": "r28", "url": "https://h/sdk-r28.zip"}


def test_an_archive_is_downloaded_only_when_it_is_trusted(world: World) -> None:
    assert world.entry("sdk") == {**ARCHIVE, "sha256": None, "size": None}
    assert world.entry("sdk", trust=("sdk",)) == {**ARCHIVE, **FILE}
    assert world.asked == [("download", "sdk", "l", "")]
    world.old = {"sdk": {**ARCHIVE, "sha256": "x", "size": 1}}
    assert world.entry("sdk") == {**ARCHIVE, "sha256": "x", "size": 1}
    assert world.entry("sdk", trust=("sdk",)) == {**ARCHIVE, **FILE}
    world.old = {"sdk": {**ARCHIVE, "url": "https://other/sdk-r28.zip", "sha256": "x", "size": 1}}
    assert world.entry("sdk") == {**ARCHIVE, "sha256": None, "size": None}


WHEEL = {"kind": "wheel", "version": "2.0", "index": "https://i", "file": "tool-2.0-py3-none-any.whl"}


def test_a_wheel_by_what_the_index_says_of_it_or_by_its_bytes(world: World) -> None:
    world.options["tool"]["index"] = "https://i"
    assert world.entry("tool") == {**WHEEL, **FILE}
    assert world.asked == [("wheel", "https://i", "Tool", "2.0", "py3-*"), ("download", "tool", "l", "")]
    world.wheel = WheelFile(WHEEL["file"], "https://h/tool.whl", "abc", 5)
    assert world.entry("tool") == {**WHEEL, "sha256": "abc", "size": 5}
    world.wheel = WheelFile(WHEEL["file"], "https://h/tool.whl", "abc")
    assert world.entry("tool") == {**WHEEL, "sha256": "abc", "size": 77}
    assert world.entry("tool", trust=("tool",)) == {**WHEEL, **FILE}


def test_a_wheel_that_the_lock_knows_is_not_asked_for_again(world: World) -> None:
    world.options["tool"]["index"] = "https://i"
    known = {**WHEEL, "sha256": "old", "size": 3}
    world.old = {"tool": known}
    assert world.entry("tool") == known
    assert world.asked == []
    assert world.entry("tool", trust=("tool",)) == {**WHEEL, **FILE}
    for other in (
        {**known, "version": "1.0"},
        {**known, "kind": "archive"},
        {**known, "index": "https://j"},
        {**known, "sha256": None},
        {**known, "file": "tool-2.0-cp311-none-any.whl"},
    ):
        world.old = {"tool": other}
        assert world.entry("tool") == {**WHEEL, **FILE}, other


def test_the_index_of_a_wheel_is_noted_only_where_it_is_its_own(world: World) -> None:
    entry = world.entry("tool")
    assert "index" not in entry
    assert world.asked[0] == ("wheel", "https://index/simple", "Tool", "2.0", "py3-*")
    world.old = {"tool": {**entry, "index": "https://i"}}
    world.asked.clear()
    assert world.entry("tool") == entry and world.asked


def packed(path: Path, name: str, text: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(name, text)
    return path.read_bytes()


def test_the_licence_that_users_accept_is_noted(world: World) -> None:
    world.options["tool"]["licence"] = "tool/LICENCE"
    world.file = packed(world.folder / "x.whl", "tool/LICENCE", b"terms")
    digest, terms = hashlib.sha256(world.file).hexdigest(), hashlib.sha256(b"terms").hexdigest()
    entry = world.entry("tool")
    assert (entry["sha256"], entry["licence"]) == (digest, terms)
    # Without the wheel only an old lock of the same wheel can tell.
    world.wheel = WheelFile(WHEEL["file"], "https://h/tool.whl", "abc", 5)
    assert world.entry("tool")["licence"] is None
    old = {"kind": "wheel", "version": "2.0", "file": WHEEL["file"], "sha256": "abc", "size": 5, "licence": "old"}
    world.old = {"tool": old}
    assert world.entry("tool") == old
    world.old = {"tool": {**old, "sha256": "other", "file": "tool-2.0-cp311-none-any.whl"}}
    assert world.entry("tool")["licence"] is None


def stack(world: World, source: str) -> None:
    folder = world.folder / "patches" / "l" / source
    folder.mkdir(parents=True)
    (folder / "0001-x.patch").write_bytes(FROM + DATE + SUBJECT + b"\n---\n" + GOOD)
    (folder / "series").write_text("0001-x.patch\n")


def with_stacks(world: World, monkeypatch: pytest.MonkeyPatch, problems: tuple[Problem, ...] = ()) -> None:
    """Stacks that apply, or do not hold for these reasons."""

    def apply_to(repository: Any, base: str, found: Any, locked: Any) -> tuple[Tree | None, list[Problem]]:
        world.asked.append(("apply", repository.path, base, [p.name for p in found.patches], locked))
        tree = Tree(found.source, repository.path, base, "patched commit", "patched tree", None, ())
        return (None if problems else tree), list(problems)

    def fill(root: Path, repository: Any, commit: str, exclude: Any, only: Any) -> None:
        world.asked.append(("fill", root, repository.path, commit, exclude, only))

    def import_files(root: Path, path: str, files: Any, message: str) -> TreeAt:
        world.asked.append(("import", root, path, sorted(files), message))
        return TreeAt(path, Path("/clones/contents.git"), "wheel commit", "wheel tree")

    monkeypatch.setattr(stage, "apply_to", apply_to)
    monkeypatch.setattr(clones, "clone", lambda root, name, url: Repository() if (root, name, url) == (world.folder / "store", "up", "https://h/up") else None)  # fmt: skip
    monkeypatch.setattr(clones, "fill", fill)
    monkeypatch.setattr(clones, "import_files", import_files)


def test_the_tree_of_a_stack_on_git(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stack(world, "up")
    with_stacks(world, monkeypatch)
    assert world.entry("up") == {**UP, "patched": {"commit": "patched commit", "tree": "patched tree"}}
    path = Repository.path
    assert world.asked[-2:] == [
        ("fill", world.folder / "store", path, "commit-v1", (), {"f"}),
        ("apply", path, "commit-v1", ["0001-x.patch"], ""),
    ]


def test_the_tree_of_a_stack_on_a_wheel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stack(world, "tool")
    with_stacks(world, monkeypatch)
    world.file = packed(world.folder / "x.whl", "tool/f", b"a\n")
    digest = hashlib.sha256(world.file).hexdigest()
    entry = world.entry("tool")
    assert (entry["commit"], entry["tree"]) == ("wheel commit", "wheel tree")
    assert entry["patched"] == {"commit": "patched commit", "tree": "patched tree"}
    assert world.asked[-2:] == [
        ("import", world.folder / "store", "", ["tool/f"], f"sha256 {digest}"),
        ("apply", Path("/clones/contents.git"), "wheel commit", ["0001-x.patch"], ""),
    ]
    assert [a for a in world.asked if a[0] == "download"] == [("download", "tool", "l", "")]
    # A wheel that the lock knows, and the store not, is downloaded with the lock's digest.
    world.old = {"tool": {k: entry[k] for k in ("kind", "version", "file", "sha256", "size")}}
    store.stored_file(world.folder / "store", digest).unlink()
    world.asked.clear()
    assert world.entry("tool") == entry
    assert world.asked[0] == ("download", "tool", "l", digest)


def test_a_stack_that_does_not_hold_is_named_and_nothing_is_locked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(world, "up")
    with_stacks(world, monkeypatch, (Problem("p", 3, "one"), Problem("q", 0, "two")))
    with pytest.raises(ConflictError) as caught:
        world.lock("up")
    assert str(caught.value) == "the stack of up does not hold:\n  p:3: one\n  q: two"
    assert caught.value.hint == "the lock was not written"


def test_only_the_lines_asked_for_are_resolved_and_lines_that_are_gone_go(world: World) -> None:
    kept = {"base": {"kind": "image", "version": "old", "digest": "kept"}}
    project = world.project("base", lines=("l", "m", "n"))
    project = project._replace(lock=Lock({"m": kept, "gone": kept}))
    resolved = lock(project, ("l", "n"), (), quiet)
    fresh = {"base": {"kind": "image", "version": "bookworm", "digest": "sha256:debian:bookworm"}}
    assert resolved.lock.lines == {"m": kept, "l": fresh, "n": fresh}


def test_only_a_source_of_these_lines_can_be_trusted(world: World) -> None:
    with pytest.raises(ConfigError) as caught:
        lock(world.project("sdk", "base", lines=("l", "m")), ("l", "m"), ("up",), quiet)
    assert str(caught.value) == "--trust up: no such source in l, m"
    assert caught.value.hint == "there are: base, sdk"
    assert world.asked == []


def test_the_submodules_of_another_commit_without_asking_upstream(world: World) -> None:
    def found(old: dict[str, Any], **options: Any) -> dict[str, Any]:
        world.options["up"].update(options)
        project = world.project("up")
        return submodules_at(project, project.pins.source("up"), Repository(), "commit-v1", old)  # type: ignore[arg-type]

    def unknown(name: str) -> dict[str, Any]:
        return {"url": f"https://h/{name}", "commit": f"commit-{name}", "tree": None, "nested": None}

    assert found({"submodules": SUBMODULES}) == SUBMODULES
    assert found({}) == {"third/a": unknown("a"), "third/b": unknown("b")}
    assert found({"submodules": None}) == {"third/a": unknown("a"), "third/b": unknown("b")}
    moved = {**SUBMODULES, "third/a": {**SUBMODULES["third/a"], "commit": "before"}, "third/bb": {}}
    assert found({"submodules": moved}) == {"third/a": unknown("a"), "third/b": SUBMODULES["third/b"]}
    assert found({}, exclude=["third/a/"]) == {"third/b": unknown("b")}
    assert found({}, submodules=[]) == {}
    assert world.asked == []
