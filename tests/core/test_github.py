"""GitHub's API as kz uses it, against a real web server on loopback that checks what it is asked."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kz_build import __version__
from kz_build.core import github
from kz_build.core.errors import CommandError, ConfigError, KzError, MissingError
from kz_build.core.github_types import slug_of
from tests.conftest import ROOT
from tests.deadline import patient

SLUG = "up/stream"
PULLS = f"/repos/{SLUG}/pulls?state=open&per_page=100"
ISSUES = f"/repos/{SLUG}/issues?state=open&labels=kz-patch-health&sort=created&direction=desc&per_page=100"
TOKEN = "ghp_0123456789"


@dataclass
class Asked:
    """A request as the server saw it."""

    method: str
    path: str
    headers: dict[str, str]
    content: Any


@dataclass
class Answer:
    status: int
    data: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


class Api(http.server.ThreadingHTTPServer):
    """Gives the answers it was told to give, in order; an If-None-Match that fits the next one's ETag gets a 304."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.answers: dict[tuple[str, str], deque[Answer]] = {}
        self.asked: list[Asked] = []
        self.wrong: list[str] = []

    def tell(self, path: str, *answers: Answer, method: str = "GET") -> None:
        self.answers.setdefault((method, path), deque()).extend(answers)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Api
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
        self.server.asked.append(Asked(self.command, self.path, dict(self.headers), content))
        for name, value in (
            ("Accept", "application/vnd.github+json"),
            ("X-GitHub-Api-Version", "2022-11-28"),
            ("User-Agent", f"kz_build/{__version__}"),
            ("Content-Type", None if self.command == "GET" else "application/json"),
        ):
            if self.headers.get(name) != value:
                self.server.wrong.append(f"{self.command} {self.path}: {name} is {self.headers.get(name)!r}")
        waiting = self.server.answers.get((self.command, self.path))
        answer = waiting.popleft() if waiting else Answer(404, {"message": "Not Found"})
        tag = answer.headers.get("ETag")
        if tag and self.headers.get("If-None-Match") == tag:
            answer = Answer(304, headers={"ETag": tag})
        body = (
            answer.raw if answer.raw is not None else b"" if answer.status == 304 else json.dumps(answer.data).encode()
        )
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET
    do_PATCH = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def make_api() -> Iterator[Callable[[], Api]]:
    """Servers that run until the test ends, and did not see a request without the headers that GitHub asks for."""
    running: list[Api] = []

    def make() -> Api:
        running.append(Api())
        threading.Thread(target=running[-1].serve_forever, args=(0.05,), daemon=True).start()
        return running[-1]

    yield make
    for api in running:
        api.shutdown()
        api.server_close()
        assert not api.wrong


@pytest.fixture
def api(make_api: Callable[[], Api], monkeypatch: pytest.MonkeyPatch) -> Api:
    """The server that GITHUB_API_URL names; no token, no proxy."""
    made = make_api()
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("GITHUB_API_URL", f"{made.url}/")
    return made


@pytest.fixture
def token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", f"{TOKEN}\n")  # as files end


def raw_pull(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "number": number,
        "title": f"Change {number}",
        "state": "open",
        "head": {"sha": f"{number:040x}", "ref": "topic"},
        "base": {"ref": "main"},
        "user": {"login": "someone"},
        "updated_at": "2026-11-20T10:00:00Z",
        "html_url": f"https://github.com/{SLUG}/pull/{number}",
        "merged_at": None,
        "merge_commit_sha": "f" * 40,
        **changed,
    }


def raw_issue(number: int, body: str | None, **changed: Any) -> dict[str, Any]:
    url = f"https://github.com/{SLUG}/issues/{number}"
    labels = [{"name": "kz-patch-health"}]
    return {"number": number, "title": "broken", "html_url": url, "body": body, "labels": labels, **changed}


def one_pull_with(**changed: Any) -> Answer:
    return Answer(200, [raw_pull(1, **changed)], {"ETag": 'W/"a"'})


