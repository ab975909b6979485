"""A GitHub on loopback that remembers: issues, pull requests, and a bare repository that git pushes to over HTTP."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.stack.test_git_tools import sh

SLUG = "us/ours"
TOKEN = "ghp_0123456789abcdef"
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@dataclass
class Thing:
    """An issue, or a pull request if it has a head."""

    number: int
    title: str
    body: str
    head: str = ""
    base: str = ""
    state: str = "open"
    comments: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        kind = "pull" if self.head else "issues"
        return {
            **{name: getattr(self, name) for name in ("number", "title", "body", "state")},
            "html_url": f"https://github.com/{SLUG}/{kind}/{self.number}",
            "labels": [{"name": "kz-patch-health"}],
        }


class GitHub(http.server.ThreadingHTTPServer):
    """`refusals` are (method, path) -> (status, message, headers); `wrote` is every request that was not a GET, and every push."""

    def __init__(self, bare: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.bare = bare
        self.things: list[Thing] = []
        self.wrote: list[str] = []
        self.refusals: dict[tuple[str, str], tuple[int, str, dict[str, str]]] = {}
        self.push_status = 200
        self.redirect = ""
        self.authorizations: list[str] = []

    def listed(self, *, pulls: bool) -> list[Thing]:
        return [thing for thing in self.things if bool(thing.head) == pulls]

    @property
    def pull(self) -> Thing:
        """The only pull request."""
        (pull,) = self.listed(pulls=True)
        return pull

    @property
    def issue(self) -> Thing:
        """The only issue."""
        (issue,) = self.listed(pulls=False)
        return issue

    def tip(self, branch: str) -> str:
        """The commit of a branch, '' if there is none."""
        return sh("git", "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}", cwd=self.bare)

    def answer(self, method: str, path: str, query: dict[str, list[str]], content: Any) -> tuple[int, Any]:
        """Answer as GitHub's API does."""
        place = path.removeprefix(f"/repos/{SLUG}/")
        if commit := re.fullmatch(r"git/commits/([0-9a-f]{40})", place):
            name, email, *message = sh("git", "log", "-1", "--format=%cn%n%ce%n%B", commit[1], cwd=self.bare).split(
                "\n"
            )
            return 200, {"committer": {"name": name, "email": email}, "message": "\n".join(message)}
        kind, _, rest = place.partition("/")
        if method == "GET":
            things = [
                t
                for t in reversed(self.listed(pulls=kind == "pulls"))
                if query["state"] == ["all"] or t.state == "open"
            ]
            head = query.get("head", [""])[0].removeprefix("us:")
            return 200, [
                {
                    **thing.json(),
                    "head": {"sha": self.tip(thing.head)},
                    "updated_at": "2026-01-01T00:00:00Z",
                    "merged_at": None,
                }
                for thing in things
                if not head or thing.head == head
            ]
        self.wrote.append(f"{method} {place}")
        if method == "POST" and not rest:
            fields = {name: content.get(name, "") for name in ("title", "body", "head", "base")}
            self.things.append(Thing(len(self.things) + 1, **fields))
            return 201, self.things[-1].json()
        thing = self.things[int(rest.partition("/")[0]) - 1]
        if rest.endswith("/comments"):
            thing.comments.append(content["body"])
            return 201, {"html_url": "https://x"}
        for name, value in content.items():
            setattr(thing, name, value)
        return 200, thing.json()


class Handler(http.server.BaseHTTPRequestHandler):
    server: GitHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self._body()
        if url.path.startswith(f"/{SLUG}.git/"):
            self._git(url.path, url.query, body)
            return
        refusal = self.server.refusals.get((self.command, url.path))
        if self.command != "GET" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            refusal = 401, "Bad credentials", {}
        status, data = (
            (refusal[0], {"message": refusal[1]})
            if refusal
            else self.server.answer(self.command, url.path, parse_qs(url.query), json.loads(body or b"null"))
        )
        self._send(status, json.dumps(data).encode(), refusal[2] if refusal else {})

    do_POST = do_GET
    do_PATCH = do_GET

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _git(self, path: str, query: str, body: bytes) -> None:
        """Let git's own server answer, to the right token alone."""
        writing = "git-receive-pack" in path + query
        if writing and self.command == "POST":
            self.server.wrote.append("push")
        self.server.authorizations.append(self.headers.get("Authorization", ""))
        if self.server.redirect:
            self._send(302, b"", {"Location": self.server.redirect + self.path})
            return
        if self.headers.get("Authorization") != f"Basic {BASIC}":
            self._send(401, b"", {"WWW-Authenticate": 'Basic realm="GitHub"'})
            return
        if writing and self.server.push_status != 200:
            self._send(self.server.push_status, b"Permission to us/ours.git denied to github-actions[bot].", {})
            return
        env = {
            "PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": str(self.server.bare.parent), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/us"), "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "us",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        output = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True).stdout
        head, _, data = output.partition(b"\r\n\r\n")
        headers = dict(row.split(": ", 1) for row in head.decode().split("\r\n"))
        self._send(int(headers.pop("Status", "200").split(" ")[0]), data, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def make_github(tmp_path: Path) -> Iterator[Callable[[Path], GitHub]]:
    """A function that commits and pushes a project to a GitHub, which runs until the test ends."""

    def make(root: Path) -> GitHub:
        bare = tmp_path / "ours.git"
        sh("git", "init", "-q", "--bare", "-b", "main", str(bare), cwd=tmp_path)
        sh("git", "config", "http.receivepack", "true", cwd=bare)
        (root / ".gitignore").write_text("out/\ndist/\n")
        sh("git", "init", "-q", "-b", "main", "--template=", cwd=root)
        commit(root, "Begin")
        sh("git", "push", "-q", str(bare), "main", cwd=root)
        return stack.enter_context(serving(GitHub(bare)))

    with contextlib.ExitStack() as stack:
        yield make


@contextlib.contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    """Let a server answer until the block ends."""
    threading.Thread(target=github.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield github
    finally:
        github.shutdown()
        github.server_close()


def commit(root: Path, subject: str) -> None:
    """Commit all there is."""
    sh("git", "add", "-A", cwd=root)
    sh("git", "-c", "user.name=Us", "-c", "user.email=us@x", "commit", "-q", "-m", subject, cwd=root)
