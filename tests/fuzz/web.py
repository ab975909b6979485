"""A web server on loopback that answers with any bytes, and kz's readers of such answers."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from kz_build.core import github, http
from kz_build.core.files import remove
from kz_build.sources import package_index

BETWEEN = b"\n%%%%\n"
"""What separates the answers in a file: one for each request, the last one for all that follow."""
MOST_SLEEP = 600
_MOST_REQUESTS = 200


class Server:
    """`answers` are sent, one for each connection, whatever it asks."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(2)
                while b"\r\n\r\n" not in (asked := connection.recv(1 << 16)):
                    if not asked:
                        break
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                self.requests += 1
                if self.requests < _MOST_REQUESTS:
                    connection.sendall(answer.replace(b"SERVER", self.address.encode()))
                connection.shutdown(socket.SHUT_WR)


@functools.cache
def server() -> Server:
    """Return this process's server."""
    return Server()


def read_answers(kind: str) -> Callable[[bytes, Path], object]:
    """Return the reader of answers to one kind of question."""

    def read(data: bytes, folder: Path) -> None:
        running = server()
        running.answers, running.requests = data.split(BETWEEN), 0
        with _without_sleep(), _only(running.address):
            _ASKED[kind](running.address, folder)

    return read


@contextlib.contextmanager
def _without_sleep() -> Iterator[None]:
    """Count the seconds that kz would sleep, instead of sleeping. Raises AssertionError for more than MOST_SLEEP."""
    slept = 0.0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds
        assert slept < MOST_SLEEP, f"it sleeps {slept:,.0f} s"

    with mock.patch.object(time, "sleep", sleep):
        yield


@contextlib.contextmanager
def _only(address: str) -> Iterator[None]:
    """Let nothing but this server be found: a hostile redirect must not reach another."""
    host, port = address.removeprefix("http://").split(":")
    usual = socket.getaddrinfo

    def find(name: object, number: object, *more: int, **words: int) -> object:
        if (name, str(number)) != (host, port):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return usual(host, int(port), *more, **words)

    with mock.patch.object(socket, "getaddrinfo", find):
        yield


def _download(address: str, folder: Path) -> None:
    part = folder / "part"
    remove(part)
    remove(part.with_suffix(".etag"))
    http.download(f"{address}/file.zip", part, lambda _: None, proved=False)


def _github(address: str, folder: Path) -> None:
    with mock.patch.object(github, "_api", lambda: address):
        github.open_pulls(folder, "owner/name")


_ASKED: dict[str, Callable[[str, Path], object]] = {
    "index": lambda address, _: package_index.find_wheel(f"{address}/simple", "torch", "1.0", "*-none-any"),
    "download": _download,
    "size": lambda address, _: http.size(f"{address}/file.zip"),
    "github": _github,
}
