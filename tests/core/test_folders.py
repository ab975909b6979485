"""Folders that are exchanged whole, removed, linked and copied, in this process; test_new_folder.py kills and mounts."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import files
from kz_build.core.errors import StorageError
from tests.conftest import snapshot


def fill(path: Path, text: str, staging: Path | None = None) -> None:
    with files.new_folder(path, staging) as made:
        (made / "deep").mkdir()
        (made / "deep" / "file").write_text(text)
        (made / "link").symlink_to("deep/file")


def whole(text: str, at: str = "dist/l/t") -> dict[str, bytes | str]:
    return {f"{at}/deep/file": text.encode(), f"{at}/link": "deep/file"}


STAGINGS = [None, "out/build/l/t"]


def staging(folder: Path, name: str | None) -> Path | None:
    return folder / name if name else None


@pytest.mark.parametrize("name", STAGINGS)
def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / "dist/l/t"
    for text in ("one", "two", "three"):
        fill(path, text, staging(tmp_path, name))
        assert snapshot(tmp_path) == whole(text)
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    place = tmp_path / (name or "dist/l") / ".t.new"
    with files.new_folder(path, staging(tmp_path, name)) as made:
        assert made == place and list(made.iterdir()) == []
        (made / "only").write_text("this")
        assert snapshot(path) == {"deep/file": b"three", "link": "deep/file"}, "the old one is there until the end"
    assert snapshot(tmp_path) == {"dist/l/t/only": b"this"} and not place.exists()


@pytest.mark.parametrize("name", STAGINGS)
def test_what_fails_leaves_the_old_folder_and_nothing_else(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / "dist/l/t"
    with pytest.raises(KeyboardInterrupt), files.new_folder(path, staging(tmp_path, name)) as made:
        (made / "half").write_text("x")
        raise KeyboardInterrupt
    assert snapshot(tmp_path) == {} and not path.exists() and not made.exists()
    fill(path, "old", staging(tmp_path, name))
    with (
        pytest.raises(StorageError, match=f"the disk of {path} is full"),
        files.new_folder(path, staging(tmp_path, name)),
    ):
        raise OSError(errno.ENOSPC, "full")
    assert snapshot(tmp_path) == whole("old")


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that cannot exchange two names."""
    monkeypatch.setattr(files, "_exchanged_atomically", lambda made, path: False)