def test_all_pages_of_open_pulls(api: Api, tmp_path: Path) -> None:
    second = "/repositories/7/pulls?per_page=100&page=2"
    api.tell(PULLS, Answer(200, [raw_pull(3), raw_pull(2, user=None)], {"Link": f'<{api.url}{second}>; rel="next"'}))
    api.tell(second, Answer(200, [raw_pull(1)], {"Link": f'<{api.url}{PULLS}>; rel="first"'}))
    pulls = github.open_pulls(tmp_path, SLUG)
    assert [p.number for p in pulls] == [3, 2, 1]
    assert [a.path for a in api.asked] == [PULLS, second]
    assert "Authorization" not in api.asked[0].headers
    first = pulls[0]
    assert (first.state, first.head) == ("open", f"{3:040x}")
    assert (first.title, first.updated) == ("Change 3", "2026-11-20T10:00:00Z")


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "open"),
        ({"state": "closed"}, "closed"),
        ({"state": "closed", "merged_at": "2026-11-20T11:00:00Z"}, "merged"),
    ],
)
def test_the_state_of_a_pull(api: Api, tmp_path: Path, changed: dict[str, Any], state: str) -> None:
    api.tell(f"/repos/{SLUG}/pulls/5", Answer(200, raw_pull(5, **changed)))
    found = github.pull(tmp_path, SLUG, 5)
    assert (found.number, found.state) == (5, state)


def test_an_answer_that_did_not_change_comes_from_the_store(api: Api, tmp_path: Path) -> None:
    second = f"{PULLS}&page=2"
    for _ in range(2):
        api.tell(PULLS, Answer(200, [raw_pull(2)], {"ETag": '"p1"', "Link": f'<{api.url}{second}>; rel="next"'}))
        api.tell(second, Answer(200, [raw_pull(1)], {"ETag": '"p2"'}))
    before = github.open_pulls(tmp_path, SLUG)
    assert github.open_pulls(tmp_path, SLUG) == before and len(before) == 2
    assert [a.headers.get("If-None-Match") for a in api.asked] == [None, None, '"p1"', '"p2"']
    assert len(list((tmp_path / "github").iterdir())) == 2
    api.tell(PULLS, Answer(200, [raw_pull(9)], {"ETag": '"p1b"'}))
    assert [p.number for p in github.open_pulls(tmp_path, SLUG)] == [9]


