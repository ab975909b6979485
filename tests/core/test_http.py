"""Answers of web servers that lie, break off or never end: nothing but whole files is kept."""

from __future__ import annotations

import contextlib
import gzip
import io
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from kz_build.core import github, http
from kz_build.core.errors import CommandError, KzError
from kz_build.sources import package_index
from tests.fuzz.web import BETWEEN, Server

WHOLE = b"whole content"


def answer(status: str, body: bytes, *headers: str, length: str | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(line for line in lines if line != "Content-Length: ").encode() + body


GOOD = answer("200 OK", WHOLE, 'ETag: "x"')
CUT = GOOD[:-8]  # "whole" arrives


def part(span: str, body: bytes, tag: str = '"x"') -> bytes:
    return answer("206 Partial Content", body, f"Content-Range: bytes {span}", f"ETag: {tag}")


@pytest.fixture(scope="module")
def server() -> Server:
    return Server()


def got(server: Server, folder: Path, *answers: bytes, proved: bool = False, size: int | None = None) -> bytes:
    """What is downloaded if these are the answers."""
    server.answers, server.requests = list(answers), 0
    http.download(f"{server.address}/x.zip", folder / "part", lambda _: None, proved=proved, size=size)
    return (folder / "part").read_bytes()


RESUMED: dict[str, tuple[bytes, int]] = {
    "the rest": (part("5-12/13", b" content"), 2),
    "a part that begins elsewhere": (part("3-12/13", b"le content"), 3),
    "a part that ends earlier": (part("5-8/13", b" con"), 3),
    "the rest of another file": (part("5-12/13", b" CONTENT", '"y"'), 3),
    "a part without its place": (answer("206 Partial Content", b" content", 'ETag: "x"'), 3),
    "several parts": (answer("206 Partial Content", b"--x", "Content-Type: multipart/byteranges", 'ETag: "x"'), 3),
    "no such part": (answer("416 Range Not Satisfiable", b""), 3),
    "all of it": (GOOD, 2),
    "nothing": (b"", 3),
}


@pytest.mark.parametrize("name", RESUMED)
def test_what_is_cut_is_continued_or_begun_from_the_start(tmp_path: Path, server: Server, name: str) -> None:
    second, requests = RESUMED[name]
    assert got(server, tmp_path, CUT, second, GOOD) == WHOLE
    assert server.requests == requests


UNKEPT: dict[str, tuple[bytes, str]] = {
    "a part that was not asked for": (part("0-12/13", WHOLE), "it has no part that begins at byte 0 (HTTP 206)"),
    "no length": (answer("200 OK", WHOLE, length=""), "is answered without a length"),
    "a length that is none": (answer("200 OK", WHOLE, length="-5"), "is answered without a length"),
    "two lengths": (answer("200 OK", WHOLE, "Content-Length: 5"), "broke off"),
    "a packed file": (answer("200 OK", gzip.compress(WHOLE), "Content-Encoding: gzip"), "is answered as 'gzip'"),
    "chunks that end early": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n", "broke off"),
    "a redirect to a file": (answer("302 Found", b"", "Location: file:///etc/passwd"), "No connection adapters"),
    "a redirect to no address": (answer("302 Found", b"", "Location: http://["), "Invalid"),
    "a redirect to itself": (answer("302 Found", b"", "Location: /x.zip"), "Exceeded 30 redirects"),
    "no status": (b"HTTP/1.1 x\r\n\r\n", "broke off"),
    "no such file": (answer("404 Not Found", b""), "answered HTTP 404"),
}


@pytest.mark.parametrize("name", UNKEPT)
def test_what_is_no_whole_file_is_not_kept(
    tmp_path: Path, server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    raw, text = UNKEPT[name]
    with pytest.raises(CommandError) as error:
        got(server, tmp_path, raw)
    assert text in str(error.value), str(error.value)


def test_a_file_of_known_digest_may_come_without_a_length(tmp_path: Path, server: Server) -> None:
    assert got(server, tmp_path, answer("200 OK", WHOLE, length=""), proved=True) == WHOLE


def test_a_server_that_is_too_slow(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PERIOD", -1)
    with pytest.raises(CommandError, match=r"only \d+ bytes arrived"):
        got(server, tmp_path, GOOD)


def test_headers_that_drip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PERIOD", 0.05)
    with (
        Dripping(GOOD.replace(b"ETag", b"X: " + b"x" * 60 + b"\r\nETag")) as address,
        pytest.raises(CommandError, match=r"only \d+ bytes arrived in 0\.05 s"),
    ):
        http.download(f"{address}/x.zip", tmp_path / "part", lambda _: None, proved=True)


class Dripping:
    """A server that answers a few bytes at a time, each before any timeout."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                for at in range(0, len(self._answer), 4):
                    connection.sendall(self._answer[at : at + 4])
                    time.sleep(0.01)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n" + WHOLE + b"\r\n0\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
TOO_MUCH: dict[str, tuple[bytes, int | None, str]] = {
    "a longer file": (GOOD, 5, "has more than the 5 bytes that it should have"),
    "a longer file in chunks": (CHUNKED + b"\r\n", 5, "has more than the 5 bytes that it should have"),
    "a length of an exabyte": (answer("200 OK", WHOLE, length="9" * 18), None, "has more than the 1,000 bytes that kz"),
    "the rest of a longer file": (CUT + BETWEEN + part("5-1012/1013", b"x" * 1008), 13, "has more than the 13 bytes"),
    "headers without end": (CONTINUE * 2000 + GOOD, None, "has more than the 1,000 bytes that kz reads of a file"),
    "trailers without end": (CHUNKED + b"X: y\r\n" * 5000 + b"\r\n", 13, "has more than the 13 bytes"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_no_more_is_read_than_a_file_has(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(http, "_MOST_OF_FILE", 1000)
    monkeypatch.setattr(http, "_MOST_AROUND", 10_000)
    raw, size, text = TOO_MUCH[name]
    with pytest.raises(CommandError, match=text):
        got(server, tmp_path, *raw.split(BETWEEN), size=size)
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize("status", ["302 Found", "503 Busy"])
def test_what_leads_elsewhere_is_not_read(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(http, "_MOST_AROUND", 10_000)
    first = answer(status, bytes(1 << 20), "Location: /y")
    assert got(server, tmp_path, first, GOOD, size=13) == WHOLE


@pytest.mark.parametrize("after", ["99999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "9" * 5000])
def test_kz_waits_no_longer_than_a_minute(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    assert got(server, tmp_path, answer("503 Busy", b"", f"Retry-After: {after}"), GOOD) == WHOLE
    assert max(slept, default=0) <= 60, slept  # a connection that broke is tried again after a second or two


class Downgrade(BaseAdapter):
    """A server that leads from https to http."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        secure = str(request.url).startswith("https:")
        raw = HTTPResponse(
            io.BytesIO(), {"Location": "http://h/x"} if secure else {}, 302 if secure else 200, preload_content=False
        )
        response = requests.Response()
        response.status_code, response.raw, response.url, response.request = raw.status, raw, str(request.url), request
        response.headers.update(raw.headers)
        return response

    def close(self) -> None:
        pass


def test_https_does_not_lead_to_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = requests.Session()
    web.mount("https://", Downgrade())
    web.mount("http://", Downgrade())
    monkeypatch.setattr(http, "session", lambda **_: web)
    with pytest.raises(CommandError, match="leads from https to http"):
        http.download("https://h/x", tmp_path / "part", lambda _: None, proved=True)


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        *(("application/json", page) for page in ("", "{", "[]", "null", "[" * 3000, '{"files": 5}', '{"files": [{}]}')),
        ("application/json", '{"files": [{"filename": 5, "url": "x", "hashes": {}}]}'),
        ("application/json", '{"files": [{"filename": "x", "url": "http://[", "hashes": {}}]}'),
        ("application/json", '{"files": [{"filename": "x", "url": "x", "hashes": []}]}'),
        ("text/html", "<a href='http://['>"),
        ("text/html; charset=zz", "<a href=''>\xff<![x"),
    ],
)  # fmt: skip
def test_a_page_that_is_no_index(server: Server, kind: str, page: str) -> None:
    server.answers = [answer("200 OK", page.encode("latin-1"), f"Content-Type: {kind}")]
    with pytest.raises(KzError, match=r"did not answer like a package index|has no wheel") as error:
        package_index.find_wheel(server.address, "torch", "1", "*")
    assert error.value.exit_code in (2, 5)


def test_a_page_that_unpacks_to_too_much(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_OF_PAGE", 1 << 20)
    server.answers = [answer("200 OK", gzip.compress(bytes(2 << 20)), "Content-Encoding: gzip")]
    with pytest.raises(CommandError, match="has more than 1,048,576 bytes"):
        package_index.find_wheel(server.address, "torch", "1", "*")


def test_a_size_that_is_none(server: Server) -> None:
    server.answers = [answer("200 OK", b"", length="x")]
    assert http.size(f"{server.address}/x") is None


def test_github_answers_with_too_much(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_API_URL", server.address)
    monkeypatch.setattr(http, "_MOST_OF_PAGE", 1 << 20)
    server.answers = [answer("200 OK", gzip.compress(b"[" + b" " * (2 << 20) + b"]"), "Content-Encoding: gzip")]
    with pytest.raises(KzError, match="has more than 1,048,576 bytes"):
        github.open_pulls(tmp_path, "owner/name")


def test_github_has_pages_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_API_URL", server.address)
    monkeypatch.setattr(github, "_MOST_PAGES", 3)
    server.answers = [answer("200 OK", b"[]", f'Link: <{server.address}/{page}>; rel="next"') for page in range(5)]
    with pytest.raises(CommandError, match="a list of more than 3 pages"):
        github.open_pulls(tmp_path, "owner/name")


def test_githubs_pages_that_go_round(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_API_URL", server.address)
    server.answers = [answer("200 OK", b"[]", f'Link: <{server.address}/again>; rel="next"')]
    with pytest.raises(CommandError, match="go round in a circle"):
        github.open_pulls(tmp_path, "owner/name")
