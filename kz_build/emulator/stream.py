"""One stream of a connection to an emulated device, with at most one unacknowledged message each way."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kz_build.emulator.adbd import Link


class Gone(Exception):
    """The other side closed the stream, broke the protocol, or the connection broke."""


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

    def put(self, data: memoryview) -> None:
        """Take data from the connection. Raises Gone if the other side did not wait until the data before was acknowledged."""
        if self.received.qsize() > 1:
            raise Gone
        self.received.put(data)

    def read_some(self, most: int = 1 << 30) -> memoryview:
        """Return the next data, at least a byte. Raises Gone if no more will come."""
        while not self.buffer:
            payload = self.received.get()
            if payload is None:
                self.received.put(None)
                raise Gone
            self.link.acknowledge(self.own, self.theirs)
            self.buffer = payload
        data, self.buffer = self.buffer[:most], self.buffer[most:]
        return data

    def pieces(self, size: int) -> Iterator[memoryview]:
        """Read this many bytes as they come. Raises Gone if they do not come."""
        while size:
            piece = self.read_some(size)
            size -= len(piece)
            yield piece

    def read(self, size: int) -> bytes:
        """Read exactly this many bytes. Raises Gone if they do not come."""
        return b"".join(self.pieces(size))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it, each piece after the one before was acknowledged. Raises Gone if the other side is gone."""
        view = memoryview(data)
        with self.writing:
            for at in range(0, len(view), self.link.max_data):
                if self.closed:
                    raise Gone
                self.link.send_data(self.own, self.theirs, view[at : at + self.link.max_data])
                self.free.acquire()
        if self.closed:
            raise Gone

    def end(self) -> None:
        """End the stream, and wake everyone who waits for it."""
        self.closed = True
        self.received.put(None)
        self.free.release()
        self.when_over()
