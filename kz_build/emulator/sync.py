"""adb's sync service of an emulated device: STAT, LIST, SEND and RECV, in both versions, by adb's SYNC.TXT.

A request that cannot be done is answered with FAIL. One that breaks the protocol also ends the stream, for nobody knows where the
next one would begin.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from kz_build.emulator.root import DeviceRoot
from kz_build.emulator.stream import Stream

PIECE = 64 * 1024
"""The most bytes in one DATA, as in adb."""
MESSAGE = 15 * PIECE
"""How much is sent at once: with all headers less than a message's 1 MiB."""
PATH_BYTES = 1024
_WORD = 0xFFFFFFFF


class Refused(Exception):
    """A request that breaks the protocol."""


def serve(stream: Stream, root: DeviceRoot) -> None:
    """Answer requests until QUIT or one that breaks the protocol, or until the other side is gone (Gone)."""
    answers: dict[bytes, Callable[[Stream, DeviceRoot, bytes], None]] = {
        b"STAT": _stat,
        b"STA2": _stat2,
        b"LST2": _lstat2,
        b"LIST": _list,
        b"LIS2": _list2,
        b"SEND": _send,
        b"RECV": _receive,
    }
    with contextlib.suppress(Refused):
        while True:
            name, size = struct.unpack("<4sI", stream.read(8))
            if name == b"QUIT":
                return
            if name not in answers:
                raise _refused(stream, f"unknown command {name!r}")
            if size > PATH_BYTES:
                raise _refused(stream, "path too long")
            if b"\0" in (argument := stream.read(size)):
                raise _refused(stream, "a NUL in a path")
            answers[name](stream, root, argument)


def _refused(stream: Stream, text: str) -> Refused:
    _fail(stream, text)
    return Refused(text)


def _fail(stream: Stream, text: str) -> None:
    message = text.encode()
    stream.write(b"FAIL" + struct.pack("<I", len(message)) + message)


def _lstat(root: DeviceRoot, path: bytes, *, follow: bool) -> tuple[int, os.stat_result | None]:
    try:
        return 0, root.host(path, follow=follow).lstat()
    except OSError as error:
        return error.errno or errno.EIO, None


def _fields1(facts: os.stat_result | None) -> bytes:
    return struct.pack("<3I", facts.st_mode, facts.st_size & _WORD, int(facts.st_mtime) & _WORD) if facts else bytes(12)


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


class _Incoming:
    """A file or a link that arrives. `failure`: why the device cannot have it; its data is still read, as adb expects."""

    def __init__(self, root: DeviceRoot, path: bytes, mode: int) -> None:
        self.root, self.mode = root, mode
        self.failure = ""
        self.file: BinaryIO | None = None
        self.link = bytearray()
        with self._failing("couldn't create file"):
            self.target = _free_target(root, path)
            if not stat.S_ISLNK(mode):
                self.file = self.target.open("xb")

    def write(self, data: memoryview) -> None:
        """Take the next part."""
        if self.failure:
            return
        with self._failing("write failed"):
            if self.file:
                self.root.take(len(data))
                self.file.write(data)
            elif len(self.link) + len(data) > PATH_BYTES:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            else:
                self.link += data

    def end(self, mtime: int) -> None:
        """Give a whole file its mode and time, or create the link; remove what is not whole."""
        with self._failing("write failed"), self.file or contextlib.nullcontext():
            if self.file and not self.failure:
                self.file.flush()
                os.fchmod(self.file.fileno(), self.mode & 0o777)
                os.utime(self.file.fileno(), (mtime, mtime))
            elif not self.failure:
                self.target.symlink_to(os.fsdecode(bytes(self.link).partition(b"\0")[0]))
        if self.failure and self.file:
            with contextlib.suppress(OSError):
                self.root.give(self.target.stat().st_size)
                self.target.unlink()

    @contextlib.contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = self.failure or f"{what}: {error.strerror}"


def _send(stream: Stream, root: DeviceRoot, argument: bytes) -> None:
    """Receive a file. The remains of an incomplete one stay, as after a device's own crash."""
    path, _, mode = argument.rpartition(b",")
    if not (mode.isdigit() and len(mode) < 9):
        raise _refused(stream, "no mode behind the path")
    incoming = _Incoming(root, path, int(mode))
    try:
        while True:
            name, size = struct.unpack("<4sI", stream.read(8))
            if name == b"DONE":
                break
            if name != b"DATA" or size > PIECE:
                raise _refused(stream, "neither DONE nor DATA of at most 64 KiB")
            for piece in stream.pieces(size):
                incoming.write(piece)
    except BaseException:
        if incoming.file:
            incoming.file.close()
        raise
    incoming.end(size)
    if incoming.failure:
        _fail(stream, incoming.failure)
    else:
        stream.write(b"OKAY" + bytes(4))


def _free_target(root: DeviceRoot, path: bytes) -> Path:
    """Create the folders of a path and remove a file that is there. Raises OSError if the device may not write it."""
    target = root.host(path, follow=False)
    facts = None
    with contextlib.suppress(FileNotFoundError):
        facts = target.lstat()
    if facts and stat.S_ISDIR(facts.st_mode):  # the root itself, too: nothing above it is looked at
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    there = target.parent
    while not there.exists():
        there = there.parent
    root.check_writable(there)
    root.measure()  # shells write and remove files, too
    if there != target.parent:
        target.parent.mkdir(parents=True, exist_ok=True)
    if facts:
        root.give(facts.st_size)
        target.unlink()
    return target


def _receive(stream: Stream, root: DeviceRoot, path: bytes) -> None:
    message = bytearray()  # the end comes in one message with the last data: adb answers each only after 40 ms
    try:
        with _regular(root.host(path)) as file:
            while data := file.read(PIECE):
                message += b"DATA" + struct.pack("<I", len(data)) + data
                if len(message) >= MESSAGE:
                    stream.write(message)
                    message = bytearray()
    except OSError as error:
        _fail(stream, f"open failed: {error.strerror}")
        return
    stream.write(message + b"DONE" + bytes(4))


def _regular(path: Path) -> BinaryIO:
    """Open a file to read. Raises OSError for what is no regular file: opening a pipe would wait for a writer."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(file, "rb")