def test_what_a_token_may_see_is_kept_apart(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.tell(PULLS, one_pull_with(), one_pull_with(title="private"), one_pull_with())
    assert github.open_pulls(tmp_path, SLUG)[0].title == "Change 1"
    monkeypatch.setenv("GH_TOKEN", "second-choice")
    assert github.open_pulls(tmp_path, SLUG)[0].title == "private"
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    assert github.open_pulls(tmp_path, SLUG)[0].title == "private"
    assert [a.headers.get("Authorization") for a in api.asked] == [None, "Bearer second-choice", f"Bearer {TOKEN}"]
    assert [a.headers.get("If-None-Match") for a in api.asked] == [None, None, 'W/"a"']


@pytest.mark.parametrize("damage", [b"", b'{"etag": "W/', b"[]", b'{"etag": "W/\\"a\\""}'])
def test_a_damaged_store_is_asked_again(api: Api, tmp_path: Path, damage: bytes) -> None:
    api.tell(PULLS, one_pull_with(), one_pull_with())
    before = github.open_pulls(tmp_path, SLUG)
    (kept,) = (tmp_path / "github").iterdir()
    kept.write_bytes(damage)
    assert github.open_pulls(tmp_path, SLUG) == before
    assert "If-None-Match" not in api.asked[1].headers


def test_a_busy_server_is_asked_again(api: Api, tmp_path: Path) -> None:
    api.tell(PULLS, Answer(500, raw=b"oops"), Answer(200, [raw_pull(1)]))
    assert len(github.open_pulls(tmp_path, SLUG)) == 1
    assert len(api.asked) == 2


def test_a_server_that_stays_broken(api: Api, tmp_path: Path) -> None:
    api.tell(PULLS, *[Answer(502, raw=b"<html>bad gateway</html>") for _ in range(9)])
    with pytest.raises(CommandError, match="HTTP 502: Bad Gateway") as raised:
        github.open_pulls(tmp_path, SLUG)
    assert len(api.asked) == 4 and raised.value.hint == "try again later"
    assert not (tmp_path / "github").exists()


def test_a_short_retry_after_is_waited_for(api: Api, tmp_path: Path) -> None:
    said = {"message": "You have exceeded a secondary rate limit"}
    api.tell(PULLS, Answer(429, said, {"Retry-After": "1"}), Answer(403, said, {"Retry-After": "1"}), one_pull_with())
    began = time.monotonic()
    assert len(github.open_pulls(tmp_path, SLUG)) == 1
    assert 2 <= time.monotonic() - began < patient(20)


def test_a_limit_that_does_not_end(api: Api, tmp_path: Path) -> None:
    api.tell(PULLS, *[Answer(429, {}, {"Retry-After": "0"}) for _ in range(9)])
    with pytest.raises(CommandError, match="rate limit is used up"):
        github.open_pulls(tmp_path, SLUG)
    assert len(api.asked) == 3


@pytest.mark.parametrize(
    "headers",
    [
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1", "Retry-After": "2000000000"},
    ],
)
@pytest.mark.parametrize("status", [403, 429])
def test_a_used_up_rate_limit_says_until_when(api: Api, tmp_path: Path, status: int, headers: dict[str, str]) -> None:
    api.tell(PULLS, Answer(status, {"message": "API rate limit exceeded"}, headers))
    with pytest.raises(CommandError) as raised:
        github.open_pulls(tmp_path, SLUG)
    said = str(raised.value)
    assert "2100-01-01 00:00:00 UTC" in said or "until 209" in said, said  # Retry-After counts from today
    assert "export GITHUB_TOKEN" in raised.value.hint
    assert len(api.asked) == 1


@pytest.mark.usefixtures("token")
def test_a_used_up_rate_limit_with_a_token(api: Api, tmp_path: Path) -> None:
    api.tell(PULLS, Answer(403, {"message": "API rate limit exceeded for user"}))  # without a word on when
    with pytest.raises(CommandError, match="rate limit is used up") as raised:
        github.open_pulls(tmp_path, SLUG)
    assert raised.value.hint == "wait until then"


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (401, "Bad credentials", "wrong or has expired"),
        (403, "Resource not accessible by integration", "pull-requests: read"),
        (404, "Not Found", "is the name right"),
        (422, "Validation Failed", ""),
    ],
)
@pytest.mark.usefixtures("token")
def test_what_github_refuses(api: Api, tmp_path: Path, status: int, message: str, hint: str) -> None:
    path = f"/repos/{SLUG}/pulls/5"
    headers = {"X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "4102444800"}
    api.tell(path, Answer(status, {"message": message}, headers))
    with pytest.raises(CommandError, match=f"GET {api.url}{path} answered HTTP {status}: {message}") as raised:
        github.pull(tmp_path, SLUG, 5)
    assert hint in raised.value.hint and bool(hint) == bool(raised.value.hint)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, raw=b"<html>log in to this network</html>"),
        Answer(200, raw=b'[{"number": 1'),
        Answer(200, raw=b""),
        Answer(200, {"message": "hello"}),
        Answer(200, [{"number": 1}]),
        Answer(200, [None]),
        Answer(200, [{**raw_pull(1), "number": "one"}]),
        Answer(200, None),
    ],
)
def test_what_is_not_githubs(api: Api, tmp_path: Path, answer: Answer) -> None:
    api.tell(PULLS, answer)
    with pytest.raises(CommandError, match="did not answer like GitHub") as raised:
        github.open_pulls(tmp_path, SLUG)
    assert api.url in str(raised.value)


@pytest.mark.usefixtures("token")
def test_the_token_goes_nowhere_else(api: Api, make_api: Callable[[], Api], tmp_path: Path) -> None:
    other = make_api()
    other.tell("/stolen", Answer(200, [raw_pull(1)]))
    api.tell(PULLS, Answer(200, [raw_pull(2)], {"Link": f'<{other.url}/stolen>; rel="next"'}))
    with pytest.raises(CommandError, match="the next page is on another host"):
        github.open_pulls(tmp_path, SLUG)
    assert not other.asked
    api.tell(PULLS, Answer(302, {}, {"Location": f"{other.url}/stolen"}))
    github.open_pulls(tmp_path, SLUG)
    assert len(other.asked) == 1 and "Authorization" not in other.asked[0].headers


