"""kz queue: what waits for one's own branch, each alone and every two together, in real git."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Kz, snapshot
from tests.nightly.github_server import SLUG, GitHub, Thing, commit, make_github
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import Project, before, copied, project, put, started, text

__all__ = ["make_github"]
STACK = "patches/l/up"


@copied
def made(tmp_path: Path, kz: Kz) -> Project:
    """One patch on a.txt."""
    return project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": put(text(), 3, "ours")})])


class Own:
    """The project's own repository, with branches that wait to be merged."""

    def __init__(self, ours: Project) -> None:
        self.project, self.root = ours, ours.root

    def git(self, *words: str) -> str:
        return sh("git", *words, cwd=self.root)

    def branch(self, name: str, *, add: tuple[str, str] | None = None, lock: bool = True) -> None:
        """Begin a branch; with `add`, (subject, a.txt), as a further patch."""
        self.git("checkout", "-q", "-b", name, "main")
        if add:
            assert self.project.kz("edit", "up").returncode == 0
            tree = self.root / "out/edit/l/up/tree"
            (tree / "a.txt").write_text(add[1])
            commit(tree, add[0])
            assert self.project.kz("refresh", "up").returncode == 0
            if not lock:
                self.git("checkout", "-q", "main", "--", "pins.lock")
        commit(self.root, f"Branch {name}") if add else None
        self.git("checkout", "-q", "main")

    def change(self, name: str, old: str, new: str) -> None:
        """Commit a change of the first patch on a branch of its own, with the lock that it needs."""
        self.git("checkout", "-q", "-b", name, "main")
        patch = self.root / STACK / "0001-first.patch"
        assert old in patch.read_text()
        patch.write_text(patch.read_text().replace(old, new))
        assert self.project.kz("lock", "--write").returncode == 0
        commit(self.root, f"Branch {name}")
        self.git("checkout", "-q", "main")


def files(own: Own) -> dict[str, bytes | str]:
    """All of the project but git's own files."""
    return {name: data for name, data in snapshot(own.root).items() if not name.startswith(".git/")}


@pytest.fixture
def own(made: Project, make_github: Callable[[Path], GitHub]) -> Own:
    make_github(made.root)
    return Own(made)


def test_two_that_hold_alone_and_break_together_are_named(own: Own) -> None:
    """One adds a patch beside line 5, the other makes the first patch change that line's neighbour too."""
    ours = put(text(), 3, "ours")
    own.branch("beside", add=("beside", put(ours, 7, "beside")))
    own.change("wider", "+ours\n line 4\n", "+ours\n-line 4\n+wider\n")
    own.git("checkout", "-q", "-b", "docs", "main")
    (own.root / "README").write_text("x\n")
    commit(own.root, "Docs")
    own.git("checkout", "-q", "main")
    before = files(own), own.git("for-each-ref")

    done = own.project.kz("queue", "beside", "wider", "docs")
    assert done.returncode == 4, done.stdout + done.stderr
    rows = done.stdout.splitlines()
    assert rows[0].startswith("main ") and rows[0].endswith(": every patch holds")
    assert rows[1:5] == [
        "  holds       beside Branch beside", "  holds       wider Branch wider", "  change no pin and no stack: docs",
        "hold alone, and break together:",
    ]  # fmt: skip
    assert rows[5] == "  beside with wider" and "l up 0002-beside: " in rows[6]
    assert "kz: beside with wider would break a stack on main" in done.stderr
    assert (files(own), own.git("for-each-ref")) == before, "only objects that no ref names are new"

    found = own.project.json("queue", "beside", "docs")
    assert [one["relevant"] for one in found["queued"]] == [True, False] and found["pairs"] == []


def test_what_breaks_alone_says_why_and_is_in_no_pair(own: Own) -> None:
    ours = put(text(), 3, "ours")
    own.change("other", "+ours\n", "+other\n")
    own.branch("unlocked", add=("late", put(ours, 15, "late")), lock=False)
    own.git("checkout", "-q", "-b", "broken", "main")
    series = own.root / STACK / "series"
    series.write_text(series.read_text() + "0002-nowhere.patch\n")
    commit(own.root, "Broken")
    own.git("checkout", "-q", "main")
    own.change("moved-on", "+ours\n", "+main has another now\n")
    own.git("merge", "-q", "--ff-only", "moved-on")

    for name, gone in (("no-series", ["series", "*.patch"]), ("no-folder", ["*"])):
        own.git("checkout", "-q", "-b", name, "moved-on")
        own.git("rm", "-q", *(f"{STACK}/{one}" for one in gone))
        commit(own.root, "Remove the stack")
        own.git("checkout", "-q", "main")

    found = own.project.json("queue", "other", "unlocked", "broken", "no-series", "no-folder", code=4)
    other, unlocked, broken, *removed = (one["problems"] for one in found["queued"])
    assert [len(one) for one in removed] == [1, 1] and all(
        "up of l has no stack, pins.lock says" in one[0] for one in removed
    )
    assert other == [f"conflict in {STACK}/0001-first.patch"]
    assert len(unlocked) == 1 and "with its stack has tree" in unlocked[0]
    assert len(broken) == 1 and "0002-nowhere.patch" in broken[0]
    assert found["problems"] == [] and found["pairs"] == []


