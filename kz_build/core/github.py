"""What kz asks of GitHub's REST API: upstream's pull requests, and the one issue that the nightly run keeps.

Addresses, headers and limits: https://docs.github.com/en/rest. Answers are kept in the store with their ETag, as a 304
costs a token nothing of its rate limit.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from kz_build import __version__
from kz_build.core import http
from kz_build.core.env import variable
from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.files import write_atomic
from kz_build.core.github_types import Issue, Pull

LABEL = "kz-patch-health"
"""Label of the issues that kz opens; GitHub lets nobody set it who may not triage."""

PATIENCE = 60
"""Seconds that kz waits for a rate limit; a longer one is an error."""

_TIMEOUT = (10, 30)
_TURNS = 3
_LONGEST_BODY = 65_536  # characters; GitHub refuses more
_Made = TypeVar("_Made")


def open_pulls(store: Path, slug: str) -> tuple[Pull, ...]:
    """All open pull requests of 'owner/name', newest first. Raises MissingError or CommandError like all here."""
    return tuple(_items(store, f"/repos/{slug}/pulls?state=open&per_page=100", _pull))


def pull(store: Path, slug: str, number: int) -> Pull:
    """One pull request, in whatever state."""
    path = f"/repos/{slug}/pulls/{number}"
    with _session() as web:
        data, _ = _read(web, store, _base() + path)
    return _understood(_pull, data, path)


def find_issue(store: Path, slug: str, marker: str) -> Issue | None:
    """The newest open issue that kz opened under a marker."""
    path = f"/repos/{slug}/issues?state=open&labels={LABEL}&sort=created&direction=desc&per_page=100"
    issues = (issue for issue in _items(store, path, _issue_or_pull) if issue)
    return next((issue for issue in issues if _hidden(marker) in issue.body), None)


def create_issue(slug: str, title: str, body: str, marker: str) -> Issue:
    """Open an issue that `find_issue` finds by `marker`, which stays hidden in its body."""
    path = f"/repos/{slug}/issues"
    made = _write("POST", path, {"title": title, "body": _marked(body, marker), "labels": [LABEL]})
    issue = _understood(_issue, made, path)
    if LABEL not in _understood(_labels, made, path):
        # GitHub drops in silence what the author may not set, and then each night would open another issue.
        raise CommandError(
            f"{issue.url} was opened without its label {LABEL}",
            hint=f"set the label by hand; the token needs `issues: write` on {slug}",
        )
    return issue


def update_issue(slug: str, number: int, body: str, marker: str) -> Issue:
    """Replace the body of an issue."""
    path = f"/repos/{slug}/issues/{number}"
    return _understood(_issue, _write("PATCH", path, {"body": _marked(body, marker)}), path)


def comment(slug: str, number: int, body: str) -> str:
    """Add a comment to an issue or pull request; gives its address."""
    path = f"/repos/{slug}/issues/{number}/comments"
    return _understood(lambda data: str(data["html_url"]), _write("POST", path, {"body": body[:_LONGEST_BODY]}), path)


def _hidden(marker: str) -> str:
    return f"<!-- {marker} -->"


def _marked(body: str, marker: str) -> str:
    return f"{_hidden(marker)}\n{body}"[:_LONGEST_BODY]  # the marker first: cut is only what people read


def _pull(data: Any) -> Pull:
    merged = data["merged_at"] is not None
    return Pull(
        number=int(data["number"]),
        title=str(data["title"]),
        state="merged" if merged else "open" if data["state"] == "open" else "closed",
        head=str(data["head"]["sha"]),
        base=str(data["base"]["ref"]),
        author=_author(data["user"]),
        updated=str(data["updated_at"]),
        url=str(data["html_url"]),
        # Until it is merged, GitHub names its trial merge there.
        merged_commit=str(data["merge_commit_sha"] or "") if merged else "",
    )


def _author(user: Any) -> str:
    return str(user["login"]) if user else ""  # an account that is gone


def _issue(data: Any) -> Issue:
    return Issue(int(data["number"]), str(data["title"]), str(data["html_url"]), str(data["body"] or ""))


def _issue_or_pull(data: Any) -> Issue | None:
    return None if "pull_request" in data else _issue(data)  # GitHub lists both as issues


def _labels(data: Any) -> list[str]:
    return [str(label["name"]) for label in data["labels"]]


def _understood(make: Callable[[Any], _Made], data: Any, path: str) -> _Made:
    try:
        return make(data)
    except (KeyError, TypeError, ValueError) as error:
        raise _strange(_base() + path, f"{type(error).__name__}: {error}") from error


def _strange(url: str, what: str) -> CommandError:
    return CommandError(f"{url} answered what GitHub does not: {what}", hint="is a proxy or GITHUB_API_URL in between?")


def _items(store: Path, path: str, make: Callable[[Any], _Made]) -> Iterator[_Made]:
    """What a list holds over all its pages."""
    following = _base() + path
    with _session() as web:
        while following:
            url = following
            data, following = _read(web, store, url)
            if not isinstance(data, list):
                raise _strange(url, f"{type(data).__name__}, not a list")
            for item in data:
                yield _understood(make, item, path)


def _read(web: requests.Session, store: Path, url: str) -> tuple[Any, str]:
    """(what an address says, address of the next page or ''), from the store when it did not change there."""
    key = hashlib.sha256(f"{url} {'token' if _token() else 'anonymous'}".encode()).hexdigest()
    file = store / "github" / f"{key}.json"
    kept = _kept(file)
    answer = _ask(web, "GET", url, headers={"If-None-Match": kept["etag"]} if kept else {})
    if answer.status_code == 304 and kept:
        return kept["data"], kept["next"]
    data = _json(answer)
    following = answer.links.get("next", {}).get("url", "")
    if following and urlsplit(following)[:2] != urlsplit(url)[:2]:
        raise _strange(url, f"the next page is elsewhere, at {following}")  # where the token must not go
    if tag := answer.headers.get("ETag"):
        write_atomic(file, json.dumps({"url": url, "etag": tag, "next": following, "data": data}).encode())
    return data, following


def _kept(file: Path) -> dict[str, Any] | None:
    try:
        kept = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and {"etag", "next", "data"} <= kept.keys() else None


def _write(method: str, path: str, content: dict[str, Any]) -> Any:
    if not _token():
        what = f"a token that may write issues at {_base()}"
        brings = (
            "export GITHUB_TOKEN=…; in a workflow: `permissions: issues: write` and `GITHUB_TOKEN: ${{ github.token }}`"
        )
        raise MissingError((Missing(what, "neither GITHUB_TOKEN nor GH_TOKEN is set", brings),))
    with _session() as web:
        return _json(_ask(web, method, _base() + path, content=content))


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise _strange(answer.url, "no JSON") from error


def _base() -> str:
    return (variable("GITHUB_API_URL") or "https://api.github.com").rstrip("/")


def _token() -> str:
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        if token := variable(name).strip():
            if not (token.isascii() and token.isprintable() and " " not in token):
                raise ConfigError(f"{name} holds characters that no token has")  # and that http would print
            return token
    return ""


def _sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add the token; as `auth`, because requests would put what ~/.netrc has over a header of ours."""
    if token := _token():
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _session() -> requests.Session:
    web = http.session()
    # A refused request is ours to judge, so no 429 here; what was written may be written already, so GET only.
    retry = Retry(
        total=3,
        connect=1,
        read=1,
        backoff_factor=0.5,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=("GET",),
        respect_retry_after_header=False,
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        web.mount(scheme, HTTPAdapter(max_retries=retry))
    web.headers.update(
        {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": f"kz_build/{__version__}",
        }
    )
    web.auth = _sign
    return web


def _ask(
    web: requests.Session, method: str, url: str, *, headers: dict[str, str] | None = None, content: Any = None
) -> requests.Response:
    """An answer of 200, 201 or 304; a rate limit that ends soon is waited for."""
    for turn in range(1, _TURNS + 1):
        try:
            answer = web.request(method, url, headers=headers, json=content, timeout=_TIMEOUT)
        except requests.RequestException as error:
            brings = "a network that reaches it, or another address in GITHUB_API_URL"
            raise MissingError((Missing(_base(), http.cause(error), brings),)) from error
        if answer.status_code in (200, 201, 304):
            return answer
        seconds = _limited(answer)
        if seconds is None:
            raise _refused(method, answer)
        if seconds > PATIENCE or turn == _TURNS:
            raise _used_up(seconds)
        time.sleep(seconds)
    raise AssertionError("the last turn returns or raises")


def _limited(answer: requests.Response) -> float | None:
    """Seconds until GitHub takes requests again, None when it refused for another reason."""
    if answer.status_code not in (403, 429):
        return None
    after = answer.headers.get("Retry-After", "")
    if after.isdecimal():
        return float(after)
    reset = answer.headers.get("X-RateLimit-Reset", "")
    if answer.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
        return max(1.0, int(reset) - time.time())
    # What it advises where it says neither: "wait for at least one minute".
    return PATIENCE + 1.0 if answer.status_code == 429 or "rate limit" in answer.text.lower() else None


def _used_up(seconds: float) -> CommandError:
    until = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.timezone.utc)
    return CommandError(
        f"{_base()} takes no more requests until {until:%Y-%m-%d %H:%M:%S} UTC: its rate limit is used up",
        hint="wait until then" if _token() else "wait until then, or export GITHUB_TOKEN=…: a token raises the limit",
    )


_HINTS = {
    401: "GITHUB_TOKEN or GH_TOKEN is wrong or has run out",
    403: "the token may not do that; in a workflow: `permissions: issues: write`",
    404: "is the name right? without a token that may see it, GitHub says of a private repository that there is none",
}


def _refused(method: str, answer: requests.Response) -> CommandError:
    try:
        said = str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        said = answer.reason or ""
    status = answer.status_code
    hint = _HINTS.get(status, "try again later" if status >= 500 else "")
    return CommandError(f"{method} {answer.url} answered HTTP {status}: {said}", hint=hint)
