"""Hostile files for every reader of anyone's bytes: a result or the documented error, within limits of time and memory."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("name", FORMATS)
def test_whole_files_are_read(name: str, tmp_path: Path) -> None:
    """What no reader takes would be a poor start for a fuzzer. Files with a digest in their name are what it found."""
    whole = [path for path in run.corpus(name) if not re.search("-[0-9a-f]{12}$", path.name)]
    assert whole
    refused = [path.name for path in whole if run.read(name, path, path.read_bytes(), tmp_path).refused]
    assert refused == ["pins-aliases"] * (name == "yaml")  # which is for its forms of YAML alone


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FORMATS)
def test_hostile_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print()
        assert not run.fuzz(name, 100_000, 0, tmp_path).faults
