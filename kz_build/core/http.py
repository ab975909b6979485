"""Web requests within bounds, and downloads that resume."""

from __future__ import annotations

import contextlib
import http.client
import io
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import ConnectionPool, HTTPConnectionPool
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from kz_build.core.env import ca_bundle, with_password
from kz_build.core.errors import UnreachableError
from kz_build.core.files import disk_errors
from kz_build.core.progress import Event, Watch

_TIMEOUT = (10, 60)
_RESUMES = 5
_PATIENCE = 60
"""The longest that kz waits because a server says so, in seconds."""
_PERIOD, _LEAST = 60, 64 << 10
"""In so many seconds so many bytes must arrive, or the connection counts as broken."""
_MOST_OF_PAGE = 64 << 20  # PyPI's longest page has 20 MB
_MOST_OF_FILE = 32 << 30  # an SDK has 2 GB
_MOST_AROUND = 1 << 20  # headers, and what marks the chunks' ends
_PIECE = 256 << 10


class TooMuchError(requests.RequestException):
    """A server sends more than any answer to such a question has."""


class _TooSlowError(Exception):
    """Not an OSError, which urllib3 would take for a reason to ask again."""


class _BoundedReader(io.RawIOBase):
    """What arrives on a connection, headers too: not too slowly, and not too much."""

    def __init__(self, raw: io.RawIOBase, most: int) -> None:
        self._raw, self._most = raw, most
        self._start, self._arrived = time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        size = self._raw.readinto(buffer)
        self._arrived += size or 0
        self._most -= size or 0
        if self._most < 0:
            raise OverflowError("it sends more than such an answer has")
        if size and time.monotonic() - self._start > _PERIOD:
            if self._arrived < _LEAST:
                raise _TooSlowError(f"only {self._arrived} bytes arrived in {_PERIOD} s")
            self._start, self._arrived = time.monotonic(), 0
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class BoundedRetry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the seconds that the server asks for, within bounds."""
        try:
            seconds = super().get_retry_after(response)
        except (InvalidHeader, ValueError, OverflowError):
            return None
        return None if seconds is None else min(seconds, _PATIENCE)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        *args: Any,
        **options: Any,
    ) -> BoundedRetry:
        """Close the answer that will not be used: urllib3 would read its content, however long."""
        try:
            following = super().increment(method, url, response, *args, **options)
        except MaxRetryError:
            if response is not None and self.raise_on_status:
                response.close()
            raise
        if response is not None:
            response.close()
        return following


class _BoundedAdapter(HTTPAdapter):
    """Connections that no server can keep busy for ever."""

    def __init__(self, retry: Retry, most: int) -> None:
        self._most = most + _MOST_AROUND
        super().__init__(max_retries=retry)

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> ConnectionPool:
        pool = super().get_connection_with_tls_context(*args, **options)
        if not isinstance(pool, HTTPConnectionPool):
            return pool
        usual = type(pool).ConnectionCls

        def connection(*args: Any, **options: Any) -> Any:
            connected = usual(*args, **options)
            connected.response_class = self._response  # type: ignore[attr-defined]
            return connected

        pool.ConnectionCls = connection  # type: ignore[assignment]
        return pool

    def _response(self, *args: Any, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(*args, **options)
        response.fp = io.BufferedReader(_BoundedReader(response.fp.detach(), self._most))
        return response

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        response = super().send(request, *args, **options)
        if response.is_redirect:
            response.close()  # requests would read its content, however long
        return response


_FINAL = (
    requests.TooManyRedirects,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.RetryError,  # the server was busy at each of several attempts already
)
"""What another attempt would not change."""

_BUSY = BoundedRetry(
    total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=("GET", "HEAD")
)


def session(retry: Retry = _BUSY, most: int = _MOST_OF_PAGE) -> requests.Session:
    """Return a requests session that retries when a server is busy, for answers of at most so many bytes."""
    web = requests.Session()
    for scheme in ("http://", "https://"):
        web.mount(scheme, _BoundedAdapter(retry, most))
    if bundle := ca_bundle():
        web.verify = bundle
    return web


@contextlib.contextmanager
def request_errors() -> Iterator[None]:
    """Turn everything that a request, or reading its answer, raises for what a server sent into a RequestException."""
    try:
        yield
    except requests.RequestException:
        raise
    except OverflowError as error:
        raise TooMuchError(str(error)) from error
    except (_TooSlowError, HTTPError, ValueError, LookupError) as error:  # ValueError: of a redirect's address
        raise requests.RequestException(str(error) or repr(error)) from error


@contextlib.contextmanager
def answer(
    web: requests.Session, method: str, url: str, headers: Mapping[str, str], timeout: Any = _TIMEOUT, json: Any = None
) -> Iterator[requests.Response]:
    """Send a request, with its password, and yield the answer, whose content is not read yet. Raises RequestException, also while that is read."""
    with (
        request_errors(),
        web.request(
            method, with_password(url), headers=headers, json=json, stream=True, timeout=timeout, allow_redirects=True
        ) as response,
    ):
        if url.startswith("https:") and any(not hop.url.startswith("https:") for hop in (*response.history, response)):
            raise requests.exceptions.InvalidURL("it leads from https to http")
        yield response


def content(response: requests.Response) -> bytes:
    """Return an answer's content, unpacked. Raises TooMuchError."""
    return b"".join(_pieces(response, _MOST_OF_PAGE, decode=True))


