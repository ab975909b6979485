"""One build of the sample for all end-to-end tests, which must not change it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Path:
    """The sample, built once in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("with space") / "sample"
    shutil.copytree(ROOT / "examples/sample", folder, ignore=shutil.ignore_patterns("out", "dist", "pins.local.yaml"))
    done = subprocess.run(
        [sys.executable, "-m", "kz_build", "-C", folder, "build"],
        cwd=ROOT,
        env=clean_env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder
