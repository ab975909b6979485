"""Pull requests and issues of GitHub, as far as kz reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

State = Literal["open", "closed", "merged"]

_HOST = (
    r"(?:(?:https?|git|ssh|git\+ssh)://(?:[^@/]*@)?(?:www\.|ssh\.)?github\.com(?::\d+)?/|(?:[^@/:]+@)?github\.com:/?)"
)
_NAME = r"(?!\.+(?:/|$))[\w.-]+"
_REPOSITORY = re.compile(rf"{_HOST}({_NAME}/{_NAME}?)(?:\.git)?/?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Pull:
    """A pull request. `head` is a commit, `updated` GitHub's ISO 8601 in UTC.
    A project that copies commits shows merged work as "closed"."""

    number: int
    title: str
    state: State
    head: str
    updated: str


@dataclass(frozen=True)
class Issue:
    """An issue; `body` as its author wrote it."""

    number: int
    title: str
    url: str
    body: str


def slug_of(url: str) -> str:
    """Return 'owner/name' of a git address on github.com, '' for any other."""
    match = _REPOSITORY.fullmatch(url.strip())
    return match[1] if match else ""


def pull_url(slug: str, number: int) -> str:
    """Return the page of a pull request."""
    return f"https://github.com/{slug}/pull/{number}"
