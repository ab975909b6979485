"""What the tests share: a runner for `kz`, a copy of the sample, and one warm store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kz_build.adapters import adb as adapter
from kz_build.adapters.emulated import Emulated
from tests.tools.apps import ROOT as ROOT
from tests.tools.apps import SAMPLE as SAMPLE
from tests.tools.apps import Linker

Kz = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def store() -> Iterator[Path]:
    """The store of a test run: what KZ_TEST_CACHE names, so that runs can share a warm one, else one in the checkout."""
    folder = Path(os.environ.get("KZ_TEST_CACHE", ROOT / "out" / "test-cache")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


@pytest.fixture(scope="session")
def downloads(store: Path) -> Path:
    """Where tests keep what they took from package registries."""
    folder = store / "test-downloads"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def linker(clean_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Linker:
    """A linker for every machine of an app."""
    return Linker(clean_env, tmp_path_factory.mktemp("linker"))


@pytest.fixture(scope="session")
def clean_env(store: Path) -> dict[str, str]:
    """The caller's environment without what would change a result."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANDROID_NDK", "QNN_SDK", "KZ_"))}
    return {**env, "KZ_CACHE": str(store), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def kz(clean_env: dict[str, str]) -> Kz:
    """Run `kz` as a user does; gives the finished process."""

    def run(*argv: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kz_build", *map(str, argv)],
            cwd=cwd or ROOT,
            env={**clean_env, **env},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A copy of the sample project that a test may change."""
    return Path(
        shutil.copytree(SAMPLE, tmp_path / "sample", ignore=shutil.ignore_patterns("out", "dist", "pins.local.yaml"))
    )


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its content: to see that nothing changed."""
    return {
        p.relative_to(folder).as_posix(): os.readlink(p) if p.is_symlink() else p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_symlink() or p.is_file()
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[adapter.Server]:
    """An adb server of its own."""
    with adapter.private(tmp_path_factory.mktemp("adb-home")) as running:
        yield running


@pytest.fixture
def device(tmp_path: Path, server: adapter.Server) -> Iterator[Emulated]:
    """An emulated device that this server knows."""
    with Emulated("SM8750", tmp_path / "device") as made:
        server.device(made.serial)
        yield made
        server.client.disconnect(made.serial)
