"""What `kz lock` notes of each kind of source, what it keeps of an older lock, and what it leaves unknown and says so.

Upstreams are made up here; other tests lock real ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kz_build.container import daemon
from kz_build.core.errors import CommandError, ConfigError, LockError, Missing, MissingError, UnreachableError
from kz_build.core.progress import quiet
from kz_build.git import remote
from kz_build.pins.lock_file import Lock
from kz_build.sources import clones, package_index
from kz_build.sources.package_index import WheelFile
from kz_build.stack.lock_submodules import submodules_at
from kz_build.stack.resolve_lock import Resolved, lock
from tests.stack.made_up import (
    FILE,
    OLD,
    SUBMODULES,
    UNKNOWN_UP,
    UP,
    WHEEL,
    Repository,
    World,
    oid,
    packed,
    reachable,
    sha,
    submodule,
)

KEPT = "what pins.lock knows of it is kept"
DOWNLOAD = "left unknown, for only a download tells it: kz lock --write --line l --trust"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which everything can be reached."""
    return reachable(tmp_path, monkeypatch)


def test_a_git_source_and_all_its_submodules(world: World) -> None:
    assert world.lock("up") == Resolved(Lock({"l": {"up": UP}}), ())
    assert world.asked == [
        ("resolve", "https://h/up", "v1"),
        ("fetch", "https://h/up", "up", oid("up v1"), "v1", True),
        ("fetch", "https://h/a", "third/a", oid("a"), oid("a"), False),
        ("fetch", "https://h/deep", "third/a/deep", oid("deep"), oid("deep"), False),
        ("fetch", "https://h/b", "third/b", oid("b"), oid("b"), False),
    ]


def test_a_git_source_below_the_project(world: World) -> None:
    world.options["up"]["git"] = "up.bundle"
    assert world.entry("up")["url"] == "up.bundle"
    assert world.asked[0] == ("resolve", str(world.folder / "up.bundle"), "v1")
    assert world.asked[1][1] == str(world.folder / "up.bundle")


def test_without_submodules_named_there_are_none(world: World) -> None:
    world.options["up"]["submodules"] = []
    assert world.entry("up") == {**UP, "submodules": {}}


def test_an_excluded_submodule_is_left_out(world: World) -> None:
    world.options["up"]["exclude"] = ["third/a/"]
    assert world.entry("up")["submodules"] == {"third/b": SUBMODULES["third/b"]}


def test_a_submodule_that_upstream_does_not_have(world: World) -> None:
    world.options["up"]["submodules"] = ["third/a", "third/c"]
    with pytest.raises(ConfigError) as caught:
        world.lock("up")
    assert str(caught.value) == "up v1 has no submodule third/c"
    assert caught.value.hint == "correct `submodules` of the source in pins.yaml"


def test_a_submodule_that_cannot_be_reached_is_left_unknown_and_said(world: World) -> None:
    world.gone = {("fetch", "https://h/a"), ("fetch", "https://h/b")}
    resolved = world.lock("up")
    unknown = "its tree and nested submodules are left unknown"
    assert resolved.notes == (f"up/third/a {oid('a')[:10]} and 1 more from h: no route; for each, {unknown}",)
    assert resolved.lock.lines["l"]["up"]["submodules"] == {
        "third/a": submodule("a", known=False),
        "third/b": submodule("b", known=False),
    }


def test_a_host_that_cannot_be_reached_is_named_once_for_each_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = iter(("Could not resolve host: h", "Could not resolve host: h", "The requested URL returned error: 403"))

    def refuse(root: Path, name: str, url: str, *words: Any, **options: Any) -> Any:
        if url == "https://h/up":
            return reachable_commit(root, name, url, *words, **options)
        raise UnreachableError(f"git fetch failed:\nfatal: unable to access '{url}/': {next(reasons)}")

    reachable_commit = clones.fetch_commit
    monkeypatch.setattr(clones, "fetch_commit", refuse)
    a = f"up/third/a {oid('a')[:10]}"
    unknown = "its tree and nested submodules are left unknown"
    assert world.lock("up").notes == (f"{a} and 1 more from h: Could not resolve host: h; for each, {unknown}",)
    world.options["up"]["submodules"] = ["third/a"]
    (note,) = world.lock("up").notes
    assert note == f"{a}: unable to access 'https://h/a/': The requested URL returned error: 403; {unknown}"


