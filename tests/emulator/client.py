"""What speaks to an emulated device without adb: a connection of raw messages, and a stream in memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from kz_build.emulator.adbd import CHECKSUMS, CNXN, MAX_DATA, OPEN, VERSION
from kz_build.emulator.root import DeviceRoot
from kz_build.emulator.stream import Gone, Stream


class Message(NamedTuple):
    """One message of adb's protocol."""

    command: int
    first: int
    second: int
    data: bytes


class Client:
    """A connection of some version to a device."""

    def __init__(self, port: int, version: int = VERSION) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.version = version
        self.welcomed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(
        self, command: int, first: int = 0, second: int = 0, data: bytes = b"", *, total: int | None = None
    ) -> None:
        checked = self.version == CHECKSUMS or not self.welcomed
        total = (sum(data) if checked else 0) if total is None else total
        self.sock.sendall(struct.pack("<6I", command, first, second, len(data), total, command ^ 0xFFFFFFFF) + data)

    def receive(self) -> Message:
        """Return the next message, whose checksum is right. Raises ConnectionError if the device ended the connection."""
        command, first, second, size, total, magic = struct.unpack("<6I", self._exactly(24))
        data = self._exactly(size)
        assert magic == command ^ 0xFFFFFFFF
        assert total == (sum(data) if self.version == CHECKSUMS or not self.welcomed else 0)
        self.welcomed |= command == CNXN
        return Message(command, first, second, data)

    def ended(self) -> bool:
        """Read what still comes, until the device ends the connection."""
        try:
            while True:
                self.receive()
        except ConnectionError:
            return True

    def introduced(self, size: int = MAX_DATA) -> Message:
        """Say who this is; return the device's first answer."""
        self.send(CNXN, self.version, size, b"host::\0")
        return self.receive()

    def opened(self, name: str, own: int = 1) -> Message:
        """Open a stream; return the device's answer."""
        self.send(OPEN, own, 0, name.encode() + b"\0")
        return self.receive()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (part := self.sock.recv(size - len(data))):
                raise ConnectionResetError
            data += part
        return data


class _Memory(Stream):
    """A stream whose other side sent all its data, and acknowledges at once."""

    def __init__(self, data: bytes) -> None:
        self.rest, self.sent = memoryview(data), list[bytes]()

    def read_some(self, most: int = 1 << 30) -> memoryview:
        if not self.rest:
            raise Gone
        data, self.rest = self.rest[:most], self.rest[most:]
        return data

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))


def answers(serve: Callable[[Stream, DeviceRoot], None], data: bytes, root: DeviceRoot) -> list[bytes]:
    """Give a service some input, and then no more; return the messages that it wrote."""
    stream = _Memory(data)
    with contextlib.suppress(Gone):
        serve(stream, root)
    return stream.sent
