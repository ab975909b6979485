"""Variables by which git finds a repository, as hooks and `git rebase --exec` set them, lead kz nowhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import project, put, started, text


def test_in_a_hook_of_another_repository(tmp_path: Path, kz: Kz) -> None:
    """A clone, a fetch, a commit and a worktree are all made in the store."""
    ours = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    wanted = ours.kz("verify", "--onto", "v1", "--json").stdout
    other = tmp_path / "other"
    other.mkdir()
    sh("git", "init", "-q", cwd=other)
    sh("git", "commit", "-q", "--allow-empty", "-m", "theirs", cwd=other)
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    env = {"GIT_DIR": f"{other}/.git", "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": f"{other}/.git/index"}
    env |= {
        "GIT_OBJECT_DIRECTORY": f"{other}/.git/objects",
        "GIT_COMMON_DIR": f"{other}/.git",
        "KZ_CACHE": str(tmp_path / "new"),
    }
    done = ours.kz("verify", "--onto", "v1", "--json", **env)
    assert (done.returncode, done.stdout) == (0, wanted), done.stderr
    ours.upstream.commit("More", {"b.txt": put(text(), 1, "more")})
    assert ours.kz("verify", "--fetch", "--onto", "main", **env).returncode == 0
    done = ours.kz("edit", "up", **env)
    assert done.returncode == 0, done.stderr
    assert (ours.root / "out/edit/l/up/tree/a.txt").read_text() == OURS
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


def test_a_count_of_settings_that_is_no_number_is_named(tmp_path: Path, kz: Kz) -> None:
    """Git does not start with it either."""
    ours = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    done = ours.kz("verify", "--fetch", GIT_CONFIG_COUNT="x")
    assert done.returncode == 2 and "GIT_CONFIG_COUNT must be a number, and is 'x'" in done.stderr, done.stderr


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_a_signature_that_git_shows_is_no_line_of_its_output(tmp_path: Path, kz: Kz) -> None:
    """`log.showSignature` is set by people who sign; kz reads commits line by line."""
    ours = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key"), cwd=tmp_path)
    signed = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={tmp_path / 'key'}", "commit", "-S", "-q")
    config = str(tmp_path / "config")
    Path(config).write_text("[log]\n\tshowSignature = true\n")
    assert ours.kz("edit", "up", GIT_CONFIG_GLOBAL=config).returncode == 0
    tree = ours.root / "out/edit/l/up/tree"
    sh("git", *signed, "--amend", "--no-edit", cwd=tree)
    (row,) = ours.json("edit", "up", GIT_CONFIG_GLOBAL=config)["commits"]
    assert row.endswith(" first")

    (ours.root / ".gitignore").write_text("out/\n")
    sh("git", "init", "-q", "-b", "main", cwd=ours.root)
    sh("git", "config", "log.showSignature", "true", cwd=ours.root)
    sh("git", "add", ".", cwd=ours.root)
    sh("git", *signed, "-m", "Signed", cwd=ours.root)
    (queued,) = ours.json("queue", "main")["queued"]
    assert queued["title"] == "Signed"
