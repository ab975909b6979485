"""adb's sync service of an emulated device: STAT, LIST, SEND and RECV, in both versions, by adb's SYNC.TXT."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kz_build.emulator.adbd import Stream
from kz_build.emulator.root import DeviceRoot

PIECE = 64 * 1024


def serve(stream: Stream, root: DeviceRoot) -> None:
    """Answer requests until QUIT, or until the other side is gone (Gone)."""
    answers: dict[bytes, Callable[[Stream, DeviceRoot, bytes], None]] = {
        b"STAT": _stat,
        b"STA2": _stat2,
        b"LST2": _lstat2,
        b"LIST": _list,
        b"LIS2": _list2,
        b"SEND": _send,
        b"RECV": _receive,
    }
    while True:
        name, size = struct.unpack("<4sI", stream.read(8))
        if name == b"QUIT":
            return
        argument = bytes(stream.read(size))
        if name not in answers:
            _fail(stream, f"unknown command {name.decode('ascii', 'replace')}")
            return
        answers[name](stream, root, argument)


def _fail(stream: Stream, text: str) -> None:
    message = text.encode()
    stream.write(b"FAIL" + struct.pack("<I", len(message)) + message)


def _lstat(root: DeviceRoot, path: bytes, *, follow: bool) -> tuple[int, os.stat_result | None]:
    try:
        return 0, root.host(path, follow=follow).lstat()
    except OSError as error:
        return error.errno or errno.EIO, None


def _fields1(facts: os.stat_result | None) -> bytes:
    return struct.pack("<3I", facts.st_mode, facts.st_size & 0xFFFFFFFF, int(facts.st_mtime)) if facts else bytes(12)


def _fields2(error: int, facts: os.stat_result | None) -> bytes:
    if not facts:
        return struct.pack("<I", error) + bytes(64)
    times = (int(facts.st_atime), int(facts.st_mtime), int(facts.st_ctime))
    owner = (2000, 2000)
    return struct.pack(
        "<IQQIIIIQqqq", 0, facts.st_dev, facts.st_ino, facts.st_mode, facts.st_nlink, *owner, facts.st_size, *times
    )


def _stat(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    stream.write(b"STAT" + _fields1(_lstat(root, path, follow=False)[1]))


def _stat2(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    stream.write(b"STA2" + _fields2(*_lstat(root, path, follow=True)))


def _lstat2(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    stream.write(b"LST2" + _fields2(*_lstat(root, path, follow=False)))


def _entries(root: DeviceRoot, path: bytes) -> list[tuple[bytes, int, os.stat_result | None]]:
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(os.fsencode(root.host(path))))
        return [(name, *_lstat(root, path + b"/" + name, follow=False)) for name in (b".", b"..", *names)]
    return []


def _list(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    entries = [
        b"DENT" + _fields1(facts) + struct.pack("<I", len(name)) + name for name, _, facts in _entries(root, path)
    ]
    stream.write(b"".join(entries) + b"DONE" + bytes(16))


def _list2(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    entries = [
        b"DNT2" + _fields2(error, facts) + struct.pack("<I", len(name)) + name
        for name, error, facts in _entries(root, path)
    ]
    stream.write(b"".join(entries) + b"DONE" + bytes(72))


def _send(stream: Stream, root: DeviceRoot, argument: bytes) -> None:
    """Receive a file. The remains of an incomplete one stay, as after a device's own crash."""
    path, _, said_mode = argument.rpartition(b",")
    mode = int(said_mode)
    failure = ""
    try:
        target, file = _open_target(root, path, mode)
    except OSError as error:
        failure, file = f"couldn't create file: {error.strerror}", None
    link = bytearray()
    while True:
        name, size = struct.unpack("<4sI", stream.read(8))
        if name == b"DONE":
            mtime = size
            break
        data = stream.read(size)
        if failure:
            continue  # the rest is read before the answer: adb does not expect it earlier
        try:
            if file:
                root.take(size)
                file.write(data)
            else:
                link += data
        except OSError as error:
            failure = f"write failed: {error.strerror}"
    if file:
        file.close()
    if failure:
        if file:
            root.give(target.stat().st_size)
            target.unlink(missing_ok=True)
        _fail(stream, failure)
        return
    if stat.S_ISLNK(mode):
        target.symlink_to(os.fsdecode(bytes(link).rstrip(b"\0")))
    else:
        target.chmod(mode & 0o777)
        os.utime(target, (mtime, mtime))
    stream.write(b"OKAY" + bytes(4))


def _open_target(root: DeviceRoot, path: bytes, mode: int) -> tuple[Path, BinaryIO | None]:
    """Open the file to write, and create its folders; None in its place for a link."""
    target = root.host(path, follow=False)
    missing = [folder for folder in target.parents if not folder.exists()]
    root.check_writable(missing[-1].parent if missing else target.parent)
    root.measure()  # shells write and remove files, too
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() and not target.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() or target.is_symlink():
        root.give(target.lstat().st_size)
        target.unlink()
    return target, None if stat.S_ISLNK(mode) else target.open("wb")


def _receive(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    try:
        with root.host(path).open("rb") as file:
            pieces = MAX_PIECES * PIECE
            while data := file.read(pieces):
                cut = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
                stream.write(b"".join(b"DATA" + struct.pack("<I", len(piece)) + piece for piece in cut))
    except OSError as error:
        _fail(stream, f"open failed: {error.strerror}")
        return
    stream.write(b"DONE" + bytes(4))


MAX_PIECES = 15
"""Pieces in one message: with their headers less than a message's 1 MiB."""
