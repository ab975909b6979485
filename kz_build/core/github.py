"""GitHub's REST API, as far as kz needs it: upstream's pull requests, and the issue that the nightly run keeps.

Addresses, headers and limits: https://docs.github.com/en/rest. Responses are kept in the store with their ETag: a 304
does not count against a token's rate limit.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import requests

from kz_build import __version__
from kz_build.core import http
from kz_build.core.env import variable
from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.files import OWN
from kz_build.core.github_types import Issue, Pull
from kz_build.core.hash_cache import read_cached, write_cached

LABEL = "kz-patch-health"
"""Label of the issues that kz opens; only those who may triage can set it."""

PATIENCE = 60
"""The longest that kz waits for a rate limit, in seconds; a longer wait is an error."""

_TIMEOUT = (10, 30)
_ATTEMPTS = 3
_LONGEST_WAIT = 3e9  # seconds until a rate limit ends: what dates can say
_LONGEST_BODY = 65_536  # characters; GitHub refuses more
_MOST_PAGES = 100  # of 100 items
_Item = TypeVar("_Item")


class _Answer(NamedTuple):
    response: requests.Response
    content: bytes


def open_pulls(store: Path, slug: str) -> tuple[Pull, ...]:
    """Return the open pull requests of 'owner/name', newest first. Raises MissingError or CommandError, like all functions here."""
    return tuple(items(store, f"/repos/{slug}/pulls?state=open&per_page=100", _pull))


def pull(store: Path, slug: str, number: int) -> Pull:
    """Return a pull request, in any state."""
    return read(store, f"/repos/{slug}/pulls/{number}", _pull)


def find_issue(store: Path, slug: str, marker: str) -> Issue | None:
    """Return the newest open issue that kz opened with a marker, which is its first line: text of others comes below it."""
    path = f"/repos/{slug}/issues?state=open&labels={LABEL}&sort=created&direction=desc&per_page=100"
    issues = (issue for issue in items(store, path, _issue_or_pull) if issue)
    return next((issue for issue in issues if issue.body.startswith(comment_marker(marker))), None)


def create_issue(slug: str, title: str, body: str, marker: str) -> Issue:
    """Open an issue with `marker` hidden in its body, for `find_issue`."""
    path = f"/repos/{slug}/issues"
    data = write("POST", path, {"title": title, "body": body_with_marker(body, marker), "labels": [LABEL]})
    issue = parse(_issue, data, path)
    if LABEL not in parse(lambda known: [label["name"] for label in known["labels"]], data, path):
        # GitHub silently drops labels the author may not set; then each night would open another issue.
        raise CommandError(
            f"{issue.url} was opened without its label {LABEL}",
            hint=f"set the label by hand; the token needs `issues: write` on {slug}",
        )
    return issue


def update_issue(slug: str, number: int, body: str, marker: str) -> Issue:
    path = f"/repos/{slug}/issues/{number}"
    return parse(_issue, write("PATCH", path, {"body": body_with_marker(body, marker)}), path)


def comment(slug: str, number: int, body: str) -> str:
    """Add a comment to an issue or pull request; return its URL."""
    path = f"/repos/{slug}/issues/{number}/comments"
    return parse(lambda data: str(data["html_url"]), write("POST", path, {"body": body[:_LONGEST_BODY]}), path)


def comment_marker(marker: str) -> str:
    """Return the first line of what kz wrote, by which it finds it again."""
    return f"<!-- {marker} -->"


def body_with_marker(body: str, marker: str) -> str:
    """Return a text with its marker as its first line, and no longer than GitHub allows."""
    return f"{comment_marker(marker)}\n{body}"[:_LONGEST_BODY]  # the marker first: only text for people is cut


def _pull(data: Any) -> Pull:
    merged = data["merged_at"] is not None
    return Pull(
        number=int(data["number"]),
        title=str(data["title"]),
        state="merged" if merged else "open" if data["state"] == "open" else "closed",
        head=str(data["head"]["sha"]),
        updated=str(data["updated_at"]),
    )


def _issue(data: Any) -> Issue:
    return Issue(int(data["number"]), str(data["title"]), str(data["html_url"]), str(data["body"] or ""))


def _issue_or_pull(data: Any) -> Issue | None:
    return None if "pull_request" in data else _issue(data)  # GitHub lists both as issues


def required_token(permission: str) -> str:
    """Return the token. Raises MissingError if there is none, with the permission that it needs."""
    if known := token():
        return known
    what = f"a token for {_api()} with the permission `{permission}: write`"
    remedy = f"export GITHUB_TOKEN=…; in a workflow: `permissions: {permission}: write` and `GITHUB_TOKEN: ${{{{ github.token }}}}`"
    raise MissingError((Missing(what, "neither GITHUB_TOKEN nor GH_TOKEN is set", remedy),))


def _permission(path: str) -> str:
    return "pull-requests" if "/pulls" in path else "contents" if "/git/" in path else "issues"


def parse(make: Callable[[Any], _Item], data: Any, path: str) -> _Item:
    """Return what `make` reads in an answer. Raises CommandError if it cannot."""
    try:
        return make(data)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise _unexpected(_api() + path, f"{type(error).__name__}: {error}") from error


def _unexpected(url: str, what: str) -> CommandError:
    return CommandError(f"{url} did not answer like GitHub: {what}", hint="is a proxy or GITHUB_API_URL in between?")


def read(store: Path, path: str, make: Callable[[Any], _Item]) -> _Item:
    """Return what `make` reads in the answer to a path."""
    with _session() as web:
        data, _ = _page(web, store, _api() + path)
    return parse(make, data, path)


def items(store: Path, path: str, make: Callable[[Any], _Item]) -> Iterator[_Item]:
    """Yield the items of a list, over all its pages."""
    following = _api() + path
    seen: set[str] = set()
    with _session() as web:
        while following:
            url = following
            if url in seen:
                raise _unexpected(url, "its pages go round in a circle")
            if len(seen) == _MOST_PAGES:
                raise _unexpected(url, f"a list of more than {_MOST_PAGES} pages")
            seen.add(url)
            data, following = _page(web, store, url)
            if not isinstance(data, list):
                raise _unexpected(url, f"{type(data).__name__}, not a list")
            for item in data:
                yield parse(make, item, path)


def _page(web: requests.Session, store: Path, url: str) -> tuple[Any, str]:
    """Return (the JSON of a URL, the next page's URL or ''), from the store if it did not change."""
    key = hashlib.sha256(f"{url} {'token' if token() else 'anonymous'}".encode()).hexdigest()
    file = store / "github" / f"{key}.json"
    cached = read_cached(file)
    answer = _request(web, "GET", url, headers={"If-None-Match": cached["etag"]} if cached else {})
    response = answer.response
    if response.status_code == 304 and cached:
        return cached["data"], cached["next"]
    data = _json(answer)
    following = response.links.get("next", {}).get("url", "")
    if following and not following.startswith(f"{_api()}/"):
        raise _unexpected(url, f"the next page is on another host: {following}")  # which must not get the token
    if tag := response.headers.get("ETag"):
        write_cached(file, {"url": url, "etag": tag, "next": following, "data": data}, OWN)
    return data, following


def write(method: str, path: str, content: dict[str, Any]) -> Any:
    """Send content, and return the answer."""
    required_token(_permission(path))
    with _session() as web:
        return _json(_request(web, method, _api() + path, content=content))


def _json(answer: _Answer) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError) as error:
        raise _unexpected(answer.response.url, "no JSON") from error


