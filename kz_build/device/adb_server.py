"""Requests to an adb server, as SERVICES.TXT and shell_protocol.h of adb's sources describe them.

adbutils has them too, but its import takes 200 ms, and each of its connections 10 ms to close.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from kz_build.core.process import Output

_STDOUT, _STDERR, _EXIT = 1, 2, 3
MOST_OUTPUT = 256 << 20
"""The most bytes of a command's output; all buffers of a phone's log have a fraction of that."""


class AdbError(Exception):
    """The server, or a device behind it, refused a request."""


class Listed(NamedTuple):
    """A device as the server lists it."""

    serial: str
    state: str
    tags: dict[str, str]


class Client(NamedTuple):
    """A server's port, and for how long it may be silent."""

    port: int
    timeout: float

    @contextlib.contextmanager
    def request(self, *words: str, timeout: float | None = None) -> Iterator[socket.socket]:
        """Open a connection and send requests; yield it if the server says OKAY. Raises AdbError with what it says otherwise."""
        with socket.create_connection(("127.0.0.1", self.port), timeout or self.timeout) as sock:
            for word in words:
                data = word.encode("utf-8", "surrogateescape")
                sock.sendall(b"%04x" % len(data) + data)
                if (status := exactly(sock, 4)) != b"OKAY":
                    raise AdbError(text(sock) if status == b"FAIL" else f"Unknown data: {status!r}")
            yield sock

    def devices(self) -> list[Listed]:
        """Return the devices, in any state."""
        with self.request("host:devices-l") as sock:
            rows = [row.split() for row in text(sock).splitlines()]
        return [
            Listed(row[0], row[1], dict(word.split(":", 1) for word in row[2:] if ":" in word))
            for row in rows
            if len(row) > 1
        ]

    def connect(self, address: str, timeout: float) -> str:
        """Let the server connect to a device at host:port; return what it says."""
        with self.request(f"host:connect:{address}", timeout=timeout) as sock:
            return text(sock)

    def disconnect(self, address: str) -> None:
        """Let the server forget a device at host:port, if it knows it."""
        with contextlib.suppress(AdbError), self.request(f"host:disconnect:{address}"):
            pass

    def service(self, serial: str, name: str, timeout: float) -> AbstractContextManager[socket.socket]:
        """Open a service of a device, such as `sync:`."""
        return self.request(f"host:transport:{serial}", name, timeout=timeout)

    def shell(self, serial: str, command: str, timeout: float) -> Output:
        """Run a command line to its end, for at most `timeout` seconds, whatever it prints.

        Raises TimeoutError after that, AdbError if it prints more than MOST_OUTPUT.
        """
        parts: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: []}
        deadline, room = time.monotonic() + timeout, MOST_OUTPUT
        with self.service(serial, f"shell,v2:{command}", timeout) as sock:
            while True:
                kind, size = struct.unpack("<BI", exactly(sock, 5, deadline))
                room -= size
                if room < 0:
                    raise AdbError(f"the command printed more than {MOST_OUTPUT >> 20} MB, and was ended")
                data = exactly(sock, size, deadline)
                if kind == _EXIT and data:
                    return Output(data[0], b"".join(parts[_STDOUT]), b"".join(parts[_STDERR]))
                if kind in parts:
                    parts[kind].append(data)


def exactly(sock: socket.socket, size: int, deadline: float = math.inf) -> bytes:
    """Read so many bytes. Raises EOFError if the connection ends before, TimeoutError at the `deadline` of the monotonic clock."""
    data = bytearray()
    while len(data) < size:
        if deadline < math.inf:
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            sock.settimeout(left)
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def text(sock: socket.socket) -> str:
    """Read the text that follows."""
    length = exactly(sock, 4)
    try:
        size = int(length, 16)
    except ValueError:
        raise AdbError(f"Unknown data: {length!r}") from None
    return exactly(sock, size).decode("utf-8", "replace")