def test_what_the_lock_knows_of_such_a_submodule_and_those_in_it_is_kept(world: World) -> None:
    world.gone = {("fetch", "https://h/a")}
    world.old = {"up": UP}
    entry, note = world.with_note("up")
    assert entry == UP
    assert note == f"up/third/a {oid('a')[:10]} from https://h/a: no route; {KEPT}"
    # Also where the lock is of another version of the source; but not of another commit of the submodule.
    world.old = {"up": {**UP, "version": "v0", "commit": oid("up v0")}}
    assert world.with_note("up")[0] == UP
    moved = {**SUBMODULES, "third/a": {**SUBMODULES["third/a"], "commit": oid("a0")}}
    world.old = {"up": {**UP, "submodules": moved}}
    entry, note = world.with_note("up")
    assert entry["submodules"] == {"third/a": submodule("a", known=False), "third/b": SUBMODULES["third/b"]}
    assert note.endswith("are left unknown")
    # Nor of what is now excluded, or of a neighbour with a longer name.
    world.old = {"up": {**UP, "submodules": {**SUBMODULES, "third/ab": submodule("b")}}}
    world.options["up"]["exclude"] = ["third/a/deep/"]
    entry, _ = world.with_note("up")
    assert entry["submodules"] == {"third/a": SUBMODULES["third/a"], "third/b": SUBMODULES["third/b"]}


def test_half_of_what_is_known_of_a_submodule_is_kept(world: World) -> None:
    world.gone = {("fetch", "https://h/a")}
    world.old = {"up": {**UP, "submodules": {"third/a": {**SUBMODULES["third/a"], "tree": None}}}}
    entry, note = world.with_note("up")
    assert entry["submodules"]["third/a"] == {**SUBMODULES["third/a"], "tree": None}
    assert note.endswith("are left unknown")


def test_an_upstream_that_cannot_be_reached(world: World) -> None:
    world.gone = {("resolve", "https://h/up")}
    assert world.with_note("up") == (UNKNOWN_UP, "up v1: no route; left unknown")
    world.old = {"up": {**UP, "version": "v0"}}
    assert world.with_note("up") == (UNKNOWN_UP, "up v1: no route; left unknown")
    world.old = {"up": UNKNOWN_UP}
    assert world.with_note("up") == (UNKNOWN_UP, "up v1: no route; left unknown")
    # A commit that the lock knows may be in the store, or come from there.
    world.old = {"up": {**UP, "submodules": {}}}
    said = "up v1 from https://h/up: no route; its commit is as pins.lock has it"
    assert world.with_note("up") == (UP, said)
    world.gone.add(("fetch", "https://h/up"))
    world.old = {"up": UP}
    assert world.with_note("up") == (UP, f"up v1 from https://h/up: no route; {KEPT}")


