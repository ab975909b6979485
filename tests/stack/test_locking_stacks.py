"""What `kz lock` notes of stacks: the tree that each gives, kept where its source cannot be read, and of no other stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kz_build.core.errors import CommandError, ConflictError, Problem
from kz_build.git import repository as git
from kz_build.sources import clones, store
from kz_build.sources.fetched import Tree, TreeAt
from kz_build.stack import resolve_lock as stage
from kz_build.stack.files import read_stack
from tests.patch.test_diff import GOOD
from tests.patch.test_mail import DATE, FROM, SUBJECT
from tests.stack.made_up import OLD, UP, WHEEL, Repository, World, oid, packed, reachable, sha


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which everything can be reached."""
    return reachable(tmp_path, monkeypatch)


def stack(world: World, source: str, *names: str) -> None:
    """Give a source a stack of these patches."""
    folder = world.folder / "patches" / "l" / source
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(FROM + DATE + SUBJECT + b"\n---\n" + GOOD)
    (folder / "series").write_text("".join(f"{name}\n" for name in names))


ONE = "0001-x.patch"
PATCHED = {"commit": oid("patched"), "tree": oid("patched tree")}


@pytest.fixture
def stacks(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Have stacks apply, or not hold for the problems that are put into this list."""
    problems: list[Problem] = []

    def apply_to(repository: Any, base: str, found: Any, locked: Any) -> tuple[Tree | None, list[Problem]]:
        world.asked.append(("apply", repository.path, base, [p.name for p in found.patches], locked))
        tree = Tree(found.source, repository.path, base, PATCHED["commit"], PATCHED["tree"], None, ())
        return (None if problems else tree), problems

    def clone(root: Path, name: str, url: str) -> Repository:
        assert (root, name, url) == (world.store, "up", "https://h/up")
        return Repository(world.cloned)

    def import_files(root: Path, path: str, files: Any, message: str) -> TreeAt:
        world.asked.append(("import", root, path, sorted(files), message))
        return TreeAt(path, Path("/clones/contents.git"), oid("wheel"), oid("wheel tree"))

    monkeypatch.setattr(stage, "apply_to", apply_to)
    monkeypatch.setattr(clones, "clone", clone)
    monkeypatch.setattr(clones, "fill", lambda root, repository, *what: world.ask("fill", root, repository.path, *what))
    monkeypatch.setattr(clones, "import_files", import_files)
    return problems


def test_the_tree_of_a_stack_on_git(world: World, stacks: list[Problem]) -> None:
    stack(world, "up", ONE)
    assert world.entry("up") == {**UP, "patched": PATCHED}
    assert world.asked[-2:] == [
        ("fill", world.store, Repository.path, oid("up v1"), (), {"f"}),
        ("apply", Repository.path, oid("up v1"), [ONE], ""),
    ]


def test_the_tree_of_a_stack_that_is_gone_goes(world: World) -> None:
    world.old = {"up": {**UP, "patched": PATCHED}}
    world.gone = {("resolve", "https://h/up"), ("fetch", "https://h/up")}
    assert world.with_note("up")[0] == UP


def test_the_tree_of_a_stack_on_a_wheel(world: World, stacks: list[Problem]) -> None:
    stack(world, "tool", ONE)
    world.file = packed(world.folder / "x.whl", "tool/f", b"a\n")
    entry = world.entry("tool")
    assert (entry["commit"], entry["tree"], entry["patched"]) == (oid("wheel"), oid("wheel tree"), PATCHED)
    assert world.asked[-2:] == [
        ("import", world.store, "", ["tool/f"], f"sha256 {sha(world.file)}"),
        ("apply", Path("/clones/contents.git"), oid("wheel"), [ONE], ""),
    ]
    assert [a for a in world.asked if a[0] == "download"] == [("download", "tool", "l", "")]
    # A wheel that the lock knows, and the store not, is downloaded with the lock's digest.
    world.old = {"tool": entry}
    store.stored_file(world.store, entry["sha256"]).unlink()
    world.asked.clear()
    assert world.entry("tool") == entry
    assert world.asked[0] == ("download", "tool", "l", entry["sha256"])


def test_a_stack_that_does_not_hold_is_named_and_nothing_is_locked(world: World, stacks: list[Problem]) -> None:
    stack(world, "up", ONE)
    stacks += [Problem("p", 3, "one"), Problem("q", 0, "two")]
    with pytest.raises(ConflictError) as caught:
        world.lock("up")
    assert str(caught.value) == "the stack of up does not hold:\n  p:3: one\n  q: two"
    assert caught.value.hint == "the lock was not written"
    world.old = {"up": {"kind": "git", "version": "v0.9"}}
    with pytest.raises(ConflictError) as caught:  # somebody edited the pin, and kz rebase would have moved the stack
        world.lock("up")
    assert caught.value.hint.endswith("put v0.9 back into pins.yaml, then kz rebase --line l --source up --onto v1")


NOT_PROVED = "the tree of the result is kept, and not proved"


def test_what_a_stack_gave_is_kept_where_its_source_cannot_be_read(world: World, stacks: list[Problem]) -> None:
    stack(world, "up", ONE)
    world.cloned = False
    why = f"the stack of up: {oid('up v1')} was never fetched here"
    assert world.with_note("up") == (UP, f"{why}; its result is left unknown")
    known = {**UP, "patched": PATCHED}
    world.old = {"up": known}
    assert world.with_note("up") == (known, f"{why}; {NOT_PROVED}")
    world.old = {"up": {**known, "version": "v0"}}
    assert world.with_note("up") == (known, f"{why}; {NOT_PROVED}")
    for other in ({"commit": oid("up v0")}, {"patched": {**PATCHED, "commit": oid("up v1")}}):
        world.old = {"up": {**known, **other}}
        assert world.with_note("up") == (UP, f"{why}; its result is left unknown")
    # An empty stack gives the source's own commit, and nothing else.
    stack(world, "up")
    (world.folder / "patches/l/up" / ONE).unlink()
    world.old = {"up": known}
    assert "patched" not in world.with_note("up")[0]
    world.old = {"up": {**UP, "patched": {"commit": UP["commit"], "tree": UP["tree"]}}}
    assert world.with_note("up")[0] == world.old["up"]


def test_what_a_stack_gave_on_a_wheel_is_kept_where_it_cannot_be_downloaded(
    world: World, stacks: list[Problem]
) -> None:
    stack(world, "tool", ONE)
    world.gone = {("download", "tool")}
    known = {"kind": "wheel", "version": "2.0", "file": WHEEL["file"], **OLD}
    world.old = {"tool": known}
    assert world.with_note("tool") == (known, "the stack of tool: no route; its result is left unknown")
    world.old = {"tool": {**known, "commit": oid("wheel"), "tree": oid("wheel tree"), "patched": PATCHED}}
    assert world.with_note("tool") == (world.old["tool"], f"the stack of tool: no route; {NOT_PROVED}")


@pytest.mark.parametrize("source", ["up", "tool"])
def test_what_another_stack_gave_is_not_kept(
    world: World, stacks: list[Problem], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The store knows by its refs which stack gave a commit."""
    stack(world, source, ONE)
    world.cloned, world.gone = False, {("download", "tool")}
    wheel = {"kind": "wheel", "version": "2.0", "file": WHEEL["file"], **OLD, "commit": oid("w"), "tree": oid("wt")}
    known = {**(UP if source == "up" else wheel), "patched": PATCHED}
    files = read_stack(world.project(source), "l", source)
    assert files
    refs: list[str] = []
    asked: list[tuple[Any, ...]] = []

    def exists(repository: git.Repository) -> bool:
        asked.append(("exists", repository.path))
        return bool(refs)

    def answer(repository: git.Repository, *words: str) -> bytes:
        asked.append((repository.path, *words))
        return "".join(f"{ref}\n" for ref in refs).encode()

    monkeypatch.setattr(git.Repository, "exists", exists)
    monkeypatch.setattr(git.Repository, "git", answer)
    own, another = f"refs/kz/stack/e-base-{files.digest[:16]}", f"refs/kz/stack/e-base-{'0' * 16}"
    place = Repository.path if source == "up" else git.contents_path(world.store)
    for found, kept in (([], True), ([own], True), ([another], False), ([another, own], True)):
        refs[:] = found
        world.old = {source: known}
        assert ("patched" in world.with_note(source)[0]) is kept, found
        question = (place, "for-each-ref", "--format=%(refname)", f"--points-at={PATCHED['commit']}", "refs/kz/stack")
        assert asked[-1] == (question if found else ("exists", place))


def test_a_stack_that_git_refuses_ends_the_command(
    world: World, stacks: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fact of upstream's that could not be reached, which would leave the commit unknown."""

    def refuse(*_: object) -> None:
        raise CommandError("git fast-import failed: fatal: invalid author")

    stack(world, "up", ONE)
    monkeypatch.setattr(stage, "apply_to", refuse)
    with pytest.raises(CommandError, match="invalid author"):
        world.lock("up")
