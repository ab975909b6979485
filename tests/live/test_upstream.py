"""The real stack on the real upstream: needs a network that reaches GitHub (or git's insteadOf)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Kz
from tests.tools.test_git_tools import checks_can_fail, sh

pytestmark = pytest.mark.live
LINE = "et-1.2"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """The pinned commit with the files that the stack touches, as a repository of its own."""
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "kz_build", "apply", "--line", LINE, "--json"],
        cwd=ROOT,
        env=clean_env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    tree = next(t for t in json.loads(done.stdout)[LINE] if t["source"] == "executorch")
    stack = ROOT / "patches" / LINE / "executorch"
    paths = sorted(
        {line[6:] for p in stack.glob("*.patch") for line in p.read_text().splitlines() if line.startswith("+++ b/")}
    )
    folder = tmp_path_factory.mktemp("executorch")
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        blob = subprocess.run(
            ["git", f"--git-dir={tree['repository']}", "cat-file", "blob", f"{tree['base']}:{path}"],
            check=True,
            capture_output=True,
        )
        (folder / path).write_bytes(blob.stdout)
    sh("git", "init", "-q", cwd=folder)
    sh("git", "add", "-A", cwd=folder)
    sh("git", "commit", "-q", "-m", "base", cwd=folder)
    for path in paths:
        patched = sh("git", f"--git-dir={tree['repository']}", "rev-parse", f"{tree['commit']}:{path}", cwd=folder)
        (folder / ".git" / "wanted").open("a").write(f"{patched} {path}\n")
    return folder


def blobs(folder: Path) -> set[str]:
    sh("git", "add", "-A", cwd=folder)
    rows = sh("git", "ls-files", "-s", cwd=folder).splitlines()
    return {f"{row.split()[1]} {row.split(chr(9))[1]}" for row in rows}


@pytest.mark.parametrize("tool", ["git am", "quilt", "stg"])
def test_other_tools_take_the_real_stack(checkout: Path, tool: str, tmp_path: Path) -> None:
    stack = ROOT / "patches" / LINE / "executorch"
    sh("git", "clone", "-q", checkout, tmp_path / "c", cwd=tmp_path)
    folder = tmp_path / "c"
    if tool == "git am":
        sh("git", "am", "-q", *sorted(stack.glob("*.patch")), cwd=folder)
    elif tool == "quilt":
        sh(
            "quilt",
            "--quiltrc",
            "-",
            "push",
            "-a",
            "--fuzz=0",
            cwd=folder,
            QUILT_PATCHES=str(stack),
            QUILT_PC=str(tmp_path / "pc"),
        )
    else:
        sh("git", "config", "user.name", "t", cwd=folder)
        sh("git", "config", "user.email", "t@t", cwd=folder)
        sh("stg", "init", cwd=folder)
        sh("stg", "import", "--series", stack / "series", cwd=folder)
    assert blobs(folder) == set((checkout / ".git" / "wanted").read_text().splitlines())


def test_every_shipped_check_fails_without_its_patch(checkout: Path) -> None:
    checks_can_fail(ROOT, LINE, "executorch", checkout)


def test_apply_proves_the_trees_in_the_lock(kz: Kz) -> None:
    done = kz("apply", "--all-lines")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("= pins.lock") == 2
