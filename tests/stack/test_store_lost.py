"""Worktrees whose store is deleted or collected: no commit that a person made is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_edit import git
from tests.stack.test_import_pr import branch
from tests.stack.test_rebase import CHECKS, OURS, resolve, worktree
from tests.stack.upstreams import Project, copied, project, put, started, text


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches on v1, with checks; at v3 upstream rewrote the line of the second. A folder that no patch touches."""
    upstream = started(tmp_path)
    upstream.commit("Add a folder", {"far/away.txt": "far\n"}, tag="v2")
    made = project(
        tmp_path, kz, upstream, [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})], checks=CHECKS, pin="v2"
    )
    upstream.commit("Rewrite b (#3)", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    return made


def lose_store(ours: Project) -> None:
    """Delete the cache, as its documentation allows."""
    shutil.rmtree(ours.root.parent / "store")


def own_objects(tree: Path) -> set[str]:
    """The ids of a worktree's own objects, without those that it borrows."""
    (tree / ".git/objects/info/alternates").unlink()
    return set(git(tree, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


def test_commits_of_an_edit_outlive_the_store(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    (tree / "b.txt").write_text(put(text(), 10, "ours", "and more"))
    git(tree, "commit", "-q", "--amend", "-a", "--no-edit")
    (tree / "other.txt").write_text("third\n")
    git(tree, "commit", "-q", "-a", "-m", "third")
    git(tree, "gc", "-q", "--prune=now")
    lose_store(ours)
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    stack = ours.root / "patches/l/up"
    assert (stack / "series").read_text() == "0001-first.patch\n0002-second.patch\n0003-third.patch\n"
    assert "+and more" in (stack / "0002-second.patch").read_text()
    assert ours.kz("apply").returncode == 0 and git(tree, "status", "--porcelain") == ""


def test_a_worktree_has_all_of_the_stack_of_its_own(ours: Project) -> None:
    """The patches' commits were in the store before: git would borrow them from there."""
    assert ours.kz("apply").returncode == 0 and ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    git(tree, "commit", "-q", "--allow-empty", "-m", "mine")
    base = ours.upstream.git("rev-parse", "v2")
    beyond = {row.split(" ")[0] for row in git(tree, "rev-list", "--objects", "HEAD", "--not", base).splitlines()}
    git(tree, "gc", "-q", "--prune=now")
    assert len(beyond) == 3 + 2 + 1 and beyond <= own_objects(tree), (
        "commits, trees, and the file that both patches make"
    )


@pytest.mark.parametrize("verb", ["rebase", "import-pr"])
def test_a_resolution_outlives_the_store(ours: Project, verb: str) -> None:
    branch(ours, 7, ("Use it", {"b.txt": put(text(), 10, "theirs", "used")}))
    assert ours.kz(verb, *(("--onto", "v3") if verb == "rebase" else ("7",))).returncode == 4
    if verb == "rebase":
        resolve(ours)
    else:
        (worktree(ours, verb) / "b.txt").write_text(put(text(), 10, "ours", "used"))
        git(worktree(ours, verb), "add", "b.txt")
    lose_store(ours)
    done = ours.kz(verb, "continue")
    assert done.returncode == 0, done.stderr
    written = "0002-second.patch" if verb == "rebase" else "0003-Use-it.patch"
    assert ("+ours" if verb == "rebase" else "+used") in (ours.root / "patches/l/up" / written).read_text()
    assert ours.kz("apply").returncode == 0


def test_how_a_conflict_was_resolved_is_known_without_the_store(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3", "--as", "m").returncode == 4
    resolve(ours)
    assert ours.kz("rebase", "continue").returncode == 0
    lose_store(ours)
    again = ours.kz("rebase", "--onto", "v3", "--as", "n")
    assert again.returncode == 4 and "Resolved 'b.txt' using previous resolution." in again.stderr


def test_a_worktree_never_has_the_whole_tree(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    assert (tree / "a.txt").exists() and not (tree / "far").exists()
    assert ours.upstream.git("rev-parse", "v2:far/away.txt") not in git(
        tree, "cat-file", "--batch-all-objects", "--batch-check"
    )
    mirror = f"url.file://{ours.upstream.folder}.insteadOf=https://github.com/up/stream"
    git(tree, "-c", mirror, "sparse-checkout", "add", "far")
    assert (tree / "far/away.txt").read_text() == "far\n" and git(tree, "status", "--porcelain") == ""


def test_gc_of_another_project_leaves_the_clone_of_a_worktree(ours: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", ours.upstream, ours.run)
    shutil.copytree(ours.root, other.root)
    (other.root / "pins.yaml").write_text("version: 1\ndefault: l\nsources: {}\nlines:\n  l: {}\ntargets: {}\n")
    (other.root / "pins.lock").unlink()
    clone = next((tmp_path / "store/git").glob("up-*.git"))
    assert ours.kz("edit", "up").returncode == 0
    listed = other.json("store", "list")
    assert any(f"worktree {worktree(ours, 'edit')}" in e["needed_by"] for e in listed)
    assert other.kz("store", "gc", "--older", "0", "--delete").returncode == 0 and clone.is_dir()
    assert ours.kz("edit", "abort", "up").returncode == 0
    assert other.kz("store", "gc", "--older", "0", "--delete").returncode == 0 and not clone.exists()


def test_a_store_that_moved_is_read_where_it_is_now(ours: Project, tmp_path: Path) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    (tree / "a.txt").write_text(put(text(), 10, "ours", "more"))
    git(tree, "commit", "-q", "-a", "-m", "third")
    (tmp_path / "store").rename(tmp_path / "moved")
    done = ours.kz("refresh", "up", KZ_CACHE=str(tmp_path / "moved"))
    assert done.returncode == 0 and "0003-third.patch" in done.stdout, done.stderr
    assert git(tree, "status", "--porcelain") == ""


def test_branches_of_a_worktree_are_work(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    git(tree, "checkout", "-q", "-b", "mine")
    git(tree, "commit", "-q", "--allow-empty", "-m", "mine")
    git(tree, "checkout", "-q", "--detach", "HEAD~1")
    (ours.root / "patches/l/up/series").write_text("# new\n0001-first.patch\n0002-second.patch\n")
    assert ours.kz("lock", "--write").returncode == 0
    assert "up: is in" in ours.kz("edit", "up").stdout
    assert git(tree, "log", "-1", "--format=%s", "mine") == "mine"
