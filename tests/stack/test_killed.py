"""kz edit, refresh, rebase, import-pr and upstream, killed between two steps: the same command again ends as if nothing had been."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.conftest import Kz, snapshot
from tests.deadline import until
from tests.kz import ALONE
from tests.stack.test_edit import git
from tests.stack.test_git_tools import sh
from tests.stack.test_import_pr import branch
from tests.stack.test_rebase import CHECKS, OURS, kept, resolve, worktree
from tests.stack.upstreams import Project, before, copied, project, put, started, text

CREATED, BORROWED, CHECKED_OUT = ("init --quiet", "pack-objects", "reset --quiet --hard")
"""What kz asks of git to make a worktree, in this order."""


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches on v1, with checks; at v3 upstream rewrote the line of the second. `big` is large on a disk, not in a pack."""
    upstream = started(tmp_path)
    upstream.commit("Add a big file", {"big": "0" * 100_000}, tag="big")
    made = project(
        tmp_path,
        kz,
        upstream,
        [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})],
        checks=CHECKS,
        pin="big",
    )
    upstream.commit("Rewrite b (#3)", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    return made


def left(ours: Project, verb: str) -> dict[str, bytes | str]:
    """What a verb has put before its user; the name that git has for the worktree may be another."""
    return {n: data for n, data in snapshot(ours.root / "out" / verb).items() if "tree/.git/" not in n}


def killed(ours: Project, at: str, verb: str, *words: str, then: str = "") -> None:
    """Run a verb that SIGKILL ends when git has done what it was asked `at`, or did `then` in its place."""
    asked = then or f'{shutil.which("git")} "$@"'
    path = first_of_all(ours, f'case "$*" in *"{at}"*) {asked}; kill -9 $PPID; exit 1;; esac')
    assert ours.kz(verb, *words, PATH=path, **ALONE).returncode == -9, f"{at} was never asked for"


def first_of_all(ours: Project, script: str) -> str:
    """A PATH with a git that begins with a script."""
    program = ours.root.parent / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """A disk that has no room for a larger file."""
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, was[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)


def refused(ours: Project) -> None:
    """`kz refresh` finds no edit, says what to do, and changes nothing."""
    was = kept(ours)
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "the last kz edit did not finish" in done.stderr, done.stderr
    assert "kz edit up --line l starts it again" in done.stderr and kept(ours) == was


def edited_again(ours: Project, undisturbed: dict[str, bytes | str]) -> None:
    """`kz edit` begins anew and says so; all is there, the checks too, and a refresh has nothing to change."""
    was = kept(ours)
    done = ours.kz("edit", "up")
    assert done.returncode == 0 and "did not finish: this one starts again" in done.stdout, done.stderr
    assert left(ours, "edit") == undisturbed and not git(worktree(ours, "edit"), "status", "--porcelain")
    again = ours.kz("refresh", "up")
    assert again.returncode == 0 and "nothing changed" in again.stdout and kept(ours) == was, again.stderr


def test_an_edit_that_is_killed_anywhere_is_no_edit(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    undisturbed = left(ours, "edit")
    for at in (CREATED, BORROWED, CHECKED_OUT):
        assert ours.kz("edit", "abort", "up").returncode == 0
        killed(ours, at, "edit", "up")
        refused(ours)
        edited_again(ours, undisturbed)


def test_git_killed_with_kz_leaves_nothing_that_stops_the_next(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    killed(ours, "commit --quiet -C", "rebase", "continue", then="touch .git/index.lock")
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert "+ours" in (ours.root / "patches/l/up/0002-second.patch").read_text()


def test_a_conflict_that_nobody_resolved_is_not_remembered(ours: Project) -> None:
    killed(ours, "cherry-pick --allow-empty", "rebase", "--onto", "v3")
    for words in (("--onto", "v3"), ("abort",), ("--onto", "v3")):
        ours.kz("rebase", *words)
    assert [path.name for path in (ours.root / "out" / "rerere").rglob("*image*")] == ["preimage"]
    resolve(ours)
    assert ours.kz("rebase", "continue").returncode == 0
    ours.kz("edit", "up")
    names = sorted(path.name for path in (ours.root / "out" / "rerere").rglob("p*image*"))
    assert names == ["postimage", "preimage"]


def test_what_a_killed_git_left_in_a_worktree_goes_with_the_stores_refuse(ours: Project) -> None:
    """A person's git may be writing the new one."""
    assert ours.kz("edit", "up").returncode == 0
    objects = worktree(ours, "edit") / ".git" / "objects"
    old, new = objects / "pack" / "tmp_pack_old", objects / "pack" / "tmp_pack_new"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    assert ours.kz("store", "gc", "--delete").returncode == 0
    assert new.exists() and not old.exists()
    assert ours.kz("refresh", "up").returncode == 0


def test_looking_into_a_worktree_takes_no_lock(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    (tree / "b.txt").write_text("not committed")
    os.utime(tree / "a.txt", (1, 1))  # git would write that down
    index = (tree / ".git" / "index").read_bytes()
    assert "not committed" in ours.kz("refresh", "up").stderr
    assert (tree / ".git" / "index").read_bytes() == index


def test_a_rebase_waits_for_a_lock_that_is_being_written(ours: Project, kz_process: Kz) -> None:
    """Else what the rebase writes into the lock is lost."""
    ours.upstream.git("tag", "v5", "big")
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("  l: {up: big}\n", "  l: {up: big}\n  other: {up: v1}\n"))
    begun, ended = ours.root.parent / "begun", ours.root.parent / "ended"
    path = first_of_all(
        ours, f'case "$*" in *ls-remote*) touch {begun}; until [ -e {ended} ]; do sleep 0.05; done;; esac'
    )
    ours.run = kz_process
    with ThreadPoolExecutor() as pool:
        lock = pool.submit(ours.kz, "lock", "--write", PATH=path)
        until(begun.exists)
        rebase = pool.submit(ours.kz, "rebase", "--onto", "v5")
        wait([rebase], timeout=1.5)
        ended.touch()
        assert lock.result().returncode == 0, lock.result().stderr
        assert rebase.result().returncode == 0, rebase.result().stderr
    for line in ("l", "other"):
        done = ours.kz("fetch", "--line", line)
        assert done.returncode == 0, done.stderr


def test_git_killed_before_it_finds_the_conflict_is_no_conflict(ours: Project) -> None:
    path = first_of_all(ours, 'case "$*" in cherry-pick*) kill -9 $$;; esac')
    done = ours.kz("rebase", "--onto", "v3", PATH=path)
    assert done.returncode == 5 and "cherry-pick" in done.stderr and "killed by signal 9" in done.stderr
    done = ours.kz("rebase", "--onto", "v3")
    assert done.returncode == 4 and "conflict in b.txt" in done.stderr


def test_git_killed_when_it_had_committed_the_resolution_is_not_asked_again(ours: Project) -> None:
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    picked = git(worktree(ours), "rev-parse", "CHERRY_PICK_HEAD")
    killed(ours, "commit --quiet -C", "rebase", "continue")
    git(worktree(ours), "update-ref", "CHERRY_PICK_HEAD", picked)  # git removes it after the commit
    done = ours.kz("rebase", "continue")
    assert done.returncode == 0, done.stderr
    assert "+ours" in (ours.root / "patches/l/up/0002-second.patch").read_text()


def test_a_disk_without_room_leaves_no_edit(ours: Project) -> None:
    assert ours.kz("edit", "up").returncode == 0
    undisturbed = left(ours, "edit")
    assert ours.kz("edit", "abort", "up").returncode == 0
    path = first_of_all(ours, "trap '' XFSZ")  # a write that fails, as on a full disk, and no signal
    with files_up_to(50_000):
        done = ours.kz("edit", "up", PATH=path, **ALONE)
    assert done.returncode == 5 and "unable to write file big" in done.stderr, done.stderr
    refused(ours)
    edited_again(ours, undisturbed)


def test_work_in_an_edit_that_did_not_finish_is_not_thrown_away(ours: Project) -> None:
    killed(ours, CHECKED_OUT, "edit", "up")
    tree = worktree(ours, "edit")
    (tree / "a.txt").write_text("mine\n")
    done = ours.kz("edit", "up")
    assert done.returncode == 4 and "there is work in" in done.stderr and (tree / "a.txt").read_text() == "mine\n"
    git(tree, "commit", "-q", "-a", "-m", "mine")
    assert ours.kz("edit", "up").returncode == 4 and (tree / "a.txt").read_text() == "mine\n"
    shutil.rmtree(tree.parent)
    assert ours.kz("edit", "up").returncode == 0, "as its hint says"


def test_checks_that_are_gone_from_the_worktree_are_asked_for(ours: Project) -> None:
    was = kept(ours)
    assert ours.kz("edit", "up").returncode == 0
    checks = worktree(ours, "edit").parent / "checks.yaml"
    checks.unlink()
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "is gone" in done.stderr and kept(ours) == was
    copy = next(line for line in done.stderr.splitlines() if "to keep them: cp " in line)
    sh("sh", "-c", copy.partition("to keep them: ")[2].partition(". ")[0], cwd=ours.root)
    assert ours.kz("refresh", "up").returncode == 0 and kept(ours) == was
    checks.write_text("")
    assert ours.kz("refresh", "up").returncode == 0 and not (ours.root / "patches/l/up/checks.yaml").exists()
    assert ours.kz("refresh", "up").returncode == 0 and ours.kz("apply").returncode == 0


def test_a_refresh_that_is_killed_while_it_writes_knows_its_own_files_afterwards(ours: Project, tmp_path: Path) -> None:
    assert ours.kz("edit", "up").returncode == 0
    tree = worktree(ours, "edit")
    (tree / "b.txt").write_text(put(text(), 10, "ours", "and more"))
    git(tree, "commit", "-q", "--amend", "-a", "--no-edit")
    (tmp_path / "at_start.py").write_text(
        "import os\n"
        "real = os.replace\n"
        "def replace(src, dst, **k):\n"
        "    if str(dst).endswith('pins.lock'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "    real(src, dst, **k)\n"
        "os.replace = replace\n"
    )
    path = str(tmp_path / "at_start.py")
    assert ours.kz("refresh", "up", PYTHONSTARTUP=path).returncode == -9
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    assert "+and more" in (ours.root / "patches/l/up/0002-second.patch").read_text()
    assert ours.kz("apply").returncode == 0


def stopped(ours: Project, verb: str, *words: str) -> tuple[dict[str, bytes | str], str]:
    """What is there and what is said at a conflict."""
    done = ours.kz(verb, *words)
    assert done.returncode == 4, done.stderr
    return left(ours, verb), done.stderr.partition("kz: ")[2]  # after what was said of a fetch


@pytest.mark.parametrize("verb", ["rebase", "import-pr"])
def test_one_that_is_killed_on_its_way_to_a_conflict_begins_anew(ours: Project, verb: str) -> None:
    branch(ours, 7, ("Use it", {"b.txt": put(text(), 10, "theirs", "used")}))
    words = ("--onto", "v3") if verb == "rebase" else ("7",)
    undisturbed = stopped(ours, verb, *words)
    for at in (CREATED, CHECKED_OUT, "cherry-pick"):
        assert ours.kz(verb, "abort").returncode == 0
        killed(ours, at, verb, *words)
        done = ours.kz(verb, "continue")
        assert done.returncode == 2 and f"no {verb} is in progress" in done.stderr
        assert stopped(ours, verb, *words) == undisturbed


def test_checks_that_changed_after_a_killed_rebase_are_the_ones_that_count(ours: Project) -> None:
    killed(ours, "fast-import", "rebase", "--onto", "v3", then="true")
    checks = ours.root / "patches/l/up/checks.yaml"
    checks.write_text("# said since\n" + checks.read_text())
    assert ours.kz("lock", "--write").returncode == 0
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    assert ours.kz("rebase", "continue").returncode == 0
    assert checks.read_text().startswith("# said since\n")


def test_what_was_resolved_is_not_begun_anew(ours: Project) -> None:
    """Killed at its end, when a person has done their part: the rebase is still under way, and goes on."""
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    was = kept(ours)
    killed(ours, "range-diff", "rebase", "continue")
    assert kept(ours) == was
    done = ours.kz("rebase", "--onto", "v3")
    assert done.returncode == 2 and "is in progress" in done.stderr
    assert ours.kz("rebase", "continue").returncode == 0
    assert "+ours" in (ours.root / "patches/l/up/0002-second.patch").read_text()


@pytest.fixture
def unrecorded(tmp_path: Path) -> str:
    """A PYTHONSTARTUP with which kz is killed when its change is on record, and its first file is not written yet."""
    (tmp_path / "at_start.py").write_text(
        "import os\n"
        "real = os.replace\n"
        "def replace(src, dst, **k):\n"
        "    real(src, dst, **k)\n"
        "    if str(dst).endswith('.kz-commit'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "os.replace = replace\n"
    )
    return str(tmp_path / "at_start.py")


@pytest.mark.parametrize("line", ["l", "m"])
def test_a_rebase_that_is_killed_while_it_writes_is_done_whatever_is_said_next(
    ours: Project, line: str, unrecorded: str, tmp_path: Path
) -> None:
    start = ("--onto", "v3", *(("--as", "m") if line == "m" else ()))
    assert ours.kz("rebase", *start).returncode == 4
    resolve(ours)
    assert ours.kz("rebase", "continue", PYTHONSTARTUP=unrecorded).returncode == -9
    at_kill = tmp_path / "at_kill"
    shutil.copytree(ours.root, at_kill, symlinks=True)
    for step, code, said in (
        ("continue", 0, f"the rebase of up is done: {line} on v3 was written"),
        ("skip", 0, f"the rebase of up is done: {line} on v3 was written"),
        ("undo", 2, f"the rebase of up on {line} is done: patches/{line}/up, pins.yaml and pins.lock were written"),
        ("abort", 2, f"the rebase of up on {line} is done: patches/{line}/up, pins.yaml and pins.lock were written"),
        (start, 0, f"the rebase of up is done: {line} on v3 was written"),
    ):
        shutil.rmtree(ours.root)
        shutil.copytree(at_kill, ours.root, symlinks=True)
        done = ours.kz("rebase", *((step,) if isinstance(step, str) else step))
        assert done.returncode == code and said in done.stdout + done.stderr, (step, done.stdout, done.stderr)
        assert (
            ours.json("apply", "--line", line)
            and "+ours" in (ours.root / f"patches/{line}/up/0002-second.patch").read_text()
        )
        assert not (ours.root / "out/rebase/l/up").exists() and not list(ours.root.glob(".kz*"))
        assert ours.kz("rebase", "continue").returncode == 2


def test_an_import_that_is_killed_while_it_writes_is_done_and_not_had_already(ours: Project, unrecorded: str) -> None:
    branch(ours, 7, ("Use it", {"other.txt": "used\n"}))
    assert ours.kz("import-pr", "7", PYTHONSTARTUP=unrecorded).returncode == -9
    done = ours.kz("import-pr", "7")
    assert done.returncode == 0 and "the import-pr of up is done" in done.stdout, done.stderr
    assert (ours.root / "patches/l/up/0003-Use-it.patch").exists() and ours.kz("apply").returncode == 0
    again = ours.kz("import-pr", "7")
    assert again.returncode == 2 and "has #7 already" in again.stderr


def test_another_rebase_follows_one_that_was_killed_at_its_end(ours: Project, unrecorded: str) -> None:
    assert ours.kz("rebase", "--onto", "v3").returncode == 4
    resolve(ours)
    assert ours.kz("rebase", "continue", PYTHONSTARTUP=unrecorded).returncode == -9
    assert "nothing is in progress" in ours.kz("rebase", "status").stdout
    assert "up: v3" in (ours.root / "pins.yaml").read_text() and ours.kz("apply").returncode == 0
    ours.upstream.commit("Grow a", {"a.txt": before(text(), 1, "grown")}, tag="v4")
    assert ours.kz("rebase", "--onto", "v4").returncode == 0
    assert "up: v4" in (ours.root / "pins.yaml").read_text()


def test_a_rebase_that_is_killed_when_its_folder_is_gone_is_done(ours: Project, tmp_path: Path) -> None:
    (tmp_path / "at_start.py").write_text(
        "import os, shutil\n"
        "real = shutil.rmtree\n"
        "def rmtree(path, *a, **k):\n"
        "    real(path, *a, **k)\n"
        "    if str(path).endswith('out/rebase/l/up'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "shutil.rmtree = rmtree\n"
    )
    ours.upstream.commit("Only other", {"other.txt": "new\n", "b.txt": text()}, tag="v4")
    words = ("--onto", "v4", "--as", "m")
    assert ours.kz("rebase", *words, PYTHONSTARTUP=str(tmp_path / "at_start.py")).returncode == -9
    assert not (ours.root / "out/rebase/l/up").exists()
    done = ours.kz("rebase", *words)
    assert done.returncode == 0 and "the rebase of up is done: m on v4 was written" in done.stdout, done.stderr
    assert not list((ours.root / "out/rebase/l").iterdir())


def test_an_abort_that_is_killed_is_finished_by_the_next(ours: Project, tmp_path: Path) -> None:
    (tmp_path / "at_start.py").write_text(
        "import os, shutil\nshutil.rmtree = lambda *a, **k: os.kill(os.getpid(), 9)\n"
    )
    path = str(tmp_path / "at_start.py")
    was = kept(ours)
    for verb, words, abort in (("rebase", ("--onto", "v3"), ("abort",)), ("edit", ("up",), ("abort", "up"))):
        assert ours.kz(verb, *words).returncode in (0, 4)
        (worktree(ours, verb) / "a.txt").write_text("mine\n")
        assert ours.kz(verb, *abort, PYTHONSTARTUP=path).returncode == -9
        done = ours.kz(verb, *abort)
        assert done.returncode == 0 and f"{verb} of up on l is aborted: its worktree is deleted" in done.stdout
        assert kept(ours) == was and not (ours.root / "out" / verb / "l/up").exists()
        assert ours.kz(verb, *words).returncode in (0, 4)
        assert ours.kz(verb, *abort, PYTHONSTARTUP=path).returncode == -9
        assert ours.kz(verb, *words).returncode in (0, 4), "and one that begins is not in its way"


def test_a_skip_that_is_killed_drops_one_patch_only(ours: Project) -> None:
    ours.upstream.commit("Rewrite a too", {"a.txt": put(text(), 10, "theirs")}, tag="v4")
    assert ours.kz("rebase", "--onto", "v4").returncode == 4
    killed(ours, "cherry-pick --allow-empty", "rebase", "skip")
    done = ours.kz("rebase", "skip")
    assert done.returncode == 4 and "second: b.txt" in done.stderr, done.stdout
    resolve(ours)
    assert ours.kz("rebase", "continue").returncode == 0
    assert (ours.root / "patches/l/up/series").read_text() == "0001-second.patch\n"


def test_an_undo_that_is_killed_goes_back_one_answer_only(ours: Project) -> None:
    ours.upstream.commit("Rewrite a too", {"a.txt": put(text(), 10, "another")}, tag="v4")
    first = ours.kz("rebase", "--onto", "v4")
    assert ours.kz("rebase", "skip").returncode == 4
    (worktree(ours) / "b.txt").write_text(put(text(), 10, "wrong"))
    sh("git", "add", "b.txt", cwd=worktree(ours))
    assert "checks fail" in ours.kz("rebase", "continue").stderr
    killed(ours, "cherry-pick --allow-empty", "rebase", "undo")
    done = ours.kz("rebase", "undo")
    assert done.returncode == 4 and "second: b.txt" in done.stderr, done.stderr
    assert ours.kz("rebase", "undo").stderr == first.stderr.removeprefix("  up 1/5\n")


def test_a_worktree_of_upstream_that_was_not_finished_is_made_anew(ours: Project) -> None:
    killed(ours, BORROWED, "upstream", "1")
    done = ours.kz("upstream", "1")
    assert done.returncode == 0, done.stderr
    tree = worktree(ours, "upstream")
    assert sorted(p.name for p in tree.iterdir()) == [".git", "a.txt", "b.txt", "big", "other.txt"]
    assert git(tree, "status", "--porcelain") == "" and (tree / "a.txt").read_text() == OURS