def _api() -> str:
    return (variable("GITHUB_API_URL") or "https://api.github.com").rstrip("/")


def token() -> str:
    """Return the token of this process, '' if it has none."""
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        if known := variable(name).strip():
            if not (known.isascii() and known.isprintable() and " " not in known):
                raise ConfigError(f"{name} has characters that no token has")  # and that http would print
            return known
    return ""


def _add_token(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add the token; as `auth`, because requests lets ~/.netrc override our header."""
    if known := token():
        request.headers["Authorization"] = f"Bearer {known}"
    return request


def _session() -> requests.Session:
    # We handle refused requests ourselves, so no 429 here; a write may have succeeded already, so only GET.
    retry = http.BoundedRetry(
        total=3,
        connect=1,
        read=1,
        backoff_factor=0.5,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=("GET",),
        respect_retry_after_header=False,
        raise_on_status=False,
    )
    web = http.session(retry)
    web.headers.update(
        {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": f"kz_build/{__version__}",
        }
    )
    web.auth = _add_token
    return web


def _request(
    web: requests.Session, method: str, url: str, *, headers: dict[str, str] | None = None, content: Any = None
) -> _Answer:
    """Return an answer of 200, 201 or 304; wait for a rate limit that ends soon."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with http.answer(web, method, url, headers or {}, _TIMEOUT, content) as response:
                answer = _Answer(response, http.content(response))
        except requests.RequestException as error:
            remedy = "a network that reaches it, or another address in GITHUB_API_URL"
            raise MissingError((Missing(_api(), http.cause(error), remedy),)) from error
        if response.status_code in (200, 201, 304):
            return answer
        seconds = _rate_limit_seconds(answer)
        if seconds is None:
            raise _http_error(method, answer)
        if seconds > PATIENCE or attempt == _ATTEMPTS:
            raise _rate_limit_error(seconds)
        time.sleep(seconds)
    raise AssertionError("the last attempt returns or raises")


def _rate_limit_seconds(answer: _Answer) -> float | None:
    """Return the seconds until GitHub accepts requests again, None if it refused for another reason."""
    response = answer.response
    if response.status_code not in (403, 429):
        return None
    after = response.headers.get("Retry-After", "")
    if after.isdecimal():
        return min(float(after), _LONGEST_WAIT)
    reset = response.headers.get("X-RateLimit-Reset", "")
    if response.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
        return min(max(1.0, float(reset) - time.time()), _LONGEST_WAIT)
    # GitHub's advice if it names no time: "wait for at least one minute".
    return PATIENCE + 1.0 if response.status_code == 429 or b"rate limit" in answer.content.lower() else None


def _rate_limit_error(seconds: float) -> CommandError:
    until = datetime.datetime.fromtimestamp(time.time() + seconds, datetime.timezone.utc)
    return CommandError(
        f"{_api()} accepts no more requests until {until:%Y-%m-%d %H:%M:%S} UTC: its rate limit is used up",
        hint="wait until then" if token() else "wait until then, or export GITHUB_TOKEN=…: a token raises the limit",
    )


_HINTS = {
    401: "GITHUB_TOKEN or GH_TOKEN is wrong or has expired",
    404: "is the name right? GitHub answers 404 for a private repository that the token cannot see",
}


def _http_error(method: str, answer: _Answer) -> CommandError:
    response = answer.response
    try:
        message = str(json.loads(answer.content)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = response.reason or ""
    status = response.status_code
    hint = _HINTS.get(status, "try again later" if status >= 500 else "")
    if status == 403:
        right = "read" if method == "GET" else "write"
        hint = f"the token does not allow that; in a workflow: `permissions: {_permission(response.url)}: {right}`"
        if method == "POST" and response.url.endswith("/pulls"):
            hint += ", and Settings > Actions > General > Allow GitHub Actions to create and approve pull requests"
    return CommandError(f"{method} {response.url} answered HTTP {status}: {message}", hint=hint)
