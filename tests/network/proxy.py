"""Every host of the internet, played on loopback by a proxy that ends TLS: what kz asks for, it asks for by its real address."""

from __future__ import annotations

import gzip
import ssl
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.network.repositories import Repository
from tests.stack.test_git_tools import ENV, sh

_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO")


class Network:
    """`pages` are files by address, `repository` what all addresses of git are answered from. `asked` has each address that
    was asked for, without its query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.repository = Repository(folder / "repository.git")
        self.asked: set[str] = set()
        self.authority = folder / "authority.pem"
        self.environment: dict[str, str] = {}

    def put(self, url: str, data: bytes, kind: str = "application/octet-stream") -> None:
        """Serve a file at an address."""
        self.pages[url] = (kind, data)

    def put_index(self, page: str, files: Iterable[tuple[str, str]]) -> None:
        """Serve the page of a package index: (address, sha256) of each file, as PyPI and download.pytorch.org write it."""
        links = (f'<a href="{url}#sha256={digest}">{unquote(url.rsplit("/", 1)[1])}</a><br>\n' for url, digest in files)
        self.put(page, "".join(("<!DOCTYPE html>\n", *links)).encode(), "text/html")

    def hosts(self) -> list[str]:
        """Every host that it plays."""
        return sorted({urlsplit(url).netloc for url in (*self.pages, *self.repository.addresses)})

    @contextmanager
    def served(self) -> Iterator[None]:
        """Serve it all. `environment` is then that of a user behind such a proxy, and of nothing else that redirects."""
        context = self._certified()

        class Handler(_Handler):
            network, tls = self, context

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}"
            self.environment = {
                "HTTPS_PROXY": address,
                "HTTP_PROXY": address,
                "https_proxy": address,
                "http_proxy": address,
            }
            self.environment |= dict.fromkeys(_BUNDLES, str(self.authority))
            try:
                yield
            finally:
                server.shutdown()

    def _certified(self) -> ssl.SSLContext:
        """An authority of its own, and one certificate by it for all these hosts."""
        key, own = self.folder / "key.pem", self.folder / "certificate.pem"
        names = ",".join(f"DNS:{host}" for host in self.hosts())
        new = (
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
        )
        top = self.folder / "authority-key.pem"
        sh(*new, "/CN=kz test authority", "-keyout", top, "-out", self.authority, cwd=self.folder)
        sh(
            *new, "/CN=played", "-keyout", key, "-out", own, "-CA", self.authority, "-CAkey", top,
            "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE", cwd=self.folder,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own, key)
        return context


class _Handler(BaseHTTPRequestHandler):
    network: Network
    tls: ssl.SSLContext
    protocol_version = "HTTP/1.1"
    host = ""

    def log_message(self, format: str, *args: object) -> None: ...

    def do_CONNECT(self) -> None:
        """Answer for the host from here on."""
        self.host = self.path.rpartition(":")[0]
        self.send_response(200, "Connection established")
        self.end_headers()
        try:
            self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        except (ssl.SSLError, OSError):
            self.close_connection = True
            return
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def do_GET(self) -> None:
        """A file, or the first request of a git fetch."""
        url = f"https://{self.host}{urlsplit(self.path).path}" if self.host else self.path
        self.network.asked.add(url)
        if url in self.network.pages:
            self._answer(200, *self.network.pages[url])
        elif asked := self._of_git(url):
            self._git(asked)
        else:
            missing = 403 if self.host == "download.pytorch.org" else 404  # as the real one says
            self._answer(missing, "text/plain", f"nobody plays {url}".encode())

    do_POST = do_HEAD = do_GET

    def _of_git(self, url: str) -> str:
        """What is asked of a git repository, '' if none has that address."""
        for service in ("/info/refs", "/git-upload-pack"):
            if (
                url.endswith(service)
                and url.removesuffix(service).removesuffix(".git") in self.network.repository.addresses
            ):
                return service
        return ""

    def _git(self, service: str) -> None:
        """Answer as a forge does, by git's protocol 2."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        first = service == "/info/refs"
        argv = ["git", "upload-pack", "--http-backend-info-refs" if first else "--stateless-rpc", "."]
        place, env = self.network.repository.folder, {**ENV, "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        data = subprocess.run(argv, cwd=place, input=body, env=env, capture_output=True, check=True).stdout
        self._answer(200, f"application/x-git-upload-pack-{'advertisement' if first else 'result'}", data)

    def _answer(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            if self.command != "HEAD":
                self.wfile.write(data)
            self.wfile.flush()
        except OSError:  # the other side has seen enough
            self.close_connection = True
