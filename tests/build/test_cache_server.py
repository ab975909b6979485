"""The way of a build's compile cache to its server."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kz_build.build import cache_server
from kz_build.build.cache_server import CacheBridge, CacheServer


@pytest.mark.parametrize(
    ("address", "write", "inner", "storage"),
    [
        ("redis://:pw@cache.example", True, "", "redis://pw@cache.example:6379"),
        ("rediss://me:pw@cache.example/2", True, "", "redis://me:pw@cache.example:6379/2"),
        ("https://me:pw@cache.example/kz", False, "", "http://me:pw@cache.example:443/kz|read-only=true"),
        ("http://10.0.0.5:8080/kz", True, "127.0.0.1", "http://127.0.0.1:8080/kz"),
        ("http://[::1]:8080/kz", True, "", "http://[::1]:8080/kz"),
    ],
)
def test_ccache_gets_an_address_that_it_understands(address: str, write: bool, inner: str, storage: str) -> None:
    server = CacheServer(address, write)
    assert server.storage(inner) == storage
    assert "pw" not in server.name


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[int]]]:
    """A server on loopback; its port, and a list with an entry for each connection."""
    seen: list[int] = []

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                seen.append(1)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1], seen
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def joined(bridge: CacheBridge) -> Iterator[Callable[[bytes], bytes]]:
    """What a build's program does: a socket of its own network goes to kz. Yields a function that asks there."""
    with bridge.opened() as way, socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(way.options["socket"]))
            socket.send_fds(control, [b"1"], [listener.fileno()])
            assert control.recv(1)

        def ask(question: bytes) -> bytes:
            with socket.create_connection(listener.getsockname()) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(question)
                return connection.recv(100)
            return b""

        yield ask


def test_a_server_that_never_answers_is_soon_not_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_server, "ANSWER_SECONDS", 0.05)
    open_connections: list[socket.socket] = []
    with listening(open_connections.append) as (port, seen):
        bridge = CacheBridge(CacheServer(f"redis://localhost:{port}", True))
        with joined(bridge) as ask:
            assert [ask(b"PING") for _ in range(20)] == [b""] * 20
        assert bridge.failure == "no answer within 0.05 s"
        assert len(seen) == cache_server.MOST_FAILURES


def test_tls_is_spoken_to_the_server_whose_certificate_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "9"]
    files: list[str | Path] = ["-keyout", key, "-out", certificate, "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(["openssl", "req", "-x509", *words, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
            secure.sendall(secure.recv(100).upper())

    with listening(answer) as (port, _):
        with joined(CacheBridge(CacheServer(f"rediss://localhost:{port}", True))) as ask:
            assert ask(b"ping") == b"", "nobody knows this certificate"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with joined(CacheBridge(CacheServer(f"rediss://localhost:{port}", True))) as ask:
            assert ask(b"ping") == b"PING"
        with joined(bridge := CacheBridge(CacheServer(f"https://127.0.0.1:{port}", True))) as ask:
            assert [ask(b"ping") for _ in range(3)] == [b""] * 3, "the certificate is of another name"
        assert "certificate verify failed" in bridge.failure