def test_a_commit_that_cannot_be_fetched(world: World) -> None:
    world.gone = {("fetch", "https://h/up")}
    assert world.with_note("up") == (UNKNOWN_UP, "up v1: no route; left unknown")
    # The same commit under another tag.
    world.old = {"up": {**UP, "version": "v0"}}
    assert world.with_note("up") == (UP, f"up v1 from https://h/up: no route; {KEPT}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no answer", "no answer"),
        ("git ended with 128:\n  the last line  ", "git ended with 128:: the last line"),
        ("git ended with 128:\nfatal: no https://h/up\nmore", "no https://h/up"),
    ],
)
def test_the_reason_is_given_in_one_line(world: World, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise UnreachableError(text)

    monkeypatch.setattr(remote, "resolve", refuse)
    assert world.with_note("up")[1] == f"up v1: {said}; left unknown"
    world.old = {"up": UP}
    where = "" if "https" in said else " from https://h/up"
    assert world.with_note("up")[1] == f"up v1{where}: {said}; its commit is as pins.lock has it"


DIGEST = f"sha256:{sha(b'debian:bookworm')}"


def test_an_image(world: World) -> None:
    new = {"kind": "image", "version": "bookworm", "digest": DIGEST, "origin": "index"}
    assert world.entry("base") == new
    old = {**new, "digest": f"sha256:{sha(b'old')}"}
    world.old = {"base": old}
    assert world.entry("base") == old
    assert world.entry("base", trust=("base",)) == new
    world.old = {"base": {"kind": "image", "version": "bookworm", "digest": None}}
    assert world.entry("base") == new
    world.old = {"base": {**old, "version": "trixie"}}
    assert world.entry("base") == new


def missing(*_: object) -> Any:
    raise MissingError((Missing("docker", "an image", "apt install docker"),))


def test_without_docker_an_image_is_left_unknown_or_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "connect", missing)
    unknown = {"kind": "image", "version": "bookworm", "digest": None}
    why = "base bookworm: missing on this machine: 1: -> apt install docker"
    assert world.with_note("base") == (unknown, f"{why}; left unknown")
    world.old = {"base": {**unknown, "version": "bullseye", "digest": DIGEST, "origin": "index"}}
    assert world.with_note("base") == (unknown, f"{why}; left unknown")
    with pytest.raises(MissingError):
        world.lock("base", trust=("base",))


def test_what_is_missing_for_another_source_ends_the_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "find_wheel", missing)
    with pytest.raises(MissingError):
        world.lock("tool")


ARCHIVE = {"kind": "archive", "version": "r28", "url": "https://h/sdk-r28.zip"}


def test_an_archive_is_downloaded_only_when_it_is_trusted(world: World) -> None:
    unknown = {**ARCHIVE, "sha256": None, "size": None}
    note = f"sdk r28: its digest is {DOWNLOAD} sdk"
    assert world.with_note("sdk") == (unknown, note)
    assert world.entry("sdk", trust=("sdk",)) == {**ARCHIVE, **FILE}
    assert world.asked == [("download", "sdk", "l", "")]
    world.old = {"sdk": {**ARCHIVE, **OLD}}
    assert world.entry("sdk") == {**ARCHIVE, **OLD}
    assert world.entry("sdk", trust=("sdk",)) == {**ARCHIVE, **FILE}
    for other in ({"url": "https://other/sdk-r28.zip"}, {"version": "r27"}):
        world.old = {"sdk": {**ARCHIVE, **OLD, **other}}
        assert world.with_note("sdk") == (unknown, note)


def test_an_archive_that_cannot_be_downloaded(world: World) -> None:
    world.gone = {("download", "sdk")}
    for world.old in ({}, {"sdk": {**ARCHIVE, **OLD}}):
        with pytest.raises(CommandError, match="no route"):
            world.lock("sdk", trust=("sdk",))


def test_a_wheel_by_what_the_index_says_of_it_or_by_its_bytes(world: World) -> None:
    world.options["tool"]["index"] = "https://i"
    assert world.entry("tool") == {**WHEEL, **FILE}
    assert world.asked == [("wheel", "https://i", "Tool", "2.0", "py3-*"), ("download", "tool", "l", "")]
    world.wheel = WheelFile(WHEEL["file"], "https://h/tool.whl", OLD["sha256"], 5)
    assert world.entry("tool") == {**WHEEL, **OLD, "size": 5}
    world.wheel = WheelFile(WHEEL["file"], "https://h/tool.whl", OLD["sha256"])
    assert world.entry("tool") == {**WHEEL, **OLD, "size": 77}
    assert world.entry("tool", trust=("tool",)) == {**WHEEL, **FILE}


