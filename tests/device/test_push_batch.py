"""The script by which a device takes a batch of files, under this machine's shell and under Android's own: mksh and toybox."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kz_build.core.process import Output
from kz_build.device.adb import Server
from kz_build.device.adb_server import Client
from kz_build.device.push import items, push
from kz_build.device.push_batch import ARCHIVE, DAMAGED, SCRIPT, archive, first_damaged, removal, script, staged
from kz_build.device.push_plan import BATCH_BYTES, BATCH_FILES, PARTS, RECORD, Item, batches, parse_record
from kz_build.emulator.device import EmulatedDevice

NAMES = (
    *("a", "dir/b", "dir/c", "dir/sub dir/d'q", "-rf", "-d/-e", "*?[a]/~root", "$(touch y)/`id`", '"; exit 9; "'),
    *("n" * 255, "long/" + "\u00e9" * 120, "x" * 99, "x" * 100),
    *("new\nline", "back\\slash/x", "x/back\\sl", "cr\rx", "é\u2028/\U0001f600", "@@", "odd/0", "0/odd"),
)
BATCH = [Item(Path(), name, len(name), 1, 0o644, hashlib.sha256(name.encode()).hexdigest()) for name in NAMES]
Run = Callable[[str], "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(params=["this machine", "android"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a script in a device's folder; its only programs are those that Android has."""
    path, shell = "/usr/bin:/bin", "/bin/sh"
    if request.param == "android":
        toybox, mksh = shutil.which("toybox"), shutil.which("mksh")
        if not toybox or not mksh:
            pytest.skip("apt install toybox mksh")
        (tmp_path / "bin").mkdir()
        for name in ("sha256sum", "tar", "mv", "mkdir", "rm", "rmdir", "cat"):
            (tmp_path / "bin" / name).symlink_to(toybox)
        path, shell = str(tmp_path / "bin"), mksh
    folder = tmp_path / "folder"

    def once(text: str) -> subprocess.CompletedProcess[bytes]:
        (folder / PARTS[0]).mkdir(parents=True, exist_ok=True)
        (folder / PARTS[0] / SCRIPT).write_text(text, newline="")
        argv, env = [shell, f"{PARTS[0]}/{SCRIPT}"], {"PATH": path, "LC_ALL": "C.UTF-8"}
        return subprocess.run(argv, cwd=folder, env=env, capture_output=True, stdin=subprocess.DEVNULL)

    return once


def arrive(folder: Path, text: Callable[[str], str] = str) -> None:
    """Put the batch where adb would; `text` is the content of a file by its name."""
    (folder / PARTS[0]).mkdir(parents=True)
    data = archive((path, item, text(item.name).encode()) for path, item in staged(BATCH).items())
    (folder / PARTS[0] / ARCHIVE).write_bytes(data)


def held(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_any_names_are_verified_moved_recorded_and_removed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for _ in ("new", "replaced"):
        arrive(folder)
        done = run(script(PARTS[0], staged(BATCH)))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        there = held(folder)
        assert list(parse_record(there.pop(RECORD).decode())) == list(NAMES)
        assert there == {name: name.encode() for name in NAMES}
        facts = (folder / "a").stat()
        assert (facts.st_mtime, facts.st_mode & 0o777) == (1, 0o644)
    assert run(removal(PARTS[0], NAMES)).returncode == 0
    assert os.listdir(folder) == [RECORD]


@pytest.mark.parametrize("bent", ["a", "new\nline", "dir/sub dir/d'q"])
def test_one_bent_file_is_named_and_nothing_of_its_batch_is_kept(run: Run, tmp_path: Path, bent: str) -> None:
    arrive(tmp_path / "folder", lambda name: "bent" if name == bent else name)
    done = run(script(PARTS[0], staged(BATCH)))
    assert done.returncode == DAMAGED
    assert first_damaged(staged(BATCH), done.stdout.decode()).name == bent
    assert held(tmp_path / "folder") == {}


def test_large_files_go_alone_and_small_ones_together() -> None:
    def item(size: int) -> Item:
        return Item(Path(), "x", size, 1, 0o644)

    sizes = [1, BATCH_BYTES + 1, 2, 3, BATCH_BYTES - 5, 4]
    assert [[one.size for one in batch] for batch in batches(map(item, sizes))] == [
        [1], [BATCH_BYTES + 1], [2, 3, BATCH_BYTES - 5], [4],
    ]  # fmt: skip
    assert [len(batch) for batch in batches([item(0)] * (2 * BATCH_FILES + 1))] == [BATCH_FILES, BATCH_FILES, 1]


def test_many_small_files_take_few_commands(
    server: Server, device: EmulatedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "set"
    for index in range(BATCH_FILES + 50):
        (folder / str(index % 7)).mkdir(parents=True, exist_ok=True)
        (folder / str(index % 7) / f"f{index}").write_text(str(index))
    there = server.device(device.serial)
    commands: list[str] = []
    shell = Client.shell

    def counted(client: Client, serial: str, command: str, timeout: float) -> Output:
        commands.append(command)
        return shell(client, serial, command, timeout)

    monkeypatch.setattr(Client, "shell", counted)
    done = push(tmp_path / "store", there, items([folder]))
    assert len(done.sent) == BATCH_FILES + 50
    assert len(commands) == 3, "one before, and one a batch"