@pytest.mark.parametrize("name", STAGINGS)
def test_without_an_exchange_two_renames_do_it_and_half_of_them_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    path = tmp_path / "dist/l/t"
    without_exchange(monkeypatch)
    fill(path, "old", staging(tmp_path, name))
    fill(path, "new", staging(tmp_path, name))
    assert snapshot(tmp_path) == whole("new")
    place = files._staged(path, staging(tmp_path, name))
    aside = place.with_name(".t.new.old")
    # Killed after the first rename: the new folder is whole, but nobody said that it is.
    os.rename(path, aside)
    place.mkdir()
    files.recover(path, staging(tmp_path, name))
    assert snapshot(tmp_path) == whole("new") and not aside.exists() and not place.exists()
    # Killed after the second: the old one only goes.
    aside.mkdir()
    (aside / "x").write_text("x")
    files.recover(path, staging(tmp_path, name))
    assert snapshot(tmp_path) == whole("new") and not aside.exists()
    # And the next run does the same first.
    os.rename(path, aside)
    with pytest.raises(KeyError), files.new_folder(path, staging(tmp_path, name)):
        raise KeyError
    assert snapshot(tmp_path) == whole("new")


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make renames from one of these folders to another fail as between disks."""
    real, folders = os.rename, list[Path]()

    def rename(source: Any, target: Any) -> None:
        sides = [next((f for f in folders if Path(p).is_relative_to(f)), None) for p in (source, target)]
        if sides[0] != sides[1]:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    without_exchange(monkeypatch)
    yield lambda *more: folders.extend(more)


def test_another_disk_gets_a_copy_beside_the_top_folder(tmp_path: Path, disks: Callable[..., None]) -> None:
    disks(tmp_path / "out")
    path, staged = tmp_path / "dist/l/t", tmp_path / "out/build/l/t"
    for text in ("one", "two"):
        fill(path, text, staged)
        assert snapshot(tmp_path) == whole(text)
    assert files._places(files._staged(path, staged), path) == (
        staged / ".t.new",
        tmp_path / ".dist-l-t.new",
        tmp_path / "dist/l/.t.new",
    )


def test_a_top_folder_that_is_a_mount_gets_it_beside_the_folder(tmp_path: Path, disks: Callable[..., None]) -> None:
    disks(tmp_path / "dist")
    path, staged = tmp_path / "dist/l/t", tmp_path / "out/build/l/t"
    for text in ("one", "two"):
        fill(path, text, staged)
        assert snapshot(tmp_path) == whole(text)


def test_where_no_place_will_do_the_error_comes_out(
    tmp_path: Path, disks: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, staged = tmp_path / "dist/l/t", tmp_path / "out/build/l/t"
    fill(path, "old", staged)
    disks(tmp_path / "out", path)
    monkeypatch.setattr(os.path, "ismount", lambda folder: folder == path)
    with pytest.raises(StorageError, match=f"cannot write {path}: "):
        fill(path, "new", staged)
    assert snapshot(tmp_path) == whole("old")


def test_another_error_of_the_rename_is_not_taken_for_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dist/l/t"
    fill(path, "old", tmp_path / "out")
    tried = []

    def exchange(made: Path, to: Path) -> None:
        tried.append(made)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_exchange", exchange)
    with pytest.raises(StorageError, match="Input/output error"):
        fill(path, "new", tmp_path / "out")
    assert len(tried) == 1 and snapshot(tmp_path) == whole("old")


def test_a_linked_top_folder_is_met_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "disk" / "real").mkdir(parents=True)
    (tmp_path / "dist").symlink_to("disk/real")
    made = tmp_path / "out" / ".t.new"
    assert files._places(made, tmp_path / "dist/l/t")[1] == tmp_path / "disk" / ".real-l-t.new"
    assert files._places(tmp_path / ".t.new", tmp_path / "t") == (tmp_path / ".t.new",)


def test_two_folders_are_exchanged_atomically(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / folder.name).touch()
    if not files._exchanged_atomically(one, two):
        pytest.skip("this file system cannot exchange names")
    assert snapshot(tmp_path) == {"one/two": b"", "two/one": b""}
    with pytest.raises(FileNotFoundError) as caught:
        files._exchanged_atomically(tmp_path / "gone", two)
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "gone"), str(two))
    assert caught.value.strerror == "No such file or directory"


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM, None])
def test_where_names_cannot_be_exchanged_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    import ctypes

    class Library:
        def __init__(self, name: object, use_errno: bool) -> None:
            assert name is None and use_errno
            if code:
                self.renameat2 = lambda *_: -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)
    assert files._exchanged_atomically(tmp_path / "a", tmp_path / "b") is False


def test_files_links_and_folders_are_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "file").write_text("x")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "kept")
    for name in ("file", "link", "dangling", "folder", "gone"):
        files.remove(tmp_path / name)
    assert snapshot(tmp_path) == {"kept/file": b"x"}


def test_folders_that_may_not_be_written_are_opened_before_they_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder" / "shut" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "open").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path)
    shut = {str(tmp_path / "folder" / "shut")}
    opened = []
    chmod = os.chmod

    def access(path: str, mode: int) -> bool:
        assert mode == os.W_OK | os.X_OK
        return path not in shut

    def opening(path: str, mode: int) -> None:
        opened.append((path, mode))
        chmod(path, mode)

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "chmod", opening)
    files.remove(tmp_path / "folder")
    assert opened == [(str(tmp_path / "folder" / "shut"), 0o755)]
    assert not (tmp_path / "folder").exists()


def unexpected() -> None:
    raise AssertionError("nothing takes long here")


def test_old_folders_go_while_the_new_ones_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, aside = tmp_path / "one", tmp_path / "two", tmp_path / "old" / "x"
    for folder in (one, two, aside):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    with files.delete_in_background((one, tmp_path / "gone", two), aside, unexpected):
        assert not one.exists() and not two.exists()
        one.mkdir()
        (one / "new").write_text("x")
    assert snapshot(tmp_path) == {"one/new": b"x"} and not aside.exists(), "what a killed run left goes too"


def test_a_folder_on_another_disk_is_removed_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tmp_path / "one"
    one.mkdir()
    (one / "file").write_text("x")

    def elsewhere(self: Path, target: Path) -> Path:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "rename", elsewhere)
    with files.delete_in_background((one,), tmp_path / "old", unexpected):
        assert not one.exists()
    assert not (tmp_path / "old").exists()


def test_an_error_while_old_folders_are_deleted_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()

    def remove(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "remove", remove)
    with (
        pytest.raises(PermissionError),
        files.delete_in_background((tmp_path / "one",), tmp_path / "old", unexpected),
    ):
        pass


def test_who_is_stopped_does_not_wait_for_old_folders_and_the_next_deletes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    go_on = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", lambda path: go_on.wait(60))
        with (
            pytest.raises(KeyboardInterrupt),
            files.delete_in_background((tmp_path / "one",), tmp_path / "old", unexpected),
        ):
            raise KeyboardInterrupt
        go_on.set()
    assert (tmp_path / "old").exists()
    with files.delete_in_background((), tmp_path / "old", unexpected):
        pass
    assert not (tmp_path / "old").exists()


def test_who_waits_for_old_folders_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(files, "PATIENCE", 0.01)
    monkeypatch.setattr(files, "remove", lambda path: go_on.wait(60))
    with files.delete_in_background((), tmp_path / "old", go_on.set):
        pass
    assert go_on.is_set()


def no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_file_gets_a_second_name_or_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "a"
    at.write_text("x")
    at.chmod(0o500)
    files.hardlink_or_copy(at, tmp_path / "deep" / "er" / "b")
    assert at.samefile(tmp_path / "deep" / "er" / "b")
    monkeypatch.setattr(os, "link", no_links)
    files.hardlink_or_copy(at, tmp_path / "deep" / "er" / "c")
    copy = tmp_path / "deep" / "er" / "c"
    assert copy.read_text() == "x" and not at.samefile(copy) and stat.S_IMODE(copy.stat().st_mode) == 0o500


def test_a_file_is_put_with_its_folders(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        for _ in range(2):
            files.write_new(tmp_path / "a" / "b" / "c", b"data")
    finally:
        os.umask(before)
    assert snapshot(tmp_path) == {"a/b/c": b"data"}
    assert stat.S_IMODE((tmp_path / "a/b/c").stat().st_mode) == 0o644


@pytest.mark.parametrize("links", [True, False])
def test_a_tree_is_linked_or_copied_and_its_links_stay_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    fill(tmp_path / "from", "text")
    (tmp_path / "from" / "dangling").symlink_to("nowhere")
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    files.link_tree(tmp_path / "from", tmp_path / "to" / "there")
    assert snapshot(tmp_path / "to" / "there") == snapshot(tmp_path / "from")
    assert (tmp_path / "to/there/deep/file").samefile(tmp_path / "from/deep/file") is links


def test_a_disk_that_is_full_while_a_tree_is_copied_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "from", "text")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(StorageError, match=f"the disk of {tmp_path / 'to'} is full"):
        files.link_tree(tmp_path / "from", tmp_path / "to")


def test_two_names_are_exchanged_wherever_the_kernel_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no reader ever finds neither folder; asked of the kernel first, by names below this folder."""
    import ctypes

    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name / f"was {name}").mkdir(parents=True)
    if ctypes.CDLL(None).renameat2(-100, b"one", -100, b"two", 2):
        pytest.skip("this file system cannot exchange names")
    assert files._exchanged_atomically(Path("one"), Path("two"))
    assert (tmp_path / "one" / "was one").is_dir() and (tmp_path / "two" / "was two").is_dir()


def test_the_folder_that_a_link_leads_to_keeps_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "disk" / ".real.new").mkdir(parents=True)
    (tmp_path / "disk" / "real").mkdir()
    (tmp_path / "t").symlink_to("disk/real")
    fill(tmp_path / "t", "text")
    assert (tmp_path / "disk" / ".real.new").is_dir() and (tmp_path / "disk" / "real").is_dir()


def test_a_folder_without_folders_is_opened_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shut = tmp_path / "folder" / "shut"
    shut.mkdir(parents=True)
    (shut / "file").touch()
    shut.chmod(0)
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(shut))
    real, modes = shutil.rmtree, list[int]()

    def rmtree(path: Path) -> None:
        modes.append(stat.S_IMODE(shut.stat().st_mode))
        real(path)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    files.remove(tmp_path / "folder")
    assert modes == [0o755] and not (tmp_path / "folder").exists()


def test_a_disk_that_takes_no_folder_of_a_tree_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "from", "text")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "makedirs", full)
    with pytest.raises(StorageError, match=f"the disk of {tmp_path / 'to'} is full"):
        files.link_tree(tmp_path / "from", tmp_path / "to")
