"""The real stack on the real upstream: needs a network that reaches GitHub (or git's insteadOf)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kz_build.formats.app import read_folder
from kz_build.formats.app_types import Model
from kz_build.stack.files import read_files
from kz_build.stack.parse import parse_stack
from tests.conftest import ROOT, Kz
from tests.stack.test_git_tools import TOOLS, checks_can_fail, committed, sh, take

pytestmark = pytest.mark.upstream
LINES = sorted(p.parent.name for p in (ROOT / "patches").glob("*/executorch"))


@pytest.fixture(scope="module", params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def checkout(line: str, tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """The pinned commit with the files that the stack touches, as a repository of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "kz_build", "apply", "--line", line, "--json"],
        cwd=ROOT,
        env=clean_env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    tree = next(t for t in json.loads(done.stdout)[line] if t["source"] == "executorch")
    stack = ROOT / "patches" / line / "executorch"
    paths = sorted(
        {row[6:] for p in stack.glob("*.patch") for row in p.read_text().splitlines() if row.startswith("+++ b/")}
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
    committed(folder)
    for path in paths:
        patched = sh("git", f"--git-dir={tree['repository']}", "rev-parse", f"{tree['commit']}:{path}", cwd=folder)
        (folder / ".git" / "wanted").open("a").write(f"{patched} {path}\n")
    return folder


def blobs(folder: Path) -> set[str]:
    rows = sh("git", "ls-files", "-s", cwd=folder).splitlines()
    return {f"{row.split()[1]} {row.split(chr(9))[1]}" for row in rows}


@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_take_the_real_stack(line: str, checkout: Path, tool: str, tmp_path: Path) -> None:
    sh("git", "clone", "-q", checkout, tmp_path / "c", cwd=tmp_path)
    take(tool, ROOT / "patches" / line / "executorch", tmp_path / "c", tmp_path)
    assert blobs(tmp_path / "c") == set((checkout / ".git" / "wanted").read_text().splitlines())


def test_every_shipped_check_fails_without_its_patch(line: str, checkout: Path) -> None:
    checks_can_fail(ROOT, line, "executorch", checkout)


def test_the_lines_of_one_upstream_carry_the_same_intent() -> None:
    """What a patch is for does not depend on the line; only et-1.2 lacks upstream's own reading of the KV width."""
    slugs = {
        line: [p.slug for p in parse_stack(files).patches]
        for line in LINES
        if (files := read_files(ROOT, line, "executorch", f"patches/{line}/executorch"))
    }
    assert len(slugs) == 3 and slugs["et-1.3"] == slugs["et-1.4"]
    assert [s for s in slugs["et-1.2"] if "KV-width" not in s] == slugs["et-1.3"]


def test_apply_proves_the_trees_in_the_lock(kz: Kz) -> None:
    done = kz("apply", "--all-lines")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("= pins.lock") == len(list((ROOT / "patches").glob("*/*/series")))


def test_the_qnn_that_compiled_upstreams_own_pte(kz: Kz, tmp_path: Path) -> None:
    """v1.2.0 ships a hybrid llama of 1.3 MB with real contexts in it."""
    tree = next(
        t for t in json.loads(kz("apply", "--line", "et-1.2", "--json").stdout)["et-1.2"] if t["source"] == "executorch"
    )
    path = "examples/qualcomm/oss_scripts/llama/artifacts/stories260k_hybrid_llama_qnn.pte"
    argv = ["git", f"--git-dir={tree['repository']}", "cat-file", "blob", f"{tree['base']}:{path}"]
    (tmp_path / "stories.pte").write_bytes(subprocess.run(argv, check=True, capture_output=True).stdout)
    assert read_folder(tmp_path).models == (Model("stories.pte", ("2.37.0.250724",)),)
