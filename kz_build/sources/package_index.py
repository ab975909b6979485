"""The package index, on a server or in a folder: which file is the wheel of a version."""

from __future__ import annotations

import fnmatch
import html.parser
import json
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from kz_build.core import http
from kz_build.core.env import public_address
from kz_build.core.errors import ConfigError, UnreachableError
from kz_build.core.rules import bad_digest

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.version import Version


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

    name = canonicalize_name(project)
    files = wheels_in(Path(index), name) if index.startswith("/") else _index_page(f"{index}/{name}/", project)
    versions = {f.name: parsed[1] for f in files if (parsed := _parsed(f.name))}
    wanted = [canonicalize_version(text) for text in (version, f"{version}+cpu")]
    of_version = [f for f in files if f.name in versions and canonicalize_version(versions[f.name]) in wanted]
    if not of_version:
        latest = [str(one) for one in sorted(set(versions.values()))[-5:]]
        raise ConfigError(
            f"{project} has no wheel of version {version}", hint=f"the index has {', '.join(latest)}" if latest else ""
        )
    matching = [f for f in of_version if is_wheel_of(f.name, project, tag)]
    if len(matching) != 1:
        raise ConfigError(
            f"{len(matching)} wheels of {project} {version} match the tag {tag!r}, not one",
            hint="they are: " + ", ".join(f.name for f in of_version),
        )
    return matching[0]


def wheels_in(folder: Path, name: str) -> list[WheelFile]:
    """Return the wheels of a project, by its canonical name, in a folder, or in its own folder there."""
    from packaging.utils import canonicalize_name

    own = folder / name
    paths = sorted((own if own.is_dir() else folder).glob("*.whl"))
    return [WheelFile(p.name, str(p), "") for p in paths if canonicalize_name(p.name.split("-")[0]) == name]


def wheel_in(folder: Path, project: str, version: str, tag: str) -> Path | None:
    """Return the one wheel of a version in a folder whose tag matches, None if none or several do."""
    try:
        return Path(find_wheel(str(folder), project, version, tag).url)
    except ConfigError:
        return None


def _index_page(page: str, project: str) -> list[WheelFile]:
    """Return the files that the index has of a project."""
    headers = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}
    with http.session() as web:
        try:
            with http.answer(web, "GET", page, headers) as response:
                status, url, kind = response.status_code, response.url, response.headers.get("Content-Type", "")
                data = http.content(response) if status == 200 else b""
        except requests.RequestException as error:
            raise UnreachableError(f"the package index {page} does not answer: {http.cause(error)}") from error
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
        raise UnreachableError(
            f"{page} did not answer like a package index: {problem}", hint="is a proxy in between?"
        ) from error


def _from_json(base: str, row: Any) -> WheelFile:
    name, url, digest, size = row["filename"], row["url"], row["hashes"].get("sha256", ""), row.get("size") or 0
    if not (isinstance(name, str) and isinstance(digest, str) and isinstance(size, int)):
        raise TypeError(f"a file has a {type(name).__name__} as its name, or no size")
    return WheelFile(name, public_address(urllib.parse.urljoin(base, url)), _digest(digest), size)


def _from_link(base: str, link: str) -> WheelFile:
    url, _, fragment = urllib.parse.urljoin(base, link).partition("#")
    url = public_address(url)
    digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
    return WheelFile(urllib.parse.unquote(url.rsplit("/", 1)[1]), url, _digest(digest))


def _digest(text: str) -> str:
    """Return a digest of the index, '' if it gives none. Raises ValueError for another text: it names a file of the store."""
    if text and (wrong := bad_digest(text)):
        raise ValueError(f"a sha256 {wrong}, and one is {text!r}")
    return text


def is_wheel_of(name: str, project: str, tag: str) -> bool:
    """Whether a file is a wheel of a project, and one of the python-abi-platform tags in its name matches a pattern."""
    from packaging.utils import canonicalize_name

    parsed = _parsed(name)
    return (
        parsed is not None
        and parsed[0] == canonicalize_name(project)
        and any(fnmatch.fnmatchcase(str(one), tag) for one in parsed[2])
    )


def _parsed(name: str) -> tuple[str, Version, frozenset[Tag]] | None:
    """Return project, version and tags in a wheel's file name; None if the file is not a wheel."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename  # costs 50 ms, needed only for an index

    try:
        project, version, _, tags = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return None
    return project, version, tags
