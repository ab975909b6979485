"""Temporary folders: deleted at the end of their block, or by the next run if theirs was killed."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from kz_build.core.errors import StorageError
from kz_build.core.locks import remove_dead_scratch, scratch_folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_one_is_deleted_with_its_block(root: Path) -> None:
    with scratch_folder() as folder:
        (folder / "deep").mkdir()
        assert folder.parent == root and folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(KeyError), scratch_folder():
        raise KeyError
    assert not list(root.iterdir())


def test_that_of_a_killed_process_is_deleted_by_the_next_and_that_of_a_living_one_is_not(root: Path) -> None:
    if not (child := os.fork()):
        with scratch_folder() as folder:
            (folder / "f").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (dead,) = root.iterdir()
    with scratch_folder() as first, scratch_folder() as second:
        assert set(root.iterdir()) == {first, second} and not dead.exists()
        remove_dead_scratch()
        assert first.is_dir() and second.is_dir()


def test_a_folder_that_cannot_be_made_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(StorageError, match=f"the disk of {root} is full"), scratch_folder():
        pass


def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, 0

    def taken(dir: Path, prefix: str) -> str:
        nonlocal made
        made += 1
        folder = make(dir=dir, prefix=prefix)
        if made == 1:
            os.rmdir(folder)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    with scratch_folder() as folder:
        assert list(root.iterdir()) == [folder] and made == 2
