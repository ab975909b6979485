"""A git that lives and does not answer, and one that is killed before it does."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from kz_build.core.errors import CommandError
from kz_build.git import cat_file
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.remote import reachable
from kz_build.git.repository import Repository
from tests.conftest import Kz
from tests.deadline import patient
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import project, started


def test_a_git_that_does_not_answer_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was not asked anything for as long is not."""
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    monkeypatch.setattr(cat_file, "SILENT_SECONDS", patient(0.3))  # git itself must answer sooner
    with Repository(tmp_path / "up.git").objects() as objects:
        time.sleep(2.5 * cat_file.SILENT_SECONDS)
        assert objects.get("HEAD") is None and objects.process.poll() is None
    monkeypatch.setattr(cat_file, "SILENT_SECONDS", 0.05)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nread request && exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        Repository(tmp_path / "up.git").objects() as objects,
        pytest.raises(CommandError, match=r"cat-file` in .*up\.git said nothing for 0\.05 s"),
    ):
        objects.get("HEAD")


def test_a_git_that_reads_no_more_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may live on, and end its errors only when it does."""
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec <&-\necho fatal: x >&2\necho x x\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = time.monotonic()
    with Repository(tmp_path / "up.git").objects() as objects:
        assert objects.process.stdout and objects.process.stdout.readline()  # it has closed its input by now
        with pytest.raises(ObjectsMissing, match="fatal: x"):
            objects.get("HEAD")
        objects.process.kill()
    assert time.monotonic() - started < patient(15)


def test_a_git_that_is_killed_lacks_no_object(tmp_path: Path, kz: Kz) -> None:
    ours = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    (tmp_path / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *cat-file*--batch) kill -9 $$;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (tmp_path / "git").chmod(0o755)
    done = ours.kz("verify", "--onto", "v1", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 5 and "cat-file" in done.stderr and "killed by signal 9" in done.stderr, done.stderr
    assert ours.kz("verify", "--onto", "v1").returncode == 0


def test_a_git_that_is_killed_says_nothing_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CommandError, match="killed by signal 9"):
        reachable("https://github.com/x/y", 8.0)
