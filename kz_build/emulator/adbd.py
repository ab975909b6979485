"""The device side of adb's protocol, on loopback: the real adb connects to it when there is no device.

By adb's own protocol.txt: CNXN, then streams by OPEN, with one unacknowledged WRTE each way, OKAY for each and CLSE at the end.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

CNXN, OPEN, OKAY, CLSE, WRTE = (
    int.from_bytes(name, "little") for name in (b"CNXN", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
VERSION = 0x01000001
"""From this version on checksums are not computed; CNXN itself still has one."""
MAX_DATA = 1 << 20
FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
Service = Callable[["Stream"], None]


class Gone(Exception):
    """The other side closed the stream, or the connection broke."""


class Stream:
    """One stream of a connection; a service reads and writes it in a thread of its own."""

    def __init__(self, link: Link, own: int, theirs: int) -> None:
        self.link, self.own, self.theirs = link, own, theirs
        self.received: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self.buffer = memoryview(b"")
        self.free = threading.Semaphore(0)
        self.writing = threading.Lock()
        self.closed = False
        self.when_over: Callable[[], None] = lambda: None

    def read_some(self) -> memoryview:
        """Return the next data, at least a byte. Raises Gone if no more will come."""
        if not self.buffer:
            payload = self.received.get()
            if payload is None:
                self.received.put(None)
                raise Gone
            self.link.send(OKAY, self.own, self.theirs)
            self.buffer = payload
        data, self.buffer = self.buffer, memoryview(b"")
        return data if data else self.read_some()

    def read(self, size: int) -> bytes | memoryview:
        """Read exactly this many bytes. Raises Gone if they do not come."""
        parts, need = [], size
        while need:
            part = self.read_some()
            part, self.buffer = part[:need], part[need:]
            parts.append(part)
            need -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data: bytes | memoryview) -> None:
        """Send all of it, each piece after the one before was acknowledged. Raises Gone if the other side is gone."""
        with self.writing:
            for at in range(0, len(data), self.link.max_data):
                if self.closed:
                    raise Gone
                self.link.send(WRTE, self.own, self.theirs, data[at : at + self.link.max_data])
                self.free.acquire()
        if self.closed:
            raise Gone

    def end(self) -> None:
        """End the stream, and wake everyone who waits for it."""
        self.closed = True
        self.received.put(None)
        self.free.release()
        self.when_over()


class Link:
    """A connection from an adb server. `serve` runs until it breaks."""

    def __init__(self, sock: socket.socket, listener: Listener) -> None:
        self.sock, self.listener = sock, listener
        self.max_data = MAX_DATA
        self.streams: dict[int, Stream] = {}
        self.last = 0
        self.sending = threading.Lock()

    def send(self, command: int, own: int, theirs: int, data: bytes | memoryview = b"") -> None:
        """Send one message. Raises Gone if the connection is broken."""
        total = sum(data) if command == CNXN else 0
        head = struct.pack("<6I", command, own, theirs, len(data), total, command ^ 0xFFFFFFFF)
        try:
            with self.sending:
                self.sock.sendall(head + data if len(data) < 4096 else head)
                if len(data) >= 4096:
                    self.sock.sendall(data)
        except OSError as error:
            raise Gone from error

    def serve(self) -> None:
        """Read messages until the connection ends, then end every stream of it."""
        try:
            with contextlib.suppress(Gone, OSError):
                while True:
                    command, first, second, size, _, _ = struct.unpack("<6I", self._exactly(24))
                    if size > MAX_DATA:
                        raise Gone  # adb never sends that
                    self._take(command, first, second, self._exactly(size))
        finally:
            self.close()

    def close(self) -> None:
        """Break the connection."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        for stream in list(self.streams.values()):
            stream.end()
        with contextlib.suppress(ValueError):
            self.listener.links.remove(self)

    def _exactly(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        at = 0
        while at < size:
            count = self.sock.recv_into(data[at:])
            if not count:
                raise Gone
            at += count
        return data

    def _take(self, command: int, first: int, second: int, data: memoryview) -> None:
        if command == CNXN:
            self.max_data = min(MAX_DATA, second)
            self.send(CNXN, VERSION, MAX_DATA, self.listener.banner.encode())
        elif command == OPEN:
            self._open(first, bytes(data).partition(b"\0")[0].decode("utf-8", "surrogateescape"))
        elif stream := self.streams.get(second):
            if command == WRTE:
                self.listener.count(len(data))
                stream.received.put(data)
            elif command == OKAY:
                stream.free.release()
            elif command == CLSE:
                stream.end()

    def _open(self, theirs: int, name: str) -> None:
        service = self.listener.service(name)
        if service is None:
            self.send(CLSE, 0, theirs)
            return
        self.last += 1
        stream = self.streams[self.last] = Stream(self, self.last, theirs)
        self.send(OKAY, stream.own, theirs)
        threading.Thread(target=self._run, args=(service, stream), daemon=True).start()

    def _run(self, service: Service, stream: Stream) -> None:
        try:
            with contextlib.suppress(Gone):
                service(stream)
        finally:
            self.streams.pop(stream.own, None)
            stream.end()  # wake a reader that still waits for input
            with contextlib.suppress(Gone):
                self.send(CLSE, stream.own, stream.theirs)


class Listener:
    """A port on loopback that adb servers connect to. `banner` names the device, `service` maps a name to its service."""

    def __init__(self, banner: str, service: Callable[[str], Service | None], port: int = 0) -> None:
        self.banner, self.service = banner, service
        self.port = port
        self.links: list[Link] = []
        self.cut_after: int | None = None
        self.sock: socket.socket | None = None
        self.open()

    def open(self) -> None:
        """Listen, on the same port as before. Raises OSError if the port is taken."""
        sock = socket.socket()
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", self.port))
            sock.listen()
        except OSError:
            sock.close()
            raise
        self.port = sock.getsockname()[1]
        self.sock = sock
        threading.Thread(target=self._accept, args=(sock,), daemon=True).start()

    def shut(self) -> None:
        """Break every connection and stop listening."""
        if self.sock:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
            self.sock.close()
            self.sock = None
        for link in list(self.links):
            link.close()

    def count(self, size: int) -> None:
        """Count received bytes. Raises Gone once, at the byte where `cut_after` pulls the cable."""
        if self.cut_after is not None:
            self.cut_after -= size
            if self.cut_after < 0:
                self.cut_after = None
                raise Gone

    def _accept(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                taken: Any = sock.accept()[0]
                taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = Link(taken, self)
                self.links.append(link)
                threading.Thread(target=link.serve, daemon=True).start()
