"""Trees that are checked out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.git.repository import Repository, TreeEntry
from tests.stack.upstreams import started


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "a/./x", "a//x", ".git/hooks/x", "a/.GIT/config", "..", "a/.git"]
)
def test_a_path_that_git_would_leave_out_in_silence_is_refused(tmp_path: Path, path: str) -> None:
    upstream = started(tmp_path)
    blob = upstream.git("rev-parse", "v1:a.txt").strip()
    repository = Repository(upstream.folder / ".git")
    entries = [TreeEntry("100644", blob, name) for name in ("a.txt", ".gitignore", "..a/b..", path)]
    with pytest.raises(ConfigError) as caught:
        repository.checkout(entries, tmp_path / "tree")
    assert f"has a file {path!r}, which git refuses" in str(caught.value)
    repository.checkout(entries[:-1], tmp_path / "tree")
    assert sorted(p.name for p in (tmp_path / "tree").iterdir()) == ["..a", ".gitignore", "a.txt"]