@pytest.mark.parametrize("words", ["merge-tree", "rev-parse --verify", "rev-parse --absolute-git-dir"])
def test_a_git_that_was_killed_breaks_no_stack(own: Own, tmp_path: Path, words: str) -> None:
    own.change("topic", "+ours\n", "+topic\n")
    (tmp_path / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *"{words}"*) kill -9 $$;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (tmp_path / "git").chmod(0o755)
    done = own.project.kz("queue", "topic", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode in (5, 6) and "killed by signal 9" in done.stdout + done.stderr, done
    assert "breaks" not in done.stdout and "is no branch" not in done.stderr


def test_two_that_cannot_be_judged_together_do_not_stop_the_others(own: Own, tmp_path: Path) -> None:
    ours = put(text(), 3, "ours")
    for number, name in enumerate(("one", "two", "three")):
        own.branch(name, add=(name, put(ours, 9 + 4 * number, name)))
    killed = f"*merge-tree*{own.git('rev-parse', 'main').strip()}*) ;; *merge-tree*{own.git('rev-parse', 'two').strip()}*) kill -9 $$"
    (tmp_path / "git").write_text(f'#!/bin/sh\ncase "$*" in {killed};; esac\nexec {shutil.which("git")} "$@"\n')
    (tmp_path / "git").chmod(0o755)
    done = own.project.kz("queue", "one", "two", "three", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 4 and "kz: one with three, two with three would break" in done.stderr, done.stdout
    assert "not judged together:\n  one with two\n      " in done.stdout and "killed by signal 9" in done.stdout


def test_the_open_pull_requests_are_githubs(made: Project, make_github: Callable[[Path], GitHub]) -> None:
    github = make_github(made.root)
    own = Own(made)
    own.change("topic", "+ours\n", "+topic\n")
    own.git("push", "-q", str(github.bare), "topic", "topic:refs/pull/1/head")
    own.git("branch", "-q", "-D", "topic")
    own.git("reflog", "expire", "--expire=now", "--all")
    own.git("prune", "--expire=now")
    own.git("remote", "add", "origin", str(github.bare))
    github.things.append(Thing(1, "A topic", "", head="topic"))
    env = {"GITHUB_API_URL": github.url, "NO_PROXY": "*", "GITHUB_REPOSITORY": SLUG}
    done = made.kz("queue", GITHUB_STEP_SUMMARY=str(made.root.parent / "summary.md"), **env)
    assert done.returncode == 0 and "\n  holds       #1 A topic\n" in done.stdout, done.stdout + done.stderr
    assert "holds       #1 A topic" in (made.root.parent / "summary.md").read_text()
    assert "refs/pull" not in own.git("for-each-ref") and "promisor" not in own.git("config", "--list")


def test_one_that_has_no_history_with_the_branch_does_not_stop_the_others(own: Own) -> None:
    """As in a clone with one commit, or by a mistake."""
    own.change("topic", "+ours\n", "+topic\n")
    own.git("checkout", "-q", "--orphan", "alone")
    commit(own.root, "Alone")
    own.git("checkout", "-q", "main")
    found = own.project.json("queue", "alone", "topic", code=4)
    alone, topic = found["queued"]
    assert "no merge base" in alone["problems"][0] and topic["problems"] == []
    (own.root / ".git/shallow").write_text(own.git("rev-parse", "topic"))
    done = own.project.kz("queue", "topic")
    assert done.returncode == 2 and "this clone is shallow" in done.stderr and "fetch-depth: 0" in done.stderr


def test_a_conflict_in_the_lock_alone_is_none(own: Own) -> None:
    """One moves the pin, the other changes the stack: each entry of the lock is right on one side, and no side has all of them."""
    own.project.upstream.commit("Grow", {"b.txt": before(text(), 1, "grown")}, tag="v2")
    own.git("checkout", "-q", "-b", "move", "main")
    assert own.project.kz("rebase", "--line", "l", "--source", "up", "--onto", "v2").returncode == 0
    commit(own.root, "Move")
    own.git("checkout", "-q", "-b", "checks", "main")
    (own.root / STACK / "checks.yaml").write_text("first:\n  - absent: {file: a.txt, text: nowhere}\n")
    commit(own.root, "Checks")
    own.git("checkout", "-q", "main")
    own.change("stack", "+ours\n", "+other\n")
    for names in (("move", "stack", "checks"), ("stack", "checks", "move")):
        found = own.project.json("queue", *names)
        assert found["pairs"] == [] and not any(one["problems"] for one in found["queued"])
    own.git("merge", "-q", "--ff-only", "move")
    found = own.project.json("queue", "stack", "checks")
    assert found["pairs"] == [] and not any(one["problems"] for one in found["queued"])


def test_a_conflict_of_folders_alone_is_one(own: Own) -> None:
    """Git names no file of it: half of a folder went elsewhere on one side, and on the other it has a new file."""
    notes = own.root / "patches/notes"
    for folder in (notes, notes.with_name("a"), notes.with_name("b")):
        folder.mkdir()
    for number in range(4):
        (notes / str(number)).write_text(f"note {number}\n" * 9)
    commit(own.root, "Notes")
    own.git("checkout", "-q", "-b", "split", "main")
    own.git("mv", "patches/notes/0", "patches/notes/1", "patches/a")
    own.git("mv", "patches/notes/2", "patches/notes/3", "patches/b")
    commit(own.root, "Split")
    own.git("checkout", "-q", "main")
    notes.mkdir(exist_ok=True)
    (notes / "more").write_text("more\n")
    commit(own.root, "More")
    (split,) = own.project.json("queue", "split", code=4)["queued"]
    assert split["problems"] == ["conflict in folders that one side has split"]


def test_a_git_that_fails_breaks_no_stack(own: Own, tmp_path: Path) -> None:
    """A partial clone lacks files of what waits, for kz's git asks no server for them."""
    own.change("topic", "+ours\n", "+topic\n")
    own.git("config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    sh("git", "clone", "-q", "--filter=blob:none", f"file://{own.root}", str(partial), cwd=tmp_path)
    done = replace(own.project, root=partial).kz("queue", "origin/topic")
    assert done.returncode == 6 and "  not judged  origin/topic Branch topic\n" in done.stdout, (
        done.stdout + done.stderr
    )
    assert "promisor remote" in done.stdout and "would break" not in done.stderr


def test_what_a_branch_links_to_outside_is_not_read_and_a_removed_lock_stops_nobody(own: Own) -> None:
    """A series' lines are in messages, so that a link to /proc/self/environ would print the job's secrets."""
    own.change("topic", "+ours\n", "+topic\n")
    own.git("checkout", "-q", "-b", "curious", "main")
    series = own.root / STACK / "series"
    series.unlink()
    series.symlink_to("/proc/self/environ")
    commit(own.root, "Curious")
    own.git("checkout", "-q", "-b", "unlocked", "main")
    (own.root / "pins.lock").unlink()
    commit(own.root, "Unlocked")
    own.git("checkout", "-q", "main")
    own.change("moved-on", "+ours\n line 4\n", "+ours\n-line 4\n+four\n")
    own.git("merge", "-q", "--ff-only", "moved-on")
    done = own.project.kz("queue", "curious", "unlocked", "topic")
    assert done.returncode == 4 and "PATH=" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "  breaks      unlocked Unlocked\n      conflict in pins.lock\n" in done.stdout


def test_an_upstream_that_does_not_answer_is_no_verdict(own: Own) -> None:
    """Neither that all holds, because the branch fails in the same way, nor that a pull request breaks something."""
    own.change("topic", "+ours\n", "+topic\n")
    pins = own.root / "pins.yaml"
    own.git("checkout", "-q", "-b", "far", "main")
    pins.write_text(pins.read_text().replace("https://github.com/up/stream", "http://127.0.0.1:9/up"))
    commit(own.root, "Far")
    own.git("checkout", "-q", "main")
    done = own.project.kz("queue", "far", "topic")
    assert done.returncode == 6 and "  holds       topic Branch topic\n" in done.stdout, done.stdout + done.stderr
    assert "  not judged  far Far\n" in done.stdout and "port 9" in done.stdout
    assert [bool(one["unknown"]) for one in own.project.json("queue", "far", "topic", code=6)["queued"]] == [
        True,
        False,
    ]
    own.git("merge", "-q", "--ff-only", "far")
    done = own.project.kz("queue", "topic")
    assert done.returncode == 6 and not done.stdout, done.stdout


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("nowhere",), "'nowhere' is no branch or commit"),
        (("^main",), "'^main' is no"),
        (("--", "-x"), "'-x' is no"),
        ((), "not a repository on GitHub"),
    ],
)
def test_what_cannot_be_judged(own: Own, argv: tuple[str, ...], reason: str) -> None:
    done = own.project.kz("queue", *argv)
    assert done.returncode == 2 and reason in done.stderr, done.stderr
