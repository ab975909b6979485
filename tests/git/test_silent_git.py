"""A git that lives and does not answer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kz_build.core.errors import CommandError
from kz_build.git import cat_file
from kz_build.git.repository import Repository
from tests.stack.test_git_tools import sh


def test_a_git_that_does_not_answer_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was not asked anything for as long is not."""
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    monkeypatch.setattr(cat_file, "SILENT_SECONDS", 0.05)
    with Repository(tmp_path / "up.git").objects() as objects:
        time.sleep(0.2)
        assert objects.get("HEAD") is None and objects.process.poll() is None
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nread request && exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        Repository(tmp_path / "up.git").objects() as objects,
        pytest.raises(CommandError, match=r"cat-file` in .*up\.git said nothing for 0\.05 s"),
    ):
        objects.get("HEAD")
