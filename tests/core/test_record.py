"""Several files changed as one, through a kill at any write."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import transaction
from kz_build.core.errors import ConfigError, StorageError
from kz_build.core.files import write_atomic
from tests.conftest import snapshot

CHANGES = {"a": b"new a", "deep/b": b"new b", "gone": None, "same": b"same"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with three of four files."""
    for name in ("a", "gone", "same"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


DONE = {"a": b"new a", "deep/b": b"new b", "same": b"same"}


def test_all_at_once(root: Path) -> None:
    assert transaction.change_all(root, CHANGES) == ("a", "deep/b", "gone")
    assert snapshot(root) == DONE
    transaction.roll_forward(root)
    assert snapshot(root) == DONE


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("at", range(1, 5))
def test_killed_at_any_write_it_is_all_or_nothing_in_the_end(
    root: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(root)
    real, count = write_atomic, 0

    def dying(path: Path, data: bytes) -> Any:
        nonlocal count
        count += 1
        if count == at:
            raise Killed
        return real(path, data)

    monkeypatch.setattr(transaction, "write_atomic", dying)
    with contextlib.suppress(Killed):
        transaction.change_all(root, CHANGES)
    monkeypatch.undo()
    transaction.roll_forward(root)
    assert snapshot(root) == (before if at == 1 else DONE)


def test_a_hand_that_was_faster_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "roll_forward", lambda root: None)
    transaction.change_all(root, CHANGES)
    monkeypatch.undo()
    (root / "a").write_bytes(b"by hand")
    before = snapshot(root)
    with pytest.raises(ConfigError, match="changed since"):
        transaction.roll_forward(root)
    assert snapshot(root) == before


OUTSIDE = (
    "../evil",
    "/evil",
    "b/../../evil",
    ".git/hooks/post-checkout",
    "link/evil",
    "",
    ".",
    "x\0y",
    "n" * 300,
    "folder",
    "a/b",
    "device",
)


@pytest.mark.parametrize("path", OUTSIDE, ids=ascii)
def test_a_record_that_came_with_a_pull_request_writes_nothing_elsewhere(tmp_path: Path, path: str) -> None:
    root = tmp_path / "project"
    (root / ".git/hooks").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    (root / "folder").mkdir()
    (root / "a").write_text("a file")
    (root / "device").symlink_to("/dev/zero")
    (root / transaction.NAME).write_text(
        json.dumps({f"{tmp_path}/evil" if path == "/evil" else path: [None, "ZXZpbA=="]})
    )
    before = snapshot(tmp_path)
    with pytest.raises(ConfigError, match="kz must not write"):
        transaction.roll_forward(root)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", "[" * 9000, "[]", "3", '{"a": 1}', '{"a": ["!", 2]}', '{"a": [1, 2, 3]}'])
def test_a_record_that_is_none(root: Path, text: str) -> None:
    (root / transaction.NAME).write_text(text)
    with pytest.raises(ConfigError, match="was not written by kz"):
        transaction.roll_forward(root)


@pytest.mark.parametrize("target", ["/dev/zero", transaction.NAME, "."])
def test_a_record_that_leads_elsewhere_is_not_read(root: Path, target: str) -> None:
    (root / transaction.NAME).symlink_to(target)
    with pytest.raises(ConfigError, match="was not written by kz"):
        transaction.roll_forward(root)


@pytest.mark.parametrize("changes", [{}, {"same": b"same"}, {"not-there": None}])
def test_what_changes_nothing_writes_nothing(
    root: Path, changes: transaction.Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(root)
    monkeypatch.setattr(transaction, "write_atomic", None)
    assert transaction.change_all(root, changes) == ()
    assert snapshot(root) == before


def test_the_record_holds_all_that_changes_before_and_after(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing more: a file that stays as it is may change in between."""
    monkeypatch.setattr(transaction, "roll_forward", lambda root: None)
    transaction.change_all(root, {**CHANGES, "binary": b"\0\xff"})
    monkeypatch.undo()
    kept = json.loads((root / ".kz-commit").read_bytes())
    assert kept == {
        "a": ["YQ==", "bmV3IGE="],
        "deep/b": [None, "bmV3IGI="],
        "gone": ["Z29uZQ==", None],
        "binary": [None, "AP8="],
    }
    (root / "same").write_bytes(b"changed meanwhile")
    transaction.roll_forward(root)
    assert snapshot(root) == {**DONE, "binary": b"\0\xff", "same": b"changed meanwhile"}


def test_a_folder_goes_with_its_last_file(root: Path) -> None:
    transaction.change_all(root, {"one/x": b"x", "two/x": b"x", "two/y": b"y"})
    transaction.change_all(root, {"one/x": None, "two/x": None})
    assert not (root / "one").exists() and (root / "two" / "y").exists()


def test_files_that_were_changed_by_hand_are_named_with_the_way_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "roll_forward", lambda root: None)
    transaction.change_all(root, CHANGES)
    monkeypatch.undo()
    (root / "gone").write_bytes(b"by hand")
    (root / "deep").mkdir()
    (root / "deep" / "b").write_bytes(b"by hand")
    (root / "a").write_bytes(b"new a")
    with pytest.raises(ConfigError) as caught:
        transaction.roll_forward(root)
    said = "is neither as it was before nor as that command would have left it"
    assert str(caught.value).splitlines() == [
        "a command was killed while it wrote these files, and they were changed since:",
        f"  deep/b: {said}",
        f"  gone: {said}",
    ]
    assert (
        caught.value.hint
        == f"put them back (git checkout) to let it finish, or remove {root / '.kz-commit'} to keep what is there"
    )


def test_each_name_is_on_the_disk_before_the_record_goes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the last step must find either the record or all files."""
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if place.is_dir():
            synced.append((place.name, (root / ".kz-commit").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    transaction.change_all(root, {"a": b"1", "deep/b": b"2", "gone": None})
    assert synced == [(root.name, True), (root.name, True), ("deep", True), (root.name, True)]
    synced.clear()
    transaction.change_all(root, {"deep/b": None})
    assert synced == [(root.name, True)] and not (root / "deep").exists()


def test_a_disk_that_is_full_when_names_are_kept_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{handle}")).is_dir():
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=f"the disk of {root} is full"):
        transaction.change_all(root, {"a": b"1"})
