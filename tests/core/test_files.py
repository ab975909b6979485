"""Files written whole or not at all, and the record that each stage leaves."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from kz_build.core import files
from kz_build.core.errors import StorageError
from kz_build.core.paths import files_below
from tests.conftest import ROOT, snapshot


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        (errno.ENOSPC, "the disk of /d/f is full", "free space there, or move the store: KZ_CACHE=/other/disk"),
        (errno.EDQUOT, "the disk of /d/f is full", "free space there, or move the store: KZ_CACHE=/other/disk"),
        (errno.EROFS, "cannot write /d/f: Read-only file system", "make it writable, or choose another folder"),
        (errno.EACCES, "cannot write /d/f: Permission denied", "make it writable, or choose another folder"),
        (
            errno.ENOLCK,
            "cannot write /d/f: No locks available",
            "its disk has no file locks, or no more: use a local one (KZ_CACHE=/other/disk for the store)",
        ),
        (errno.EPERM, "cannot write /d/f: Operation not permitted", "make it writable, or choose another folder"),
    ],
)
def test_what_a_disk_refuses_is_said_with_its_place(code: int, said: str, hint: str) -> None:
    with pytest.raises(StorageError) as caught, files.disk_errors(Path("/d/f")):
        raise OSError(code, os.strerror(code))
    assert (str(caught.value), caught.value.hint, caught.value.exit_code) == (said, hint, 6)


def test_a_folder_that_cannot_be_deleted_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)

    def refuse(name: str, **_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", name)

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(OSError) as caught:
        files.remove(tmp_path / "deep")
    assert str(files.storage_error(caught.value)).startswith(f"cannot read or write {tmp_path}/deep: Input/output")


def test_other_errors_are_left_as_they_are() -> None:
    with pytest.raises(FileNotFoundError), files.disk_errors(Path("/d/f")):
        raise FileNotFoundError(errno.ENOENT, "x")


def test_a_file_is_written_with_its_folders_and_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "another-disk"))
    path = tmp_path / "a" / "b" / "f"
    for data in (b"one", b"", b"two\0\xff"):
        files.write_atomic(path, data)
        assert snapshot(tmp_path) == {"a/b/f": data}
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    files.write_atomic(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, full)
        with pytest.raises(StorageError, match=f"the disk of {path} is full"):
            files.write_atomic(path, b"new")
        assert snapshot(tmp_path) == {"f": b"old"}
        monkeypatch.undo()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write_atomic(path, b"new")
    assert snapshot(tmp_path) == {"f": b"old"}


def test_what_a_killed_write_left_is_taken_over_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "f"
    if not (child := os.fork()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", lambda *_: os._exit(9))
            files.write_atomic(path, b"of the dead, and longer")
    assert os.waitpid(child, 0)[1] == 9 << 8
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".f.")
    files.write_atomic(path, b"new")
    assert snapshot(tmp_path) == {"f": b"new"}


def test_of_many_that_write_one_file_at_once_each_writes_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    children = []
    for letter in b"abcd":
        if child := os.fork():
            children.append(child)
            continue
        code = 1
        try:
            for _ in range(50):
                files.write_atomic(path, bytes([letter]) * 10_000)
                data = path.read_bytes()
                if len(data) != 10_000 or len(set(data)) != 1:
                    break
            else:
                code = 0
        finally:
            os._exit(code)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_take_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"kept")
    for name, reason in {
        "folder": "folder is a folder",
        "file/x": "file is a file",
        "file/x/y": "file is a file",
    }.items():
        with pytest.raises(StorageError, match=f"cannot write .*{reason}$"):
            files.write_atomic(tmp_path / name, b"new")
    assert (tmp_path / "file").read_bytes() == b"kept" and not list((tmp_path / "folder").iterdir())


def test_an_error_of_the_machine_names_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a read names no file; that of an open does."""
    path = tmp_path / "f"
    path.touch()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="stale") as caught:
        patch.setattr(Path, "open", lambda *_: Stale(path))
        files.sha256_file(path)
    assert files.path_of(caught.value) == str(path)
    problem = files.storage_error(caught.value)
    assert problem and str(problem) == f"cannot read or write {path}: stale" and problem.exit_code == 6
    for error in (FileNotFoundError(errno.ENOENT, "x", "f"), OSError("no number")):
        assert files.storage_error(error) is None, "a bug, or none of the machine's"


class Stale(io.FileIO):
    """A file whose server has forgotten it."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.ESTALE, "stale")


def test_the_bytes_are_on_the_disk_before_the_name_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "f", []
    path.write_bytes(b"old")

    def fsync(handle: int) -> None:
        (other,) = (p for p in tmp_path.iterdir() if p != path)
        assert os.path.samestat(os.fstat(handle), other.stat())
        seen.append((other.read_bytes(), path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    files.write_atomic(path, b"new")
    assert seen == [(b"new", b"old")] and path.read_bytes() == b"new"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, (1 << 20) + 1, 3 << 20])
def test_the_digest_of_a_file_of_any_size(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "f").write_bytes(data[:size])
    assert files.sha256_file(tmp_path / "f") == hashlib.sha256(data[:size]).hexdigest()


def test_a_file_that_is_being_written_is_hidden_and_its_first_error_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        assert all(path.name.startswith(".f.") for path in tmp_path.iterdir())
        raise OSError(errno.ENOSPC, "No space left on device")

    def gone(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(os, "unlink", gone)
    with pytest.raises(StorageError, match=f"the disk of {tmp_path / 'f'} is full"):
        files.write_atomic(tmp_path / "f", b"new")


def test_the_digest_of_a_file_larger_than_the_memory_it_takes(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 24)
    tracemalloc.start()
    try:
        files.sha256_file(tmp_path / "f")
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()


def test_a_folder_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    """os.walk and rglob say nothing then: a release listed fewer files than it had."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c.so").touch()
    assert files_below(tmp_path, "*.so") == [tmp_path / "a/b/c.so"] and files_below(tmp_path / "gone") == []
    code = "import resource, sys; from pathlib import Path; from kz_build.core.paths import files_below; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); files_below(Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert "Too many open files" in done.stderr, done.stderr
