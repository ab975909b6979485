"""Downloads that go on where they stopped, and the package index."""

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
    """A requests session that retries what a busy server refuses."""
    made = requests.Session()
    retry = Retry(
        total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=("GET", "HEAD")
    )
    for scheme in ("http://", "https://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry))
    if bundle := ca_bundle():
        made.verify = bundle
    return made


def reachable(url: str, seconds: float) -> str:
    """'' when a web server answers at all, else why not."""
    try:
        with requests.Session() as web:
            web.verify = ca_bundle() or True
            answer = web.get(url, timeout=seconds, stream=True)
            answer.close()
    except requests.RequestException as error:
        return cause(error)
    return f"HTTP {answer.status_code}" if answer.status_code in (401, 403, 404, 410, 451) else ""


def cause(error: requests.RequestException) -> str:
    """What went wrong with a request, in one line."""
    text = str(error)
    found = re.search(
        r"Name or service not known|nodename nor servname|Temporary failure in name resolution|Connection refused|"
        r"timed out|CERTIFICATE_VERIFY_FAILED|No route to host|Network is unreachable|Tunnel connection failed[^')]*",
        text,
    )
    return found[0] if found else text[:120]


def download(url: str, part: Path, watch: Watch) -> None:
    """Bring `url` into the file `part`, going on from what is there. Raises CommandError when it stays cut off."""
    part.parent.mkdir(parents=True, exist_ok=True)
    mark = part.with_suffix(".etag")
    problem = ""
    with session() as web:
        for _ in range(_RESUMES):
            done = part.stat().st_size if part.exists() and mark.exists() else 0
            headers = {"Accept-Encoding": "identity"}
            if done:
                headers |= {"Range": f"bytes={done}-", "If-Range": mark.read_text()}
            try:
                with web.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
                    if answer.status_code == 416:
                        part.unlink()
                        continue
                    if answer.status_code not in (200, 206):
                        raise CommandError(
                            f"{url} answered HTTP {answer.status_code}",
                            hint="is the version right? does upstream still have it?",
                        )
                    _receive(answer, part, mark, done if answer.status_code == 206 else 0, watch)
                    return
            except requests.RequestException as error:
                problem = cause(error)
    raise CommandError(
        f"{url} broke off: {problem}", hint="run the command again: the download goes on where it stopped"
    )


def _receive(answer: requests.Response, part: Path, mark: Path, done: int, watch: Watch) -> None:
    with disk_errors(part):
        tag = answer.headers.get("ETag", "")
        if tag and not tag.startswith("W/"):
            mark.write_text(tag)
        else:
            mark.unlink(missing_ok=True)  # nothing says that a later answer is of the same bytes
        total = done + int(answer.headers.get("Content-Length", 0))
        name = Path(urllib.parse.urlsplit(answer.url).path).name
        with part.open("ab" if done else "wb") as file:
            for piece in answer.iter_content(1 << 18):
                file.write(piece)
                done += len(piece)
                watch(Event(name, done, total, bytes=True))
    if total and done < total:
        raise requests.ConnectionError(f"{done} of {total} bytes came")


@dataclass(frozen=True)
class WheelFile:
    """One file on a package index; `sha256` as the index prints it, '' where it does not."""

    name: str
    url: str
    sha256: str
    size: int = 0


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def find_wheel(index: str, project: str, version: str, tag: str) -> WheelFile:
    """The one wheel of a version whose python-abi-platform tag fits. Raises ConfigError when none or several do."""
    from packaging.utils import canonicalize_name, canonicalize_version

    page = f"{index}/{canonicalize_name(project)}/"
    with session() as web:
        try:
            answer = web.get(
                page, headers={"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}, timeout=_TIMEOUT
            )
        except requests.RequestException as error:
            raise CommandError(f"the package index {page} does not answer: {cause(error)}") from error
    if answer.status_code != 200:
        raise ConfigError(f"{page} answered HTTP {answer.status_code}", hint=f"is {project!r} the project's name?")
    if "json" in answer.headers.get("Content-Type", ""):
        files = [
            WheelFile(
                f["filename"],
                urllib.parse.urljoin(answer.url, f["url"]),
                f["hashes"].get("sha256", ""),
                f.get("size") or 0,
            )
            for f in answer.json()["files"]
        ]
    else:
        links = _Links()
        links.feed(answer.text)
        files = [_from_link(answer.url, link) for link in links.found]
    versions = {f.name: parsed[0] for f in files if (parsed := _parsed(f.name))}
    wanted = [canonicalize_version(text) for text in (version, f"{version}+cpu")]
    of_version = [f for f in files if f.name in versions and canonicalize_version(versions[f.name]) in wanted]
    if not of_version:
        near = [str(one) for one in sorted(set(versions.values()))[-5:]]
        raise ConfigError(
            f"{project} has no wheel of version {version}", hint=f"the index has {', '.join(near)}" if near else ""
        )
    fitting = [f for f in of_version if tag_fits(f.name, tag)]
    if len(fitting) != 1:
        raise ConfigError(
            f"{len(fitting)} wheels of {project} {version} fit the tag {tag!r}, not one",
            hint="they are: " + ", ".join(f.name for f in of_version),
        )
    return fitting[0]


def _from_link(base: str, link: str) -> WheelFile:
    url, _, fragment = urllib.parse.urljoin(base, link).partition("#")
    digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return WheelFile(urllib.parse.unquote(url.rsplit("/", 1)[1]), url, digest)


def size(url: str) -> int | None:
    """Bytes that a server says a file has, None where it does not say."""
    with session() as web:
        try:
            answer = web.head(url, headers={"Accept-Encoding": "identity"}, allow_redirects=True, timeout=_TIMEOUT)
        except requests.RequestException:
            return None
    return int(answer.headers["Content-Length"]) if answer.ok and "Content-Length" in answer.headers else None


def tag_fits(name: str, tag: str) -> bool:
    """Whether one of the python-abi-platform tags in a wheel's file name fits a pattern."""
    parsed = _parsed(name)
    return parsed is not None and any(fnmatch.fnmatchcase(str(one), tag) for one in parsed[1])


def _parsed(name: str) -> tuple[Version, frozenset[Tag]] | None:
    """Version and tags in a wheel's file name; None for a file that is no wheel."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # 50 ms, for those who ask an index

    try:
        _, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return version, tags
