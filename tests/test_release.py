"""What `nox -s release` makes a release of: a clean checkout of the version's tag, whatever the machine."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from kz_build.pins import template
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *words: str) -> str:
    environment = {"GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z", "PATH": "/usr/bin:/bin"}
    own = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *own, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / ".gitignore").write_text("out/\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "x")
    return tmp_path


def test_a_release_is_of_a_clean_tag(noxfile: ModuleType, checkout: Path) -> None:
    with pytest.raises(ValueError, match=r"the tag v1\.2\.3 is not there, HEAD is [0-9a-f]{10}: git tag -s v1\.2\.3"):
        noxfile.release_tag(checkout)
    git(checkout, "tag", "v1.2.3", "-m", "release")
    (checkout / "out").mkdir()
    (checkout / "out" / "x").touch()
    assert noxfile.release_tag(checkout) == ("v1.2.3", 1767323045)

    (checkout / "new").touch()
    with pytest.raises(ValueError, match="of commits alone: commit or remove new"):
        noxfile.release_tag(checkout)
    (checkout / "new").rename(checkout / "new name")
    (checkout / ".gitignore").write_text("out/\n*.o\n")
    with pytest.raises(ValueError, match=r'commit or remove \.gitignore, "new name"$'):
        noxfile.release_tag(checkout)
    git(checkout, "add", ".")
    with pytest.raises(ValueError, match="of commits alone"):
        noxfile.release_tag(checkout)
    git(checkout, "commit", "-q", "-m", "more")
    with pytest.raises(ValueError, match=r"the tag v1\.2\.3 is [0-9a-f]{10}, HEAD is"):
        noxfile.release_tag(checkout)


def test_what_git_cannot_tell_is_no_clean_checkout(noxfile: ModuleType, checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3", "-m", "release")
    (checkout / ".git" / "index").write_bytes(b"no index" * 9)
    with pytest.raises(ValueError, match=r"`git status` ended with 128: "):
        noxfile.release_tag(checkout)


def test_a_release_is_built_from_the_bytes_of_its_tag(
    noxfile: ModuleType, checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(checkout, "tag", "v1.2.3", "-m", "release")
    git(checkout, "checkout", "-q", "-b", "v1.2.3")
    (checkout / ".gitignore").write_text("other\n")
    git(checkout, "commit", "-q", "-a", "-m", "on a branch with the tag's name")
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    noxfile.clone_at("v1.2.3", home / "clone", checkout)
    assert (home / "clone" / ".gitignore").read_bytes() == b"out/\n"


def test_a_release_has_a_dated_section_in_the_changelog(noxfile: ModuleType) -> None:
    text = "# Changes\n\n## 1.2.3 (2026-01-02)\n\n- one\n- two\n\n## 1.2.2 (2025-01-01)\n\n- old\n"
    assert noxfile.changes_of("1.2.3", text) == "## 1.2.3 (2026-01-02)\n\n- one\n- two\n"
    for version, changelog in (("1.2.4", text), ("1.2.3", text.replace("2026-01-02", "unreleased"))):
        with pytest.raises(ValueError, match=rf"write `## {version} \(YYYY-MM-DD\)`"):
            noxfile.changes_of(version, changelog)


def test_the_wheel_has_the_project_that_init_copies() -> None:
    packed = re.search(r"^NAMES = (.+?^\))", (ROOT / "hatch_build.py").read_text(), re.M | re.S)
    assert packed and ast.literal_eval(packed[1]) == template.NAMES
