"""A pull request that changes only what kz reads back: the CI that looks at it runs none of its commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_git_tools import sh

COMMAND = "--upload-pack=touch ./pwned;x"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project with a stack on a bare repository that lies in it, and the id of the repository's commit."""
    folder = tmp_path_factory.mktemp("hostile") / "project"
    work, stack = folder / "work", folder / "patches/l/up"
    stack.mkdir(parents=True)
    sh("git", "init", "-q", "-b", "main", work, cwd=folder)
    for text in ("one\n", "two\n"):
        (work / "a.txt").write_text(text)
        sh("git", "add", "-A", cwd=work)
        sh("git", "commit", "-q", "-m", f"Say {text.strip()}", cwd=work)
    sh("git", "format-patch", "-q", "--full-index", "-o", stack, "-1", cwd=work)
    sh("git", "reset", "-q", "--hard", "HEAD~1", cwd=work)
    sh("git", "tag", "v1", cwd=work)
    (stack / "series").write_text("0001-Say-two.patch\n")
    sh("git", "clone", "-q", "--bare", work, folder / "up.git", cwd=folder)
    commit = sh("git", "rev-parse", "HEAD", cwd=work)
    shutil.rmtree(work)
    (folder / "pins.yaml").write_text(
        "version: 1\ndefault: l\nsources:\n  up: {git: up.git, submodules: [libs/x]}\nlines: {l: {up: v1}}\n"
        "targets: {t: {platform: linux, abi: arm64, sources: [up], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}}\n"
    )
    return folder, commit


@pytest.fixture
def project(made: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(made[0], tmp_path / "project"))


VERBS = (["verify"], ["apply"], ["fetch"], ["status"], ["health"], ["edit", "up"])


# Only a whole fetch reads the submodules of the lock.
CASES = [*(("commit", verb) for verb in VERBS), ("submodule", ["fetch"]), ("url", ["fetch"])]


@pytest.mark.parametrize("where, verb", CASES, ids=[f"{where}-{verb[0]}" for where, verb in CASES])
def test_a_command_in_the_lock_is_not_run(
    project: Path, made: tuple[Path, str], kz: Kz, tmp_path: Path, where: str, verb: list[str]
) -> None:
    commit = made[1]
    tree = sh("git", "rev-parse", f"{commit}^{{tree}}", cwd=project / "up.git")
    sub = {"url": "up.git", "commit": commit, "tree": None}
    entry = {"kind": "git", "version": "v1", "url": "up.git", "commit": commit, "tree": tree, "submodules": {}}
    if where == "commit":
        entry |= {"commit": COMMAND}
    else:
        bad = {"commit": COMMAND} if where == "submodule" else {"url": "ext::sh -c touch% pwned"}
        entry |= {"submodules": {"libs/x": {**sub, **bad}}}
    (project / "pins.lock").write_text(json.dumps({"version": 1, "lines": {"l": {"up": entry}}}, indent=1))
    config = tmp_path / "gitconfig"
    config.write_text('[protocol "ext"]\n\tallow = always\n')
    env = {"KZ_CACHE": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": str(config)}
    done = kz("-C", project, *verb, cwd=project, **env)
    assert not list(tmp_path.rglob("pwned")), done.stderr
    assert done.returncode == 3 and "pins.lock is wrong" in done.stderr, done.stdout + done.stderr
    assert done.stderr.strip().splitlines()[-1] == "kz: exit 3 (lock)"


def test_without_the_command_each_of_these_verbs_goes(
    project: Path, kz: Kz, tmp_path: Path, made: tuple[Path, str]
) -> None:
    """Else the test above could end for another reason."""
    text = (project / "pins.yaml").read_text().replace(", submodules: [libs/x]", "")
    (project / "pins.yaml").write_text(text)
    env = {"KZ_CACHE": str(tmp_path / "cache")}
    assert kz("-C", project, "lock", "--write", cwd=project, **env).returncode == 0
    for verb in VERBS:
        done = kz("-C", project, *verb, cwd=project, **env)
        assert done.returncode == 0, done.stderr
