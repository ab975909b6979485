"""What an image's apt reads: all of its sources, or none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.skipif(not shutil.which("apt-get"), reason="needs apt-get")
def test_an_index_that_is_not_reached_ends_the_build_of_an_image(tmp_path: Path) -> None:
    """By itself apt warns, ends with 0, and installs what the other sources have: without the security updates."""
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/Packages").touch()
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "state/status").touch()
    there = f"deb [trusted=yes] file:{tmp_path}/repository ./\n"
    places = {
        "Dir::Etc::SourceList": "list", "Dir::Etc::SourceParts": "parts", "Dir::State": "state",
        "Dir::State::Status": "state/status", "Dir::Cache": "cache",
    }  # fmt: skip
    config = "".join(f'{key} "{tmp_path / value}";\n' for key, value in places.items())
    (tmp_path / "config").write_text(config + 'Acquire::Retries "0";\n')
    *_, update = (ROOT / "containers/snapshot.sh").read_text().splitlines()
    assert update.startswith("apt-get update ")
    for sources, fails in ((there, False), (f"{there}deb [trusted=yes] http://127.0.0.1:9/security ./\n", True)):
        (tmp_path / "list").write_text(sources)
        env = {**os.environ, "APT_CONFIG": str(tmp_path / "config")}
        done = subprocess.run(["sh", "-c", update], env=env, capture_output=True, text=True)
        assert bool(done.returncode) == fails, done.stderr
