"""What `nox -s release` makes a release of: a clean checkout of the version's tag, whatever the machine."""

from __future__ import annotations

import gzip
import importlib.util
import io
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

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
    git(checkout, "add", "new")
    with pytest.raises(ValueError, match="of commits alone"):
        noxfile.release_tag(checkout)
    git(checkout, "commit", "-q", "-m", "more")
    with pytest.raises(ValueError, match=r"the tag v1\.2\.3 is [0-9a-f]{10}, HEAD is"):
        noxfile.release_tag(checkout)


def test_an_sdist_does_not_say_when_and_by_whom_it_was_made(noxfile: ModuleType) -> None:
    def sdist(names: str, mtime: int, user: str) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size, info.mtime, info.uname, info.uid, info.mode = 1, mtime, user, mtime, 0o664
                tar.addfile(info, io.BytesIO(name.encode()))
        return out.getvalue()

    first, second = (noxfile.without_times(data, 5) for data in (sdist("ab", 1, "me"), sdist("ba", 9, "you")))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(first))) as tar:
        assert [(m.name, m.mtime, m.uname, m.uid, m.mode) for m in tar] == [(n, 5, "", 0, 0o644) for n in "ab"]
        assert tar.extractfile("a").read() == b"a"  # type: ignore[union-attr]
