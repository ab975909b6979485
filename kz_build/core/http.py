"""Downloads that resume, and the package index."""

from __future__ import annotations

import contextlib
import fnmatch
import html.parser
import json
import re
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, InvalidHeader
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from kz_build.core.env import ca_bundle, public_address, with_password
from kz_build.core.errors import CommandError, ConfigError
from kz_build.core.files import disk_errors
from kz_build.core.progress import Event, Watch

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version

_TIMEOUT = (10, 60)
_RESUMES = 5
_PATIENCE = 60
"""The longest that kz waits because a server says so, in seconds."""
_PERIOD, _LEAST = 60, 64 << 10
"""In so many seconds so many bytes must arrive, or the connection counts as broken."""
_MOST_OF_PAGE = 64 << 20  # PyPI's longest page has 20 MB
_PIECE = 256 << 10
_FINAL = (
    requests.TooManyRedirects,
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.RetryError,  # the server was busy at each of several attempts already
)
"""What another attempt would not change."""


class _Retry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the seconds that the server asks for, within bounds."""
        try:
            seconds = super().get_retry_after(response)
        except (InvalidHeader, ValueError, OverflowError):
            return None
        return None if seconds is None else min(seconds, _PATIENCE)


def session() -> requests.Session:
    """Return a requests session that retries when a server is busy."""
    web = requests.Session()
    retry = _Retry(
        total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=("GET", "HEAD")
    )
    for scheme in ("http://", "https://"):
        web.mount(scheme, HTTPAdapter(max_retries=retry))
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
    except (HTTPError, ValueError, LookupError) as error:  # ValueError: of a redirect's address
        raise requests.RequestException(str(error) or repr(error)) from error


@contextlib.contextmanager
def _answer(
    web: requests.Session, method: str, url: str, headers: dict[str, str], timeout: Any = _TIMEOUT
) -> Iterator[requests.Response]:
    """Send a request, with its password, and yield the answer, whose content is not read yet. Raises RequestException, also while that is read."""
    with (
        request_errors(),
        web.request(
            method, with_password(url), headers=headers, stream=True, timeout=timeout, allow_redirects=True
        ) as response,
    ):
        if url.startswith("https:") and any(not hop.url.startswith("https:") for hop in (*response.history, response)):
            raise requests.exceptions.InvalidURL("it leads from https to http")
        yield response


def _pieces(response: requests.Response, *, decode: bool) -> Iterator[bytes]:
    """Yield an answer's content as it arrives. Raises RequestException if too little does."""
    start, arrived = time.monotonic(), 0
    while piece := response.raw.read1(_PIECE, decode_content=decode):
        yield piece
        arrived += len(piece)
        if time.monotonic() - start > _PERIOD:
            if arrived < _LEAST:
                raise requests.ConnectionError(f"only {arrived} bytes arrived in {_PERIOD} s")
            start, arrived = time.monotonic(), 0