def test_a_wheel_that_the_lock_knows_is_not_asked_for_again(world: World) -> None:
    world.options["tool"]["index"] = "https://i"
    known = {**WHEEL, **OLD}
    world.old = {"tool": known}
    assert world.entry("tool") == known
    assert world.asked == []
    assert world.entry("tool", trust=("tool",)) == {**WHEEL, **FILE}
    for other in (
        {"version": "1.0"},
        {"kind": "archive"},
        {"index": "https://j"},
        {"sha256": None},
        {"file": "tool-2.0-cp311-none-any.whl"},
    ):
        world.old = {"tool": {**known, **other}}
        assert world.entry("tool") == {**WHEEL, **FILE}, other


CITED = {"sha256": OLD["sha256"], "size": None, "sources": ["a/one uv.lock", "b/two uv.lock"]}
KNOWN = {"sha256": OLD["sha256"], "size": None, "origin": "published", "sources": 2}


def test_a_published_digest_needs_no_network(world: World) -> None:
    world.options["sdk"]["published"] = {"r28": CITED, "r27": {**CITED, "sha256": sha(b"r27")}}
    world.options["tool"] |= {"published": {"2.0": {**CITED, "file": WHEEL["file"]}}, "index": "https://i"}
    world.options["base"]["published"] = {"bookworm": CITED}
    assert world.entry("sdk") == {**ARCHIVE, **KNOWN}
    assert world.entry("tool") == {**WHEEL, **KNOWN}
    image = {"kind": "image", "version": "bookworm", "digest": f"sha256:{OLD['sha256']}", "origin": "published"}
    assert world.entry("base") == {**image, "sources": 2}
    assert world.asked == []
    # A citation more or less counts; what was downloaded counts more.
    world.old = {"sdk": {**ARCHIVE, **KNOWN, "sources": 7}}
    assert world.entry("sdk") == {**ARCHIVE, **KNOWN}
    world.old = {"sdk": {**ARCHIVE, **OLD, "origin": "computed"}}
    assert world.entry("sdk") == {**ARCHIVE, **OLD, "origin": "computed"}
    assert world.asked == []
    assert world.entry("sdk", trust=("sdk",)) == {**ARCHIVE, **FILE}


@pytest.mark.parametrize("name", ["sdk", "base"])
def test_a_published_digest_that_is_not_the_known_one(world: World, name: str) -> None:
    version = {"sdk": "r28", "base": "bookworm"}[name]
    world.options[name]["published"] = {version: CITED}
    old = {
        "sdk": {**ARCHIVE, **FILE},
        "base": {"kind": "image", "version": version, "digest": DIGEST, "origin": "index"},
    }
    world.old = {name: old[name]}
    said = f"pins.lock has {name} {version} as .*, `published` in pins.yaml as .*{OLD['sha256']}"
    with pytest.raises(LockError, match=said) as caught:
        world.lock(name)
    assert caught.value.hint.endswith(f"kz lock --write --line l --trust {name}")


def test_a_published_sha1_is_no_digest(world: World) -> None:
    world.options["sdk"]["published"] = {"r28": {"sha256": "", "sha1": "1" * 40, "size": 3, "sources": []}}
    assert world.with_note("sdk")[0] == {**ARCHIVE, "sha256": None, "size": None}


def test_a_wheel_of_an_index_that_does_not_answer(world: World) -> None:
    world.gone = {("wheel", "https://index/simple")}
    unknown = {"kind": "wheel", "version": "2.0", "sha256": None, "size": None}
    assert world.with_note("tool") == (unknown, "tool 2.0: no route; left unknown")


def test_the_index_of_a_wheel_is_noted_only_where_it_is_its_own(world: World) -> None:
    entry = world.entry("tool")
    assert "index" not in entry
    assert world.asked[0] == ("wheel", "https://index/simple", "Tool", "2.0", "py3-*")
    world.old = {"tool": {**entry, "index": "https://i"}}
    world.asked.clear()
    assert world.entry("tool") == entry and world.asked


