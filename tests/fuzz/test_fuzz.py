"""Hostile files for every reader of anyone's bytes: a result or the documented error, within limits of time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.readers import FORMATS


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "store"))


@pytest.mark.parametrize("name", FORMATS)
def test_files_that_once_showed_a_fault(name: str, tmp_path: Path) -> None:
    assert not run.replay(name, run.corpus(name), tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()
        assert not run.fuzz(name, 100_000, 0, tmp_path).faults
