"""The device side of adb's protocol, on loopback: the real adb connects to it when there is no device.

By adb's own protocol.txt: CNXN and AUTH, then streams by OPEN, with one unacknowledged WRTE each way, OKAY for each and CLSE
at the end. Those who connect can make it hold no more than LINKS connections, STREAMS streams, and two messages for each.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from kz_build.emulator.adb_key import TOKEN_BYTES
from kz_build.emulator.stream import Gone, Stream

AUTH, CNXN, OPEN, OKAY, CLSE, WRTE = (
    int.from_bytes(name, "little") for name in (b"AUTH", b"CNXN", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
TOKEN, SIGNATURE = 1, 2
"""Kinds of AUTH."""
CHECKSUMS, VERSION = 0x01000000, 0x01000001
"""The version whose messages have checksums, as all before the end of the handshake, and the one from which on they have none."""
MAX_DATA = 1 << 20
HANDSHAKE_DATA = 4096
"""The longest message of someone who has not proved who they are."""
LINKS = 32
STREAMS = 64
"""Connections, and streams of all of them, at once."""
FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"
Service = Callable[[Stream], None]


class Link:
    """A connection from an adb server. `serve` runs until it breaks."""

    def __init__(self, sock: socket.socket, listener: Listener) -> None:
        self.sock, self.listener = sock, listener
        self.version = CHECKSUMS
        self.max_data = HANDSHAKE_DATA
        self.trusted = False
        self.offered = (0, 0)
        self.token = b""
        self.streams: dict[int, Stream] = {}
        self.last = 0
        self.sending = threading.Lock()

    def send(self, command: int, first: int, second: int, data: bytes | memoryview = b"") -> None:
        """Send one message. Raises Gone if the connection is broken."""
        total = sum(data) if self.version == CHECKSUMS else 0
        head = struct.pack("<6I", command, first, second, len(data), total, command ^ 0xFFFFFFFF)
        try:
            with self.sending:
                self.sock.sendall(b"".join((head, data)) if len(data) < 4096 else head)
                if len(data) >= 4096:
                    self.sock.sendall(data)
        except OSError as error:
            raise Gone from error

    def acknowledge(self, own: int, theirs: int) -> None:
        """Let the other side send more of a stream."""
        self.send(OKAY, own, theirs)

    def send_data(self, own: int, theirs: int, data: bytes | memoryview) -> None:
        """Send some of a stream."""
        self.send(WRTE, own, theirs, data)

    def serve(self) -> None:
        """Read messages until the connection ends or breaks the protocol, then end every stream of it."""
        try:
            with contextlib.suppress(Gone, OSError):
                while True:
                    command, first, second, size, total, magic = struct.unpack("<6I", self._exactly(24))
                    if magic != command ^ 0xFFFFFFFF or size > (MAX_DATA if self.trusted else HANDSHAKE_DATA):
                        raise Gone  # adb never sends that
                    data = self._exactly(size)
                    if self.version == CHECKSUMS and total != sum(data):
                        raise Gone
                    self._take(command, first, second, data)
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
        if not self.trusted:
            self._authenticate(command, first, second, bytes(data))
        elif command == OPEN:
            self._open(first, bytes(data).partition(b"\0")[0].decode("utf-8", "surrogateescape"))
        elif stream := self.streams.get(second):
            if command == WRTE:
                self.listener.count(len(data))
                stream.put(data)
            elif command == OKAY:
                stream.free.release()
            elif command == CLSE:
                stream.end()

    def _authenticate(self, command: int, first: int, second: int, data: bytes) -> None:
        """Ask for a signature until one is right. Who offers a new key is left waiting: adb shows the device as unauthorized."""
        if command == CNXN:
            self.offered = (first, second)
        elif command != AUTH or not self.token:
            raise Gone
        elif first != SIGNATURE:
            return
        elif self.listener.trusts(self.token, data):
            self.trusted = True
            version, size = self.offered
            self.send(CNXN, VERSION, MAX_DATA, self.listener.banner.encode())
            self.version, self.max_data = min(VERSION, max(CHECKSUMS, version)), min(MAX_DATA, max(1, size))
            return
        self.token = os.urandom(TOKEN_BYTES)
        self.send(AUTH, TOKEN, 0, self.token)

    def _open(self, theirs: int, name: str) -> None:
        service = self.listener.service(name)
        if service is None or not self.listener.room.acquire(blocking=False):
            self.send(CLSE, 0, theirs)
            return
        self.last += 1
        stream = self.streams[self.last] = Stream(self, self.last, theirs)
        self.send(OKAY, stream.own, theirs)
        try:
            threading.Thread(target=self._run, args=(service, stream), daemon=True).start()
        except RuntimeError:  # this machine starts no more threads
            self._end(stream)

    def _run(self, service: Service, stream: Stream) -> None:
        try:
            with contextlib.suppress(Gone, OSError):  # such as E2BIG: a device only closes the stream
                service(stream)
        finally:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        self.streams.pop(stream.own, None)
        self.listener.room.release()
        stream.end()  # wake a reader that still waits for input
        with contextlib.suppress(Gone):
            self.send(CLSE, stream.own, stream.theirs)


class Listener:
    """A port on loopback that adb servers connect to.

    `banner` names the device, `service` maps a name to its service, `trusts` tells whether the owner signed a token.
    """

    def __init__(
        self,
        banner: str,
        service: Callable[[str], Service | None],
        trusts: Callable[[bytes, bytes], bool],
        *,
        port: int = 0,
    ) -> None:
        self.banner, self.service, self.trusts = banner, service, trusts
        self.port = port
        self.links: list[Link] = []
        self.room = threading.BoundedSemaphore(STREAMS)
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
        sock, self.sock = self.sock, None
        if sock:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
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
        while self.sock is sock:
            try:
                taken: Any = sock.accept()[0]
            except OSError:  # it was shut, or this process may open no more files for now
                time.sleep(0.05)
                continue
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(taken, self)
            self.links.append(link)
            if len(self.links) > LINKS:  # who has proved nothing goes first, then who comes last
                next((old for old in self.links if not old.trusted), link).close()
            try:
                threading.Thread(target=link.serve, daemon=True).start()
            except RuntimeError:  # this machine starts no more threads
                link.close()
            if self.sock is not sock:
                link.close()
