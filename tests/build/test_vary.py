"""What this machine can vary for `kz reproduce`, by programs that fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kz_build.build import vary


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$", "echo >&2; exit 1"])
def test_a_disorderfs_that_says_nothing_is_no_bug_of_kz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    program(tmp_path, "disorderfs", script)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    order = vary._order(tmp_path / "builds")
    assert order.absent.startswith("disorderfs does not mount here: it ended with")


def test_a_clock_that_kills_programs_is_not_varied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with such a library fails, and kz reproduce named the time as the reason."""
    program(tmp_path, "date", "kill -11 $$")
    (tmp_path / "libfaketimeMT.so.1").touch()
    monkeypatch.setattr(vary, "_FAKETIME", (str(tmp_path / "libfaketime*"),))
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    assert "does not move the clock of `date`" in vary._clock().absent