def _pieces(response: requests.Response, most: int, *, decode: bool) -> Iterator[bytes]:
    """Yield an answer's content as it arrives. Raises TooMuchError."""
    arrived = 0
    while piece := response.raw.read1(_PIECE, decode_content=decode):
        arrived += len(piece)
        if arrived > most:
            raise TooMuchError(f"it has more than {most:,} bytes")
        yield piece


def _length(response: requests.Response) -> int | None:
    """Return the length of an answer's content as the server gives it, None if it does not."""
    text = response.headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def reachable(url: str, seconds: float) -> str:
    """Return why a web server cannot be reached, '' if it answers."""
    try:
        with session(BoundedRetry(0, read=False)) as web, answer(web, "GET", url, {}, seconds) as response:
            status = response.status_code
    except requests.RequestException as error:
        return cause(error)
    return f"HTTP {status}" if status in (401, 403, 404, 410, 451) else ""


def cause(error: requests.RequestException) -> str:
    """Return what went wrong with a request, in one line."""
    text = str(error)
    match = re.search(
        r"Name or service not known|nodename nor servname|Temporary failure in name resolution|Connection refused|"
        r"timed out|CERTIFICATE_VERIFY_FAILED|No route to host|Network is unreachable|Tunnel connection failed[^')]*",
        text,
    )
    return match[0] if match else text[:120]


def download(url: str, part: Path, watch: Watch, *, proved: bool, size: int | None = None) -> None:
    """Download `url` to the file `part`, or resume it. Raises UnreachableError if the connection keeps breaking.

    `proved`: the caller knows the file's digest. Without one, an answer must say where it ends, or it may have been cut off.
    `size`: the file's, if the caller knows it; no more is read.
    """
    most = _MOST_OF_FILE if size is None else size
    part.parent.mkdir(parents=True, exist_ok=True)
    etag_file = part.with_suffix(".etag")
    problem = ""
    with session(most=most) as web:
        for _ in range(_RESUMES):
            tag = etag_file.read_text() if etag_file.exists() else ""
            done = part.stat().st_size if part.exists() and tag else 0
            headers = {"Accept-Encoding": "identity"}
            if done:
                headers |= {"Range": f"bytes={done}-", "If-Range": tag}
            try:
                with answer(web, "GET", url, headers) as response:
                    status = response.status_code
                    if status == 416 or (status == 206 and not _continues(response, done, tag)):
                        problem = f"it has no part that begins at byte {done:,} (HTTP {status})"
                        part.unlink(missing_ok=True)
                        continue
                    if status not in (200, 206):
                        raise UnreachableError(
                            f"{url} answered HTTP {status}",
                            hint="is the version right? does upstream still have it?",
                        )
                    _refuse_unclear(response, url, proved)
                    _receive(response, part, etag_file, done if status == 206 else 0, watch, most)
                    return
            except TooMuchError as error:
                part.unlink(missing_ok=True)
                what = "it should have" if size is not None else "kz reads of a file"
                raise UnreachableError(
                    f"{url} has more than the {most:,} bytes that {what}",
                    hint="upstream changed the file, or something altered it on the way. Nothing was kept",
                ) from error
            except requests.RequestException as error:
                problem = cause(error)
                if isinstance(error, _FINAL):
                    break
    raise UnreachableError(
        f"{url} broke off: {problem}", hint="run the command again: the download resumes where it stopped"
    )


def _continues(response: requests.Response, done: int, tag: str) -> bool:
    """Whether a 206 is all that follows `done` bytes of the same file. Anything else must not be appended to them."""
    span = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", response.headers.get("Content-Range", ""))
    if not (span and done) or response.headers.get("ETag") != tag:
        return False
    first, last, size = map(int, span.groups())
    return first == done and last == size - 1 and _length(response) in (None, size - done)


def _refuse_unclear(response: requests.Response, url: str, proved: bool) -> None:
    """Refuse an answer whose bytes are not the file's own, or that could be cut off unseen."""
    packed = response.headers.get("Content-Encoding", "identity")
    if packed != "identity":
        raise UnreachableError(
            f"{url} is answered as {packed!r}, though kz asks for the file as it is", hint="is a proxy in between?"
        )
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if not (proved or chunked) and _length(response) is None:
        raise UnreachableError(
            f"{url} is answered without a length, so nobody can say whether all of it arrived",
            hint="name another address, or its digest under `published` in pins.yaml",
        )


def _receive(response: requests.Response, part: Path, etag_file: Path, done: int, watch: Watch, most: int) -> None:
    with disk_errors(part):
        tag = response.headers.get("ETag", "")
        if tag and not tag.startswith("W/") and tag.isascii() and tag.isprintable():
            etag_file.write_text(tag)
        else:
            etag_file.unlink(missing_ok=True)  # a later response may be of other bytes
        total = done + (_length(response) or 0)
        if total > most:
            raise TooMuchError(f"it has {total:,} bytes")
        name = Path(urllib.parse.urlsplit(response.url).path).name
        with part.open("ab" if done else "wb") as file:
            for piece in _pieces(response, most - done, decode=False):
                file.write(piece)
                done += len(piece)
                watch(Event(name, done, total, bytes=True))
        if not total:  # nobody said how much it would be
            watch(Event(name, done, done, bytes=True))
    if total and done < total:
        raise requests.ConnectionError(f"{done} of {total} bytes arrived")


def size(url: str) -> int | None:
    """Return the size of a file by its server, None if unknown."""
    with session() as web:
        try:
            with answer(web, "HEAD", url, {"Accept-Encoding": "identity"}) as response:
                return _length(response) if response.ok else None
        except requests.RequestException:
            return None
