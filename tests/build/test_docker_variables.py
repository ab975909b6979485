"""A DOCKER_HOST that is no daemon's, and a KZ_MEMORY that is no size."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from kz_build.build.docker_engine import memory_limit
from kz_build.container.daemon import connect
from kz_build.core.errors import ConfigError, MissingError


@pytest.fixture
def server() -> Iterator[str]:
    """Address of a server that gives the same answer to every question."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"ApiVersion": "1.41"}')

        def log_message(self, *words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{made.server_port}"
        made.shutdown()


@pytest.mark.parametrize("address", ["tcp://HOST:PORT", "tcp://[::1", "garbage", ""])
def test_what_is_no_daemons_address_is_missing(address: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tcp://HOST:PORT`, as kz itself says it, ended in a traceback."""
    monkeypatch.setenv("DOCKER_HOST", address or server)
    with pytest.raises(MissingError) as missing:
        connect()
    assert (address or server) in str(missing.value) and "--engine host" in str(missing.value)


@pytest.mark.parametrize("size", ["²g", "16x", "g", "-1g", "9" * 5000])
def test_a_memory_limit_that_is_no_size(size: str) -> None:
    with pytest.raises(ConfigError, match="is not a size"):
        memory_limit(size)
