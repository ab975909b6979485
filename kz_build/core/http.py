"""Downloads that resume, and the package index."""

from __future__ import annotations

import fnmatch
import html.parser
import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from kz_build.core.env import ca_bundle
from kz_build.core.errors import CommandError, ConfigError
from kz_build.core.files import disk_errors
from kz_build.core.progress import Event, Watch

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version

_TIMEOUT = (10, 60)
_RESUMES = 5


def session() -> requests.Session:
    """Return a requests session that retries when a server is busy."""
    web = requests.Session()
    retry = Retry(
        total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=("GET", "HEAD")
    )
    for scheme in ("http://", "https://"):
        web.mount(scheme, HTTPAdapter(max_retries=retry))
    if bundle := ca_bundle():
        web.verify = bundle
    return web


def reachable(url: str, seconds: float) -> str:
    """Return why a web server cannot be reached, '' if it answers."""
    try:
        with requests.Session() as web:
            web.verify = ca_bundle() or True
            response = web.get(url, timeout=seconds, stream=True)
            response.close()
    except requests.RequestException as error:
        return cause(error)
    return f"HTTP {response.status_code}" if response.status_code in (401, 403, 404, 410, 451) else ""


def cause(error: requests.RequestException) -> str:
    """Return what went wrong with a request, in one line."""
    text = str(error)
    match = re.search(
        r"Name or service not known|nodename nor servname|Temporary failure in name resolution|Connection refused|"
        r"timed out|CERTIFICATE_VERIFY_FAILED|No route to host|Network is unreachable|Tunnel connection failed[^')]*",
        text,
    )
    return match[0] if match else text[:120]


def download(url: str, part: Path, watch: Watch) -> None:
    """Download `url` to the file `part`, or resume it. Raises CommandError if the connection keeps breaking."""
    part.parent.mkdir(parents=True, exist_ok=True)
    etag_file = part.with_suffix(".etag")
    problem = ""
    with session() as web:
        for _ in range(_RESUMES):
            done = part.stat().st_size if part.exists() and etag_file.exists() else 0
            headers = {"Accept-Encoding": "identity"}
            if done:
                headers |= {"Range": f"bytes={done}-", "If-Range": etag_file.read_text()}
            try:
                with web.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                    if response.status_code == 416:
                        part.unlink()
                        continue
                    if response.status_code not in (200, 206):
                        raise CommandError(
                            f"{url} answered HTTP {response.status_code}",
                            hint="is the version right? does upstream still have it?",
                        )
                    _receive(response, part, etag_file, done if response.status_code == 206 else 0, watch)
                    return
            except requests.RequestException as error:
                problem = cause(error)
    raise CommandError(
        f"{url} broke off: {problem}", hint="run the command again: the download resumes where it stopped"
    )


def _receive(response: requests.Response, part: Path, etag_file: Path, done: int, watch: Watch) -> None:
    with disk_errors(part):
        tag = response.headers.get("ETag", "")
        if tag and not tag.startswith("W/"):
            etag_file.write_text(tag)
        else:
            etag_file.unlink(missing_ok=True)  # a later response may be of other bytes
        total = done + int(response.headers.get("Content-Length", 0))
        name = Path(urllib.parse.urlsplit(response.url).path).name
        with part.open("ab" if done else "wb") as file:
            for piece in response.iter_content(1 << 18):
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
    with session() as web:
        try:
            response = web.get(
                page, headers={"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}, timeout=_TIMEOUT
            )
        except requests.RequestException as error:
            raise CommandError(f"the package index {page} does not answer: {cause(error)}") from error
    if response.status_code != 200:
        raise ConfigError(f"{page} answered HTTP {response.status_code}", hint=f"is {project!r} the project's name?")
    if "json" in response.headers.get("Content-Type", ""):
        files = [
            WheelFile(
                f["filename"],
                urllib.parse.urljoin(response.url, f["url"]),
                f["hashes"].get("sha256", ""),
                f.get("size") or 0,
            )
            for f in response.json()["files"]
        ]
    else:
        parser = _Links()
        parser.feed(response.text)
        files = [_from_link(response.url, link) for link in parser.links]
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


def _from_link(base: str, link: str) -> WheelFile:
    url, _, fragment = urllib.parse.urljoin(base, link).partition("#")
    digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return WheelFile(urllib.parse.unquote(url.rsplit("/", 1)[1]), url, digest)


def size(url: str) -> int | None:
    """Return the size of a file by its server, None if unknown."""
    with session() as web:
        try:
            response = web.head(url, headers={"Accept-Encoding": "identity"}, allow_redirects=True, timeout=_TIMEOUT)
        except requests.RequestException:
            return None
    return int(response.headers["Content-Length"]) if response.ok and "Content-Length" in response.headers else None


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
