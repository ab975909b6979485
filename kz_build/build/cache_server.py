"""A compile cache's server, and the only way to it from a build without network.

The programs of a build have a network of their own, in which the server's name means a socket that kz made there. kz takes
each connection to that one server: it can speak TLS, which ccache cannot, and gives a server up that does not answer.
"""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Lock, Thread
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from kz_build.core.env import variable, with_password
from kz_build.core.errors import ConfigError
from kz_build.core.locks import scratch_folder
from kz_build.core.rules import CACHE_PORTS, bad_cache
from kz_build.pins.project import Project

CONNECT_SECONDS, ANSWER_SECONDS = 2.0, 10.0
MOST_FAILURES = 3
"""A server that fails so often is not asked again in this build."""
_PIECE = 1 << 16


@dataclass(frozen=True)
class CacheServer:
    """An address as ccache takes it, perhaps with a password, or with TLS; `write` says whether results go there."""

    address: str
    write: bool

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.address)

    @property
    def place(self) -> tuple[str, int]:
        """Return host and port."""
        return self.parts.hostname or "", self.parts.port or CACHE_PORTS[self.parts.scheme]

    @property
    def tls(self) -> bool:
        return self.parts.scheme in ("https", "rediss")

    @property
    def name(self) -> str:
        """Return what people read."""
        return "{}:{}".format(*self.place)

    def storage(self, host: str = "") -> str:
        """Return the value of ccache's `remote_storage`, for a server without TLS, perhaps by another name."""
        parts = self.parts
        user, at, _ = parts.netloc.rpartition("@")
        user = user.removeprefix(":")  # ccache takes `:password` for a user without a name
        scheme = parts.scheme.removesuffix("s") if self.tls else parts.scheme
        host = host or parts.hostname or ""
        netloc = f"{user}{at}{f'[{host}]' if ':' in host else host}:{self.place[1]}"
        return parts._replace(scheme=scheme, netloc=netloc).geturl() + ("" if self.write else "|read-only=true")


def cache_server(project: Project) -> CacheServer | None:
    """Return the server that KZ_CCACHE_REMOTE or the pins name, None without one. Raises ConfigError."""
    pinned = project.pins.data.get("cache") or {}
    address, where = variable("KZ_CCACHE_REMOTE"), "KZ_CCACHE_REMOTE"
    if not address:
        address, where = with_password(pinned.get("remote", "")), "`cache` in pins.yaml or pins.local.yaml"
    if address and (wrong := bad_cache(address)):
        raise ConfigError(f"{where}: the address {wrong}", hint="docs/guides/team-cache.md has examples")
    if not address or variable("KZ_CCACHE") == "0":
        return None
    return CacheServer(address, bool(pinned.get("write", True)))


class Way(NamedTuple):
    """The way to a server from a network of its own: options for mounted_root.py, and the server as ccache sees it."""

    options: dict[str, object]
    storage: str


class CacheBridge:
    """Takes connections to one server. `failure` says why it was given up, '' as long as it answers."""

    def __init__(self, server: CacheServer) -> None:
        self.server = server
        self.failure = ""
        self._failures = 0
        self._lock = Lock()
        self._listener: socket.socket | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[Way]:
        """Take connections until the end of the block."""
        host, port = self.server.place
        inner = "127.0.0.1" if _is_number(host) else host
        with scratch_folder() as folder, socket.socket(socket.AF_UNIX) as control:
            control.bind(str(folder / "s"))
            control.listen()
            _start(self._take_listeners, control)
            try:
                yield Way({"host": inner, "port": port, "socket": str(folder / "s")}, self.server.storage(inner))
            finally:
                _close(control)
                self._listen_on(None)

    def _take_listeners(self, control: socket.socket) -> None:
        """Take the socket that each command's program made in its own network."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = control.accept()
                with connection:
                    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
                    for descriptor in descriptors:
                        self._listen_on(socket.socket(fileno=descriptor))
                    connection.sendall(b"1")

    def _listen_on(self, listener: socket.socket | None) -> None:
        """Listen for one command; the one before has ended."""
        before, self._listener = self._listener, listener
        if before:
            _close(before)
        if listener:
            _start(self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                _start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        with client:
            if self.failure:
                return
            try:
                with self._reached() as server:
                    _exchange(client, server)
            except OSError as error:
                with self._lock:
                    self._failures += 1
                    if self._failures >= MOST_FAILURES:
                        self.failure = self.failure or str(error) or type(error).__name__

    def _reached(self) -> socket.socket:
        server = socket.create_connection(self.server.place, CONNECT_SECONDS)
        server.settimeout(ANSWER_SECONDS)
        if not self.server.tls:
            return server
        return ssl.create_default_context().wrap_socket(server, server_hostname=self.server.place[0])


def _exchange(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side closes. Raises TimeoutError if the server owes an answer too long."""
    asked = False
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select(ANSWER_SECONDS if asked else None)]
            if not ready:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} s")
            if client in ready:
                try:
                    piece = client.recv(_PIECE)
                except OSError:
                    return
                if not piece:
                    return
                server.sendall(piece)
                asked = True
            if server in ready:
                piece = server.recv(_PIECE)
                while isinstance(server, ssl.SSLSocket) and server.pending():
                    piece += server.recv(_PIECE)
                if not piece:
                    return
                asked = False
                try:
                    client.sendall(piece)
                except OSError:
                    return


def _start(function: Callable[[socket.socket], None], argument: socket.socket) -> None:
    Thread(target=function, args=(argument,), daemon=True).start()


def _close(listener: socket.socket) -> None:
    """Close a socket that another thread waits on."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
