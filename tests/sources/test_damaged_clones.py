"""The store's repositories: killed or out of disk while they are made, damaged later, or locked by a git that is dead."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kz_build.core import locks
from kz_build.core.errors import CommandError
from kz_build.core.process import Output
from kz_build.core.progress import Watch
from kz_build.git import blobs, refs, stale_locks
from kz_build.git.object_types import Blob
from kz_build.sources import clones, integrity
from kz_build.sources.fetched import TreeAt
from tests.conftest import ROOT, Kz
from tests.kz import ALONE
from tests.stack.test_edit import edited
from tests.stack.test_edit import git as person
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import Project, Upstream, copied, project, put, started, text

GIT = shutil.which("git")


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    return project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])


BEFORE, AFTER = "kill -9 $PPID; exit", f'{GIT} "$@"; kill -9 $PPID; exit'
"""What ends kz before and after a `git init`."""


def clone(store: Path) -> Path:
    return next((store / "git").glob("up-*.git"))


def from_a_folder(ours: Project) -> None:
    """Let the source be a folder: its content becomes a commit in contents.git."""
    shutil.copytree(ours.upstream.folder, ours.root.parent / "folder", ignore=shutil.ignore_patterns(".git"))
    (ours.root / "pins.local.yaml").write_text(f"sources: {{up: {{folder: {ours.root.parent / 'folder'}}}}}\n")


def wrapped(folder: Path, do: str, word: str = "init") -> str:
    """A PATH on which git does this in the place of `git init`, or of another command."""
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\ncase " $* " in *" {word} "*) {do};; esac\nexec {GIT} "$@"\n')
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(("lay", "init"), [(None, BEFORE), (None, AFTER), (from_a_folder, AFTER)])
def test_a_kill_while_a_repository_is_made_costs_nothing(
    ours: Project, tmp_path: Path, lay: Callable[[Project], None] | None, init: str
) -> None:
    if lay:
        lay(ours)
    wanted, store = ours.kz("verify", "--json").stdout, tmp_path / "other"
    done = ours.kz("verify", PATH=wrapped(tmp_path / "bin", init), **ALONE, KZ_CACHE=str(store))
    assert done.returncode == -signal.SIGKILL
    assert list((store / "git").iterdir()), "it was killed before it made anything"
    listed = {entry["name"] for entry in ours.json("store", "list", KZ_CACHE=str(store)) if entry["kind"] == "git"}
    assert not [name for name in listed if name.startswith(".")]
    done = ours.kz("verify", "--json", KZ_CACHE=str(store))
    assert (done.returncode, done.stdout) == (0, wanted), done.stderr
    assert "damaged" not in done.stderr and not list((store / "git").glob(".*"))


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare to mount a small disk")
def test_a_disk_that_is_full_while_a_clone_is_made(ours: Project, tmp_path: Path) -> None:
    """A disk for so many files that each of the last ones of `git init` is the one too many."""
    store = tmp_path / "disk"
    store.mkdir()
    path = wrapped(tmp_path / "bin", f'{GIT} "$@"; df --output=iused "{store}" | tail -1 > "$HOME/inodes"; exit')
    kz = f"'{sys.executable}' -m kz_build -C '{ours.root}' verify --json"
    script = f"""
    mount -t tmpfs t "$KZ_DISK" && cd '{ROOT}' || exit 77
    PATH='{path}' {kz} > "$HOME/wanted"
    for less in 1 4; do
        rm -rf "$KZ_DISK"/*
        mount -o remount,nr_inodes=$(($(cat "$HOME/inodes") - less)) "$KZ_DISK"
        {kz} > "$HOME/said" 2> "$HOME/errors"; echo $? $(tail -1 "$HOME/errors")
        mount -o remount,nr_inodes=100000 "$KZ_DISK"
        {kz} | cmp - "$HOME/wanted" && echo healed
        ls -A "$KZ_DISK/git" | grep -c .
    done
    """
    env = {**os.environ, "KZ_CACHE": str(store), "KZ_DISK": str(store), "HOME": str(tmp_path), "GIT_CONFIG_COUNT": "1"}
    env |= {"GIT_CONFIG_KEY_0": f"url.file://{ours.upstream.folder}.insteadOf", "GIT_CONFIG_VALUE_0": "https://github.com/up/stream"}  # fmt: skip
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=env, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("this kernel mounts no tmpfs in a namespace")
    assert done.stdout.splitlines() == ["6 kz: exit 6 (missing)", "healed", "1"] * 2, done.stdout + done.stderr


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def as_git_leaves_it(path: Path) -> None:
    path.write_text("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes().partition(b"\tpromisor")[0])


def all_gone(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


DAMAGED: dict[str, Callable[[Path], object]] = {
    "no-head": lambda p: (p / "HEAD").unlink(),
    "empty-head": lambda p: emptied(p / "HEAD"),
    "no-config": lambda p: (p / "config").unlink(),
    "empty-config": lambda p: emptied(p / "config"),
    "no-remote": lambda p: as_git_leaves_it(p / "config"),
    "no-promisor": lambda p: cut(p / "config"),
    "not-a-config": lambda p: (p / "config").write_bytes(b"\0\0\0"),
    "no-refs": lambda p: shutil.rmtree(p / "refs"),
    "cut-packed-refs": lambda p: (p / "packed-refs").write_bytes(b"# pack-refs with: peeled \n78bc86a62f"),
    "zeroed-packed-refs": lambda p: (p / "packed-refs").write_bytes(b"\0" * 200),
    "no-objects": lambda p: shutil.rmtree(p / "objects"),
    "an-empty-folder": all_gone,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_clone_is_repaired_and_that_is_said(tmp_path: Path, damage: str) -> None:
    upstream, said = started(tmp_path), list[str]()
    path = brought(tmp_path / "store", upstream, lambda event: said.append(event.text))
    DAMAGED[damage](path)
    for _ in range(2):
        brought(tmp_path / "store", upstream, lambda event: said.append(event.text))
    names(tmp_path / "store", upstream)
    assert sh("git", "cat-file", "-p", "v1:a.txt", cwd=path) == text().strip()
    assert len([text for text in said if text.startswith(f"git/{path.name} in the store was damaged (")]) == 1, said


def test_verify_says_so_once_and_gives_the_same(ours: Project, tmp_path: Path) -> None:
    """As an older kz left a clone that was killed in the making."""
    wanted = ours.kz("verify", "--json").stdout
    path = clone(tmp_path / "store")
    as_git_leaves_it(path / "config")
    done = ours.kz("verify", "--json")
    assert (done.returncode, done.stdout) == (0, wanted), done.stderr
    assert f"git/{path.name} in the store was damaged (config) and has been repaired\n" in done.stderr
    again = ours.kz("verify", "--json")
    assert (again.returncode, again.stdout, again.stderr) == (0, wanted, "")


def test_store_verify_names_a_clone_without_objects(ours: Project, tmp_path: Path) -> None:
    path = clone(tmp_path / "store")
    shutil.rmtree(path / "objects")
    done = ours.kz("store", "verify")
    assert done.returncode == 3 and f"git/{path.name}" in done.stdout and "has no folder objects" in done.stdout


def test_a_git_that_is_killed_proves_no_damage(ours: Project, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "store" / "seals", ignore_errors=True)
    done = ours.kz("store", "verify", PATH=wrapped(tmp_path / "bin", "kill -9 $$", "verify-pack"))
    assert done.returncode == 5 and "verify-pack" in done.stderr and "killed by signal 9" in done.stderr, done.stderr
    assert "rm -rf" not in done.stderr
    assert ours.kz("store", "verify").returncode == 0


def test_a_merge_that_is_killed_is_no_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert blobs.merge_file(b"a\n", b"b\n", b"c\n") is None
    monkeypatch.setenv("PATH", wrapped(tmp_path / "bin", "kill -9 $$", "merge-file"))
    with pytest.raises(CommandError, match="killed by signal 9"):
        blobs.merge_file(b"a\n", b"b\n", b"b\n")


def test_a_tag_that_names_no_object_is_a_damaged_store(ours: Project, tmp_path: Path) -> None:
    """As a disk that decays leaves it: git reads the file, and the commit that it names is nowhere."""
    ours.kz("verify", "--onto", "v1")
    path = clone(tmp_path / "store")
    commit = ours.upstream.git("rev-parse", "v1").strip()
    packed = (path / "packed-refs").read_text()
    assert commit in packed
    (path / "packed-refs").write_text(packed.replace(commit, "0123456789" * 4))
    done = ours.kz("store", "verify")
    assert done.returncode == 3 and f"git/{path.name}" in done.stdout and "missing object" in done.stdout
    done = ours.kz("verify", "--onto", "v9")
    assert done.returncode == 5 and "-> kz store verify" in done.stderr, done.stdout + done.stderr


def test_an_object_with_other_content_is_not_read_as_the_one_it_is_named_after(ours: Project, tmp_path: Path) -> None:
    """Git's `cat-file` does not compare: without our own look the patch would be blamed for lines that upstream has."""
    path = clone(tmp_path / "store")
    blob = ours.upstream.git("rev-parse", "v1:a.txt").strip()
    for pack in path.glob("objects/pack/pack-*.pack"):
        subprocess.run(
            ["git", "unpack-objects", "-q"], cwd=path, input=pack.rename(tmp_path / "pack").read_bytes(), check=True
        )
    loose = path / "objects" / blob[:2] / blob[2:]
    loose.unlink(missing_ok=True)
    loose.write_bytes(zlib.compress(b"blob 5\0evil\n"))
    shutil.rmtree(tmp_path / "store/verdicts", ignore_errors=True)
    done = ours.kz("verify")
    assert done.returncode == 3 and f"git/{path.name} was changed or damaged" in done.stderr, done.stdout + done.stderr
    assert f"blob {blob} has other content" in done.stderr and f"rm -rf {path}" in done.stderr


def test_damaged_contents_are_made_again(tmp_path: Path) -> None:
    wanted = contents(tmp_path, None)
    for name in ("objects", "config"):
        path = tmp_path / "git/contents.git" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert contents(tmp_path, None) == wanted


def test_commits_of_an_edit_survive_the_repair(ours: Project, tmp_path: Path) -> None:
    tree = edited(ours)
    (tree / "a.txt").write_text(put(OURS, 1, "more"))
    person(tree, "commit", "-q", "--amend", "-a", "--no-edit")
    assert "damaged" not in ours.kz("verify").stderr
    for name in ("HEAD", "config"):
        (clone(tmp_path / "store") / name).unlink()
    assert "(HEAD, config) and has been repaired" in ours.kz("verify").stderr
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    assert "+more" in (ours.root / "patches/l/up/0001-first.patch").read_text()


@pytest.mark.parametrize("word", ["update-ref", "reset"])
def test_a_worktree_that_was_killed_in_the_making_is_made_again(ours: Project, tmp_path: Path, word: str) -> None:
    tree = ours.root / "out/edit/l/up/tree"
    done = ours.kz("edit", "up", PATH=wrapped(tmp_path / "bin", BEFORE, word), **ALONE)
    assert done.returncode == -signal.SIGKILL and tree.is_dir() and not (tree / "a.txt").exists()
    done = ours.kz("edit", "up")
    assert done.returncode == 0 and "l up: checked out in" in done.stdout, done.stderr
    assert (tree / "a.txt").read_text() == OURS and person(tree, "status", "--porcelain") == ""
    person(tree, "commit", "-q", "--amend", "-m", "mine")
    assert "l up: is in" in ours.kz("edit", "up").stdout and person(tree, "log", "-1", "--format=%s") == "mine"


def test_a_rebase_that_was_killed_as_it_laid_out_a_conflict_begins_again(ours: Project, tmp_path: Path) -> None:
    ours.upstream.commit("Theirs", {"a.txt": put(text(), 10, "theirs")})
    assert ours.kz("verify", "--fetch").returncode == 0
    argv = ("rebase", "--onto", "main")
    killed = ours.kz(*argv, PATH=wrapped(tmp_path / "bin", BEFORE, "reset"), **ALONE)
    assert killed.returncode == -signal.SIGKILL
    done = ours.kz(*argv)
    assert done.returncode == 4 and "conflict in a.txt" in done.stderr, done.stderr
    assert "<<<<<<<" in (ours.root / "out/rebase/l/up/tree/a.txt").read_text()


def test_what_is_being_made_is_left_alone(ours: Project, tmp_path: Path) -> None:
    name = clone(tmp_path / "store").name
    shutil.rmtree(tmp_path / "store/git")
    made = tmp_path / f"store/git/.{name}.new"
    made.mkdir(parents=True)
    other = contextlib.ExitStack()
    other.enter_context(locks.lock(tmp_path / "store", name))
    there: list[bool] = []

    def end() -> None:
        there.append(made.exists())
        other.close()

    threading.Timer(3, end).start()
    done = ours.kz("verify", PYTHONUTF8="1")  # a new Python: a fork of this process would hold the lock, too
    assert done.returncode == 0, done.stderr
    assert there == [True] and not made.exists()


def brought(store: Path, upstream: Upstream, watch: Watch | None = None) -> Path:
    """A clone with the files of upstream's newest commit, as a submodule's is made."""
    commit, url = upstream.commits[-1], f"file://{upstream.folder}"
    repo = clones.fetch_commit(store, "up", url, commit, commit, history=False, watch=watch)
    clones.fill(store, repo, commit, (), None)
    missing = repo.git("rev-list", "--objects", "--missing=print", commit)
    assert repo.has(commit) and b"?" not in missing
    return repo.path


def shallow(store: Path, upstream: Upstream) -> None:
    brought(store, upstream)


def names(store: Path, upstream: Upstream) -> None:
    refs.fetch_names(clones.clone(store, "up", f"file://{upstream.folder}"))


def contents(store: Path, _: Upstream | None) -> TreeAt:
    return clones.import_files(store, "", {"file": Blob("100644", b"text")}, "a folder")


LOCKS: dict[str, tuple[str, Callable[[Path, Upstream], object]]] = {
    "shallow": ("up-*.git/shallow.lock", shallow),
    "tag": ("up-*.git/refs/tags/v2.lock", names),
    "import": ("contents.git/refs/kz/import.lock", contents),
}


@pytest.fixture
def locked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[], object]]:
    """(the lock file that a git which was killed has left, the work that it is in the way of)."""
    name, work = LOCKS[request.param]
    upstream, store = started(tmp_path), tmp_path / "store"
    brought(store, upstream)
    contents(store, upstream)
    folder, _, inner = name.partition("/")
    upstream.commit("Two", {"a.txt": text(30)}, tag="v2")
    lock = next((store / "git").glob(folder)) / inner
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock, lambda: work(store, upstream)


@pytest.mark.parametrize("locked", LOCKS, indirect=True)
def test_the_lock_file_of_a_dead_git_is_removed(
    locked: tuple[Path, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, work = locked
    monkeypatch.setattr(stale_locks, "QUIET", 0.2)
    work()
    assert not lock.exists()


@pytest.mark.parametrize("locked", ["import"], indirect=True)
@pytest.mark.parametrize("how", ["open", "written"])
def test_the_lock_file_of_a_live_git_is_not(
    locked: tuple[Path, Callable[[], object]], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    lock, work = locked
    monkeypatch.setattr(stale_locks, "QUIET", 0.5)
    writer = threading.Timer(0.3, lambda: lock.write_text("more"))
    with lock.open() as handle:
        if how == "written":
            handle.close()
            writer.start()
        with pytest.raises(CommandError, match=lock.name):
            work()
    assert lock.exists()


def test_a_server_cannot_name_a_file_to_be_removed(tmp_path: Path) -> None:
    (tmp_path / "other.lock").touch()
    said = f"remote: Unable to create '{tmp_path}/other.lock': File exists.\n".encode()
    (tmp_path / "clone.git").mkdir()
    stale_locks.retry_past_stale_locks(tmp_path / "clone.git", lambda: Output(1, b"", said))
    assert (tmp_path / "other.lock").exists()


def test_a_lock_of_another_git_that_goes_while_objects_are_listed_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    lock, scandir = tmp_path / "up.git/objects/multi-pack-index.lock", os.scandir

    @contextlib.contextmanager
    def while_another_git_works(path: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        lock.touch()
        with scandir(path) as entries:
            listed = list(entries)
        lock.unlink()
        yield iter(listed)

    monkeypatch.setattr(os, "scandir", while_another_git_works)
    integrity.prove_repository(tmp_path, tmp_path / "up.git")
