"""Verbs on sources and stacks, on a small upstream in real git."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import os
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults.world import Prepared, World, environment, remove
from tests.kz import kz_process
from tests.stack.test_import_pr import branch
from tests.stack.test_rebase import CHECKS, OURS, resolve, worktree
from tests.stack.upstreams import Project, before, project, put, started, text


def stacks(root: Path) -> tuple[World, Project]:
    """Two patches with checks on v1; at v2 a.txt moved, at v3 upstream rewrote a line of the second patch; two pull requests."""
    world = World(root, environment(root))
    for name in ("project", "store"):
        (world.state / name).rmdir()
    patches = [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})]
    made = project(world.state, kz_process(world.env), started(root), patches, checks=CHECKS)
    made.upstream.commit("Grow a (#2)", {"a.txt": before(text(), 1, "new", "lines")}, tag="v2")
    made.upstream.commit("Rewrite b (#3)", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    branch(made, 7, ("Another", {"other.txt": "another\n", "new.txt": "new\n"}))
    branch(made, 8, ("Use it", {"b.txt": put(text(), 10, "theirs", "used")}))
    return world, made


def ran(made: Project, verb: str, *argv: str, code: int = 0) -> None:
    """Run a verb that prepares the next."""
    done = made.kz(verb, *argv)
    if done.returncode != code:
        raise RuntimeError(f"{verb} {argv}: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def lock(root: Path) -> Iterator[Prepared]:
    """The pin has moved, and the lock follows."""
    world, _ = stacks(root)
    pins = world.project / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: v1", "up: v2"))
    yield world, ["lock", "--write"], str


@contextlib.contextmanager
def fetch(root: Path) -> Iterator[Prepared]:
    """An empty store, a git source and an archive from a web server."""
    world, made = stacks(root)
    with served(root / "www") as address:
        with zipfile.ZipFile(root / "www" / "box-1.zip", "w") as zipped:
            for number in range(5):
                zipped.writestr(zipfile.ZipInfo(f"box/{number}"), f"{number}\n" * 1000)
        pins = world.project / "pins.yaml"
        added = pins.read_text().replace(
            "sources:\n", f"sources:\n  box: {{archive: '{address}/box-{{version}}.zip', root: box}}\n"
        )
        pins.write_text(added.replace("up: v1}", "up: v1, box: '1'}").replace("sources: [up]", "sources: [up, box]"))
        ran(made, "lock", "--write", "--trust", "box")
        remove(world.state / "store")
        yield world, ["fetch"], str


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A web server's address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def apply(root: Path) -> Iterator[Prepared]:
    """An empty store."""
    world, _ = stacks(root)
    remove(world.state / "store")
    yield world, ["apply"], str


@contextlib.contextmanager
def edit(root: Path) -> Iterator[Prepared]:
    """No edit is open."""
    world, _ = stacks(root)
    yield world, ["edit", "up"], str


@contextlib.contextmanager
def refresh(root: Path) -> Iterator[Prepared]:
    """A commit was amended in an edit."""
    world, made = stacks(root)
    ran(made, "edit", "up")
    tree = worktree(made, "edit")
    (tree / "b.txt").write_text(put(text(), 10, "ours", "and more"))
    made.upstream.git("-C", str(tree), "-c", "user.name=Me", "-c", "user.email=me@example.org", "commit", "-q", "-a", "--amend", "--no-edit")  # fmt: skip
    yield world, ["refresh", "up"], str


@contextlib.contextmanager
def rebase(root: Path) -> Iterator[Prepared]:
    """All goes through."""
    world, _ = stacks(root)
    yield world, ["rebase", "--onto", "v2"], str


@contextlib.contextmanager
def rebase_conflict(root: Path) -> Iterator[Prepared]:
    """It stops at a conflict."""
    world, _ = stacks(root)
    yield world, ["rebase", "--onto", "v3"], str


@contextlib.contextmanager
def rebase_continue(root: Path) -> Iterator[Prepared]:
    """The conflict is resolved."""
    world, made = stacks(root)
    ran(made, "rebase", "--onto", "v3", code=4)
    resolve(made)
    yield world, ["rebase", "continue"], str


@contextlib.contextmanager
def rebase_skip(root: Path) -> Iterator[Prepared]:
    """The patch in conflict is left out."""
    world, made = stacks(root)
    ran(made, "rebase", "--onto", "v3", code=4)
    yield world, ["rebase", "skip"], str


@contextlib.contextmanager
def rebase_abort(root: Path) -> Iterator[Prepared]:
    """All is as before."""
    world, made = stacks(root)
    ran(made, "rebase", "--onto", "v3", code=4)
    yield world, ["rebase", "abort"], str


@contextlib.contextmanager
def import_pr(root: Path) -> Iterator[Prepared]:
    """All goes through."""
    world, _ = stacks(root)
    yield world, ["import-pr", "7"], str


@contextlib.contextmanager
def import_pr_conflict(root: Path) -> Iterator[Prepared]:
    """It stops at a conflict."""
    world, _ = stacks(root)
    yield world, ["import-pr", "8"], str


@contextlib.contextmanager
def import_pr_continue(root: Path) -> Iterator[Prepared]:
    """The conflict is resolved."""
    world, made = stacks(root)
    ran(made, "import-pr", "8", code=4)
    tree = worktree(made, "import-pr")
    (tree / "b.txt").write_text(put(text(), 10, "ours", "used"))
    made.upstream.git("-C", str(tree), "add", "b.txt")
    yield world, ["import-pr", "continue"], str


@contextlib.contextmanager
def store_gc(root: Path) -> Iterator[Prepared]:
    """A store with files, a folder, a repository and caches that no lock requires."""
    world, made = stacks(root)
    store = world.state / "store"
    for number in range(3):
        data = f"old {number}".encode()
        old = store / "sha256" / hashlib.sha256(data).hexdigest()
        old.parent.mkdir(exist_ok=True)
        old.write_bytes(data)
        for place in (
            store / "unpacked" / old.name / "deep" / "file",
            store / "verdicts" / f"v{number}",
            store / "partial" / old.name,
        ):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    made.upstream.git("clone", "-q", "--bare", str(made.upstream.folder), str(store / "git" / "old-0123456789ab.git"))
    for path in (*store.rglob("*"),):
        if not path.is_symlink():
            os.utime(path, (time.time() - 90 * 86400,) * 2)
    (store / ".gone-sha256-x").write_text("of a killed run")
    yield world, ["store", "gc", "--delete"], str
