"""Trees with names that git reads, but would leave out of a checkout in silence: refused wherever they are read."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError, StoppedError
from kz_build.git.repository import Repository
from tests.conftest import Kz
from tests.deadline import patient, until
from tests.stack.upstreams import Upstream, project, put, started, text

Entry = tuple[str, str, str]
"""(mode, name, id); a name with `/` in it needs no folder."""


def tree(upstream: Upstream, *entries: Entry) -> str:
    """Write a tree with these entries in this order; return its id."""
    raw = b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(oid) for mode, name, oid in entries)
    argv = ["git", "hash-object", "-w", "--literally", "-t", "tree", "--stdin"]
    return subprocess.run(argv, input=raw, cwd=upstream.folder, check=True, capture_output=True).stdout.decode().strip()


def within(upstream: Upstream, path: str, blob: str) -> Entry:
    """A path's first entry in a tree, with the trees below."""
    name, *below = path.split("/")
    return ("40000", name, tree(upstream, within(upstream, "/".join(below), blob))) if below else ("100644", name, blob)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a/./x", ".git/hooks/x", "a/.GIT/config", "..", "a/.git"])
def test_a_path_that_git_would_leave_out_in_silence_is_refused(tmp_path: Path, path: str) -> None:
    upstream = started(tmp_path)
    blob = upstream.git("rev-parse", "v1:a.txt").strip()
    good = [within(upstream, name, blob) for name in ("..a/b..", ".gitignore", "a.txt")]
    repository = Repository(upstream.folder / ".git")
    with pytest.raises(ConfigError, match="which git refuses"):
        repository.entries(tree(upstream, *good, within(upstream, path, blob)))
    repository.checkout(repository.entries(tree(upstream, *good)), tmp_path / "tree")
    assert sorted(p.name for p in (tmp_path / "tree").iterdir()) == ["..a", ".gitignore", "a.txt"]


def test_a_checkout_ends_with_its_git_when_another_thread_stops_it(tmp_path: Path) -> None:
    """After Ctrl-C in engine docker kz waited for the whole checkout: five seconds and more for 9,000 files."""
    upstream = started(tmp_path)
    started_file, stop = tmp_path / "started", threading.Event()
    upstream.git("config", "filter.slow.smudge", f"touch {started_file}; sleep 300 # {tmp_path}")
    attributes = upstream.folder / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* filter=slow\n")
    repository = Repository(upstream.folder / ".git")
    with ThreadPoolExecutor(1) as pool:
        checkout = pool.submit(repository.checkout, repository.entries("v1"), tmp_path / "tree", stop)
        until(lambda: started_file.exists() or checkout.done())
        stop.set()
        began = time.monotonic()
        with pytest.raises(StoppedError):
            checkout.result(patient(60))
    assert time.monotonic() - began < patient(2)
    mine = f"sleep 300 # {tmp_path}".encode()
    assert not [line for line in Path("/proc").glob("[0-9]*/cmdline") if mine in _read(line)]
    with pytest.raises(StoppedError):
        repository.checkout(repository.entries("v1"), tmp_path / "another", stop)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


ODD: dict[str, tuple[Sequence[str], str]] = {
    "a file twice": (("a.txt", "a.txt", "b.txt"), "'a.txt'"),
    "a file and a folder": (("a.txt", "b.txt", "a.txt/x"), "'a.txt'"),
    "a folder twice": (("a.txt", "b.txt", "d/x", "d/y"), "'d'"),
    "the folder above": (("../x", "a.txt", "b.txt"), "'..'"),
    "git's own folder": ((".git/hooks/x", "a.txt", "b.txt"), "'.git'"),
}


@pytest.mark.parametrize("name", ODD)
def test_lock_and_verify_refuse_names_that_no_checkout_can_have(tmp_path: Path, kz: Kz, name: str) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": put(text(), 10, "ours")})])
    paths, shown = ODD[name]
    blob = upstream.git("rev-parse", "v1:a.txt").strip()
    odd = tree(upstream, *(within(upstream, path, blob) for path in paths))
    upstream.git("update-ref", "refs/tags/v2", upstream.git("commit-tree", odd, "-m", "odd"))

    if "folder twice" not in name:  # verify reads the folders of the patches' files
        done = ours.kz("verify", "--onto", "v2", "--fetch")
        assert done.returncode == 2 and shown in done.stderr, done.stdout + done.stderr
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: v1", "up: v2"))
    lock = (ours.root / "pins.lock").read_bytes()
    for _ in range(2):  # the second time the commit is in the store
        done = ours.kz("lock", "--write")
        assert done.returncode == 2 and shown in done.stderr, done.stdout + done.stderr
    assert (ours.root / "pins.lock").read_bytes() == lock