def test_a_repository_that_moved(api: Api, tmp_path: Path, token: None) -> None:
    api.tell(PULLS, Answer(301, {}, {"Location": f"{api.url}/repositories/7/pulls"}))
    api.tell("/repositories/7/pulls", one_pull_with())
    assert len(github.open_pulls(tmp_path, SLUG)) == 1
    assert api.asked[1].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_port_where_nobody_listens(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("GITHUB_API_URL", dead)
        began = time.monotonic()
        with pytest.raises(MissingError) as raised:
            github.open_pulls(tmp_path, SLUG)
    assert time.monotonic() - began < patient(2.5)
    assert raised.value.exit_code == 6
    (missing,) = raised.value.missing
    assert (missing.what, missing.why) == (dead, "Connection refused") and "GITHUB_API_URL" in missing.remedy


def test_a_connection_that_breaks_off(api: Api, tmp_path: Path) -> None:
    short = {"Content-Length": "999", "Connection": "close"}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        head = "HTTP/1.1 200 OK\r\n" + "".join(f"{k}: {v}\r\n" for k, v in short.items()) + "\r\n[{"

        def serve() -> None:
            for _ in range(5):
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(head.encode())

        threading.Thread(target=serve, daemon=True).start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
            with pytest.raises(MissingError):
                github.open_pulls(tmp_path, SLUG)
    assert not (tmp_path / "github").exists()


def test_a_token_that_no_header_can_hold(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret\r\nX-Evil: 1")
    with pytest.raises(ConfigError, match="GITHUB_TOKEN has characters") as raised:
        github.open_pulls(tmp_path, SLUG)
    assert "ghp_secret" not in str(raised.value) and not api.asked


@pytest.mark.usefixtures("token")
def test_the_issue_of_a_marker(api: Api, tmp_path: Path) -> None:
    api.tell(
        ISSUES,
        Answer(
            200,
            [
                raw_issue(9, "<!-- kz: et-1.4 -->\na pull", pull_request={}),
                raw_issue(8, None),
                raw_issue(7, "mentions kz: et-1.4, has it not"),
                raw_issue(6, "<!-- kz: et-1.4 -->\nnewer"),
                raw_issue(5, "<!-- kz: et-1.4 -->\nolder"),
            ],
        ),
        Answer(200, []),
    )
    found = github.find_issue(tmp_path, SLUG, "kz: et-1.4")
    assert found and (found.number, found.title, found.url) == (6, "broken", "https://github.com/up/stream/issues/6")
    assert github.find_issue(tmp_path, SLUG, "kz: et-1.4") is None


@pytest.mark.usefixtures("token")
def test_an_issue_of_a_later_page_is_found(api: Api, tmp_path: Path) -> None:
    api.tell(ISSUES, Answer(200, [raw_issue(9, "")], {"Link": f'<{api.url}{ISSUES}&after=x>; rel="next"'}))
    api.tell(f"{ISSUES}&after=x", Answer(200, [raw_issue(2, "text\n<!-- m -->"), raw_issue(1, "<!-- m -->\ntext")]))
    found = github.find_issue(tmp_path, SLUG, "m")
    assert found and found.number == 1


@pytest.mark.usefixtures("token")
def test_an_issue_is_opened_updated_and_commented(api: Api, tmp_path: Path) -> None:
    path = f"/repos/{SLUG}/issues"
    api.tell(path, Answer(201, raw_issue(4, "x")), method="POST")
    assert github.create_issue(SLUG, "0003 breaks", "at abc", "m").number == 4
    api.tell(f"{path}/4", Answer(200, raw_issue(4, "y")), method="PATCH")
    assert github.update_issue(SLUG, 4, "at def", "m").body == "y"
    api.tell(f"{path}/4/comments", Answer(201, {"html_url": "https://x/4#1"}), method="POST")
    assert github.comment(SLUG, 4, "it works again") == "https://x/4#1"
    assert [(a.method, a.content) for a in api.asked] == [
        ("POST", {"title": "0003 breaks", "body": "<!-- m -->\nat abc", "labels": ["kz-patch-health"]}),
        ("PATCH", {"body": "<!-- m -->\nat def"}),
        ("POST", {"body": "it works again"}),
    ]
    assert {a.headers["Authorization"] for a in api.asked} == {f"Bearer {TOKEN}"}
    # What was sent is what find_issue finds.
    api.tell(ISSUES, Answer(200, [raw_issue(4, api.asked[1].content["body"])]))
    found = github.find_issue(tmp_path, SLUG, "m")
    assert found and found.number == 4


@pytest.mark.usefixtures("token")
def test_a_body_longer_than_github_takes(api: Api) -> None:
    api.tell(f"/repos/{SLUG}/issues/4", Answer(200, raw_issue(4, "")), method="PATCH")
    github.update_issue(SLUG, 4, "é" * 70_000, "m")
    sent = api.asked[0].content["body"]
    assert len(sent) == 65_536 and sent.startswith("<!-- m -->\né")


@pytest.mark.usefixtures("token")
def test_a_write_is_not_repeated_blindly(api: Api) -> None:
    path = f"/repos/{SLUG}/issues"
    api.tell(path, Answer(502, raw=b""), Answer(201, raw_issue(4, "")), method="POST")
    with pytest.raises(CommandError, match="HTTP 502"):
        github.create_issue(SLUG, "t", "b", "m")
    assert len(api.asked) == 1
    # A rate limit says that nothing was written.
    api.answers.clear()
    api.tell(path, Answer(403, {}, {"Retry-After": "0"}), Answer(201, raw_issue(4, "")), method="POST")
    assert github.create_issue(SLUG, "t", "b", "m").number == 4


@pytest.mark.usefixtures("token")
def test_an_issue_without_its_label_is_an_error(api: Api) -> None:
    api.tell(f"/repos/{SLUG}/issues", Answer(201, raw_issue(4, "", labels=[])), method="POST")
    with pytest.raises(CommandError, match="issues/4 was opened without its label") as raised:
        github.create_issue(SLUG, "t", "b", "m")
    assert "issues: write" in raised.value.hint


@pytest.mark.parametrize(
    "write",
    [
        lambda: github.create_issue(SLUG, "t", "b", "m"),
        lambda: github.update_issue(SLUG, 4, "b", "m"),
        lambda: github.comment(SLUG, 4, "b"),
    ],
)
def test_writing_needs_a_token(api: Api, write: Callable[[], object]) -> None:
    with pytest.raises(MissingError, match="neither GITHUB_TOKEN nor GH_TOKEN is set") as raised:
        write()
    error: KzError = raised.value
    assert error.exit_code == 6 and not api.asked


@pytest.mark.parametrize(
    ("url", "slug"),
    [
        ("https://github.com/pytorch/executorch", "pytorch/executorch"),
        ("https://github.com/pytorch/executorch.git", "pytorch/executorch"),
        ("https://github.com/pytorch/executorch/", "pytorch/executorch"),
        ("https://user:secret@github.com/pytorch/executorch.git", "pytorch/executorch"),
        ("https://www.GitHub.com/o/n.js.git", "o/n.js"),
        ("git@github.com:o/n.git", "o/n"),
        ("github.com:o/n", "o/n"),
        ("ssh://git@github.com/o/n.git", "o/n"),
        ("ssh://git@ssh.github.com:443/o/n.git", "o/n"),
        ("git://github.com/o/n", "o/n"),
        ("https://github.com/o/.github", "o/.github"),
        ("https://github.com/o", ""),
        ("https://github.com/o/n/pull/5", ""),
        ("https://github.com/o/..", ""),
        ("https://github.com/../n", ""),
        ("https://github.com/o/n?x=1", ""),
        ("https://github.com.evil.org/o/n", ""),
        ("https://evil.org/github.com/o/n", ""),
        ("https://gitlab.com/o/n", ""),
        ("/srv/github.com/o/n", ""),
        ("file:///srv/n.git", ""),
        ("", ""),
    ],
)
def test_slug_of(url: str, slug: str) -> None:
    assert slug_of(url) == slug


def test_a_slug_costs_no_import_of_requests() -> None:
    code = "import sys, kz_build.core.github_types; sys.exit('requests' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