def test_the_digest_of_a_wheel_is_not_kept_for_a_wheel_of_another_name(world: World) -> None:
    world.old = {"tool": world.entry("tool")}
    world.asked.clear()
    world.entry("tool")
    assert not world.asked
    world.options["tool"]["wheel"] = "Other"
    world.wheel = WheelFile("other-2.0-py3-none-any.whl", "https://h/other.whl", sha(b"other"), 5)
    entry = world.entry("tool")
    assert (entry["file"], entry["sha256"]) == ("other-2.0-py3-none-any.whl", sha(b"other"))


def test_an_index_that_names_a_file_elsewhere_is_refused(world: World) -> None:
    world.wheel = WheelFile("../tool-2.0-py3-none-any.whl", "https://h/tool.whl", "", 0)
    with pytest.raises(LockError) as caught:
        world.lock("tool")
    said = "has a wheel of tool named '../tool-2.0-py3-none-any.whl', which must be a file name without a folder"
    assert str(caught.value) == f"https://index/simple {said}"


def test_what_upstream_says_is_held_to_the_form_of_the_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "resolve", lambda url, version: oid("b"))
    monkeypatch.setattr(Repository, "tree_id", lambda self, commit: "--upload-pack=x")
    world.options["up"]["submodules"] = []
    with pytest.raises(LockError, match="the new pins.lock is wrong"):
        world.lock("up")


def test_the_licence_that_users_accept_is_noted(world: World) -> None:
    world.options["tool"]["licence"] = "tool/LICENCE"
    world.file = packed(world.folder / "x.whl", "tool/LICENCE", b"terms")
    entry = world.entry("tool")
    assert (entry["sha256"], entry["licence"]) == (sha(world.file), sha(b"terms"))
    # Without the wheel only an old lock of the same wheel can tell.
    world.wheel = WheelFile("tool-2.0-py3-none-any.whl", "https://h/tool.whl", sha(b"old"), 3)
    entry, note = world.with_note("tool")
    assert (entry["licence"], note) == (None, f"tool 2.0: its licence's digest is {DOWNLOAD} tool")
    old = {"kind": "wheel", "version": "2.0", "file": WHEEL["file"], **OLD, "licence": sha(b"x")}
    world.old = {"tool": old}
    assert world.entry("tool") == old
    world.old = {"tool": {**old, "version": "1.0"}}
    assert world.entry("tool") == old
    world.old = {"tool": {**old, "version": "1.0", "sha256": sha(b"another")}}
    assert world.with_note("tool")[0]["licence"] is None


def test_only_the_lines_asked_for_are_resolved_and_lines_that_are_gone_go(world: World) -> None:
    kept = {"base": {"kind": "image", "version": "old", "digest": f"sha256:{sha(b'kept')}", "origin": "computed"}}
    project = world.project("base", lines=("l", "m", "n"))._replace(lock=Lock({"m": kept, "gone": kept}))
    resolved = lock(project, ("l", "n"), (), quiet)
    fresh = {"base": {"kind": "image", "version": "bookworm", "digest": DIGEST, "origin": "index"}}
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
        return submodules_at(project, project.pins.source("up"), Repository(), oid("up v1"), old)  # type: ignore[arg-type]

    unknown = {"third/a": submodule("a", known=False), "third/b": submodule("b", known=False)}
    assert found({"submodules": SUBMODULES}) == SUBMODULES
    assert found({}) == found({"submodules": None}) == unknown
    moved = {**SUBMODULES, "third/a": {**SUBMODULES["third/a"], "commit": oid("a0")}, "third/bb": {}}
    assert found({"submodules": moved}) == {**unknown, "third/b": SUBMODULES["third/b"]}
    assert found({}, exclude=["third/a/"]) == {"third/b": unknown["third/b"]}
    assert found({}, submodules=[]) == {}
    assert world.asked == []


def test_a_branch_that_moved_to_a_commit_that_cannot_be_fetched(world: World) -> None:
    world.gone = {("fetch", "https://h/up")}
    world.old = {"up": {**UP, "commit": oid("before"), "tree": oid("tree before")}}
    assert world.with_note("up") == (world.old["up"], f"up v1: no route; {KEPT}")