def _length(response: requests.Response) -> int | None:
    """Return the length of an answer's content as the server gives it, None if it does not."""
    text = response.headers.get("Content-Length", "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def reachable(url: str, seconds: float) -> str:
    """Return why a web server cannot be reached, '' if it answers."""
    try:
        with requests.Session() as web:
            web.verify = ca_bundle() or True
            with _answer(web, "GET", url, {}, seconds) as response:
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


def download(url: str, part: Path, watch: Watch, *, proved: bool) -> None:
    """Download `url` to the file `part`, or resume it. Raises CommandError if the connection keeps breaking.

    `proved`: the caller knows the file's digest. Without one, an answer must say where it ends, or it may have been cut off.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    etag_file = part.with_suffix(".etag")
    problem = ""
    with session() as web:
        for _ in range(_RESUMES):
            tag = etag_file.read_text() if etag_file.exists() else ""
            done = part.stat().st_size if part.exists() and tag else 0
            headers = {"Accept-Encoding": "identity"}
            if done:
                headers |= {"Range": f"bytes={done}-", "If-Range": tag}
            try:
                with _answer(web, "GET", url, headers) as response:
                    status = response.status_code
                    if status == 416 or (status == 206 and not _continues(response, done, tag)):
                        problem = f"it has no part that begins at byte {done:,} (HTTP {status})"
                        part.unlink(missing_ok=True)
                        continue
                    if status not in (200, 206):
                        raise CommandError(
                            f"{url} answered HTTP {status}",
                            hint="is the version right? does upstream still have it?",
                        )
                    _refuse_unclear(response, url, proved)
                    _receive(response, part, etag_file, done if status == 206 else 0, watch)
                    return
            except requests.RequestException as error:
                problem = cause(error)
                if isinstance(error, _FINAL):
                    break
    raise CommandError(
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
        raise CommandError(
            f"{url} is answered as {packed!r}, though kz asks for the file as it is", hint="is a proxy in between?"
        )
    chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if not (proved or chunked) and _length(response) is None:
        raise CommandError(
            f"{url} is answered without a length, so nobody can say whether all of it arrived",
            hint="name another address, or its digest under `published` in pins.yaml",
        )


def _receive(response: requests.Response, part: Path, etag_file: Path, done: int, watch: Watch) -> None:
    with disk_errors(part):
        tag = response.headers.get("ETag", "")
        if tag and not tag.startswith("W/") and tag.isascii() and tag.isprintable():
            etag_file.write_text(tag)
        else:
            etag_file.unlink(missing_ok=True)  # a later response may be of other bytes
        total = done + (_length(response) or 0)
        name = Path(urllib.parse.urlsplit(response.url).path).name
        with part.open("ab" if done else "wb") as file:
            for piece in _pieces(response, decode=False):
                file.write(piece)
                done += len(piece)
                watch(Event(name, done, total, bytes=True))
    if total and done < total:
        raise requests.ConnectionError(f"{done} of {total} bytes arrived")


@dataclass(frozen=True)
class WheelFile:
    """A file on a package index; `sha256` as the index gives it, else ''."""

    name: str
    url: str
    sha256: str
    size: int = 0


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for key, value in attrs if key == "href" and value]


def find_wheel(index: str, project: str, version: str, tag: str) -> WheelFile:
    """Return the one wheel of a version whose python-abi-platform tag matches. Raises ConfigError if none or several do."""
    from packaging.utils import canonicalize_name, canonicalize_version

    page = f"{index}/{canonicalize_name(project)}/"
    files = _index_page(page, project)
    versions = {f.name: parsed[0] for f in files if (parsed := _version_and_tags(f.name))}
    wanted = [canonicalize_version(text) for text in (version, f"{version}+cpu")]
    of_version = [f for f in files if f.name in versions and canonicalize_version(versions[f.name]) in wanted]
    if not of_version:
        latest = [str(one) for one in sorted(set(versions.values()))[-5:]]
        raise ConfigError(
            f"{project} has no wheel of version {version}", hint=f"the index has {', '.join(latest)}" if latest else ""
        )
    matching = [f for f in of_version if tag_fits(f.name, tag)]
    if len(matching) != 1:
        raise ConfigError(
            f"{len(matching)} wheels of {project} {version} match the tag {tag!r}, not one",
            hint="they are: " + ", ".join(f.name for f in of_version),
        )
    return matching[0]


def _index_page(page: str, project: str) -> list[WheelFile]:
    """Return the files that the index has of a project."""
    data = b""
    with session() as web:
        try:
            headers = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}
            with _answer(web, "GET", page, headers) as response:
                status, url, kind = response.status_code, response.url, response.headers.get("Content-Type", "")
                for piece in _pieces(response, decode=True) if status == 200 else ():
                    data += piece
                    if len(data) > _MOST_OF_PAGE:
                        raise requests.ConnectionError(f"the page has more than {_MOST_OF_PAGE:,} bytes")
        except requests.RequestException as error:
            raise CommandError(f"the package index {page} does not answer: {cause(error)}") from error
    if status != 200:
        raise ConfigError(f"{page} answered HTTP {status}", hint=f"is {project!r} the project's name?")
    try:
        if "json" in kind:
            return [_from_json(url, row) for row in json.loads(data)["files"]]
        parser = _Links()
        parser.feed(data.decode("utf-8", "replace"))
        return [_from_link(url, link) for link in parser.links]
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        problem = f"{type(error).__name__}: {error}"[:200]
        raise CommandError(
            f"{page} did not answer like a package index: {problem}", hint="is a proxy in between?"
        ) from error


def _from_json(base: str, row: Any) -> WheelFile:
    name, url, digest, size = row["filename"], row["url"], row["hashes"].get("sha256", ""), row.get("size") or 0
    if not (isinstance(name, str) and isinstance(digest, str) and isinstance(size, int)):
        raise TypeError(f"a file has a {type(name).__name__} as its name, or no size")
    return WheelFile(name, public_address(urllib.parse.urljoin(base, url)), digest, size)


def _from_link(base: str, link: str) -> WheelFile:
    url, _, fragment = urllib.parse.urljoin(base, link).partition("#")
    url = public_address(url)
    digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return WheelFile(urllib.parse.unquote(url.rsplit("/", 1)[1]), url, digest)


def size(url: str) -> int | None:
    """Return the size of a file by its server, None if unknown."""
    with session() as web:
        try:
            with _answer(web, "HEAD", url, {"Accept-Encoding": "identity"}) as response:
                return _length(response) if response.ok else None
        except requests.RequestException:
            return None


def tag_fits(name: str, tag: str) -> bool:
    """Whether one of the python-abi-platform tags in a wheel's file name matches a pattern."""
    parsed = _version_and_tags(name)
    return parsed is not None and any(fnmatch.fnmatchcase(str(one), tag) for one in parsed[1])


def _version_and_tags(name: str) -> tuple[Version, frozenset[Tag]] | None:
    """Return version and tags in a wheel's file name; None if the file is not a wheel."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # costs 50 ms, needed only for an index

    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return version, tags
