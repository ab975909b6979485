"""Upstream's names: a fetch of them that was killed is begun again, and never taken for all there are."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.kz import ALONE
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import Project, copied, project, put, started, text

TAGS = ("verify", "--tags", "v*", "--json")


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """A patch that holds on v1 and conflicts on v2; the store is empty."""
    made = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    made.upstream.commit("Rewrite a", {"a.txt": put(text(), 10, "theirs")}, tag="v2")
    shutil.rmtree(tmp_path / "store")
    return made


def with_git(ours: Project, script: str) -> str:
    """A PATH with a git that begins with a script."""
    program = ours.root.parent / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nGIT={shutil.which("git")}\n{script}\nexec $GIT "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_a_clone_that_came_through_its_tag_is_asked_for_the_others(ours: Project) -> None:
    """As from a server that gives no commit by its id."""
    no_ids = 'case "$*" in *" fetch "*[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]) exit 128;; esac'
    done = ours.kz(*TAGS, PATH=with_git(ours, no_ids))
    assert done.returncode == 4 and '"v2"' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("whom", ["kz", "git"])
def test_tags_of_a_fetch_that_was_killed_are_not_taken_for_all(ours: Project, whom: str) -> None:
    """Git writes the names one after the other: here it is killed after the first."""
    kill = "kill -9 $$" if whom == "git" else "kill -9 $PPID; exit 1"
    one = '$GIT "$1" fetch -q --no-tags origin refs/tags/v1:refs/tags/v1'
    script = f'case "$*" in *" fetch "*--stdin*) case "$(cat)" in *refs/tags*) {one}; {kill};; esac;; esac'
    killed = ours.kz(*TAGS, PATH=with_git(ours, script), **ALONE)
    assert killed.returncode == (5 if whom == "git" else -signal.SIGKILL), killed.stderr
    done = ours.kz(*TAGS)
    assert done.returncode == 4 and '"v2"' in done.stdout, done.stdout + done.stderr
    assert ours.kz(*TAGS, GIT_CONFIG_COUNT="0").returncode == 4, "all names are here: nobody is asked"


def test_a_fetch_of_names_that_fails_by_itself_leaves_those_that_were_there(ours: Project) -> None:
    assert ours.kz(*TAGS).returncode == 4
    assert ours.kz(*TAGS, "--fetch", GIT_CONFIG_COUNT="0", GIT_ALLOW_PROTOCOL="none").returncode in (5, 6)
    assert ours.kz(*TAGS, GIT_CONFIG_COUNT="0", GIT_ALLOW_PROTOCOL="none").returncode == 4, "nobody is asked"


def test_a_pattern_names_no_revision(ours: Project) -> None:
    """Git fetches every branch for it, and then none has that name: nothing would be judged."""
    done = ours.kz("verify", "--onto", "*")
    assert done.returncode == 2 and "no tag, branch or commit '*'" in done.stderr, done.stderr


def test_a_branch_whose_fetch_was_killed_is_not_said_to_be_missing(ours: Project) -> None:
    script = 'case "$*" in *" fetch "*--stdin*) case "$(cat)" in *heads/theirs*) kill -9 $$;; *) exit 0;; esac;; esac'
    assert ours.kz(*TAGS).returncode == 4
    done = ours.kz("verify", "--onto", "theirs", PATH=with_git(ours, script))
    assert done.returncode == 5 and "killed by signal 9" in done.stderr, done.stderr


def test_lines_that_share_an_upstream_ask_it_once(ours: Project) -> None:
    pins, asked = ours.root / "pins.yaml", ours.root.parent / "asked"
    pins.write_text(pins.read_text().replace("lines:\n", "lines:\n  other: {up: v1}\n"))
    shutil.copytree(ours.root / "patches/l", ours.root / "patches/other")
    assert ours.kz("lock", "--write").returncode == 0
    count = f'case "$*" in *" ls-remote "*) echo >> {asked};; esac'
    done = ours.kz("verify", "--all-lines", "--fetch", PATH=with_git(ours, count))
    assert done.returncode == 0 and done.stdout.count("first") == 2, done.stdout + done.stderr
    assert asked.read_text() == "\n"
