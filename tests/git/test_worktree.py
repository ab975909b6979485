"""What a worktree says of its files: by their real names, and never from a git that failed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kz_build.core.errors import CommandError
from kz_build.git.repository import Repository
from kz_build.git.worktree import Worktree
from tests.stack.test_git_tools import sh

LATIN1 = os.fsdecode(b"caf\xe9.txt")
MARKERS = b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"


@pytest.fixture
def tree(tmp_path: Path) -> Worktree:
    sh("git", "init", "-q", str(tmp_path), cwd=tmp_path)
    (tmp_path / "long-name.txt").write_text("a line\n" * 20)
    sh("git", "add", ".", cwd=tmp_path)
    sh("git", "commit", "-q", "-m", "first", cwd=tmp_path)
    return Worktree(Repository(tmp_path / ".git"))


def test_a_renamed_file_is_dirty_by_both_of_its_names(tree: Worktree) -> None:
    sh("git", "mv", "long-name.txt", "b.txt", cwd=tree.path)
    assert set(tree.dirty()) == {"long-name.txt", "b.txt"}


def test_markers_are_found_in_a_file_whose_name_is_not_utf_8(tree: Worktree) -> None:
    (tree.path / LATIN1).write_bytes(MARKERS)
    sh("git", "add", ".", cwd=tree.path)
    assert tree.marked() == (LATIN1,) == tree.dirty()


def test_a_git_that_cannot_read_a_staged_file_does_not_say_that_it_has_no_markers(
    tree: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.path / "c.txt").write_bytes(MARKERS)
    sh("git", "add", ".", cwd=tree.path)
    program = tmp_path / ".git" / "git"
    fail = 'case "$1" in grep) echo "fatal: out of memory" >&2; exit 128;; esac'
    program.write_text(f'#!/bin/sh\n{fail}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(CommandError, match="out of memory"):
        tree.marked()


def test_a_users_settings_hide_no_new_file_and_colour_no_name(tree: Worktree, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree.path / ".git" / "global").write_text(
        "[status]\n\tshowUntrackedFiles = no\n[color]\n\tui = always\n\tgrep = always\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tree.path / ".git" / "global"))
    (tree.path / "new.txt").write_bytes(MARKERS)
    assert tree.dirty() == ("new.txt",)
    sh("git", "add", ".", cwd=tree.path)
    assert tree.marked() == ("new.txt",)
