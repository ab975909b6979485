"""A password or a signature in an address: it reaches the server, and no message, lock, record, cache or log."""

from __future__ import annotations

import base64
import http.server
import io
import json
import os
import stat
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import env
from kz_build.core.command_log import Commands
from kz_build.core.escape import without_secrets
from tests.conftest import Kz, snapshot
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import FORM, Upstream, put, started, text

USER, PASSWORD, SIGNATURE = "reader", "pass%2Fword", "s1gnature"
WRONG = "wr0ng"
SECRETS = (PASSWORD, "pass/word", SIGNATURE, WRONG)
BASIC = "Basic " + base64.b64encode(f"{USER}:pass/word".encode()).decode()
GIT = "http-backend"


class Server(http.server.ThreadingHTTPServer):
    """A loopback server that asks for a password: git repositories, a package index, and files that need a signature."""

    upstream: Path
    files: dict[str, bytes]
    redirect = ""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *args: object) -> None: ...

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path.startswith("/signed/"):
            return self.answer(200 if SIGNATURE in query else 403, self.server.files.get(path, b""))
        if self.headers.get("Authorization") != BASIC:
            return self.answer(401, b"who are you?", {"WWW-Authenticate": 'Basic realm="kz"'})
        if self.server.redirect and not path.startswith("/gone"):
            return self.answer(302, b"", {"Location": self.server.redirect})
        if path.startswith("/git/"):
            return self.git(path.removeprefix("/git"), query)
        return self.answer(200 if path in self.server.files else 404, self.server.files.get(path, b""))

    do_POST = do_HEAD = do_GET

    def answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def git(self, path: str, query: str) -> None:
        """Answer as git's own server does: smart HTTP."""
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.upstream.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
        done = subprocess.run(["git", GIT], input=body, env=environment, capture_output=True, check=False)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(row.split(": ", 1) for row in head.decode().splitlines())
        self.answer(int(headers.pop("Status", "200").split()[0]), data, headers)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    made = started(tmp_path)
    made.git("config", "safe.directory", "*")
    return made


@pytest.fixture
def server(upstream: Upstream) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as web:
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tool.py", "x = 1\n")
        web.upstream = upstream.folder
        link = b'<a href="/signed/tool-1.0-py3-none-any.whl?X-Amz-Signature=' + SIGNATURE.encode() + b'">tool</a>'
        web.files = {
            "/simple/tool/": link,
            "/signed/tool-1.0-py3-none-any.whl": wheel.getvalue(),
            "/signed/sdk-1.zip": wheel.getvalue(),
        }
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield web
        web.shutdown()


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process was told before."""
    monkeypatch.setattr(env, "_servers", {})
    monkeypatch.setattr(env, "_queries", {})


class Carried:
    """A project whose sources need the password, and all that it leaves and says."""

    def __init__(self, folder: Path, kz: Kz, server: Server, upstream: Upstream) -> None:
        self.root, self.store, self.run, self.port = folder / "project", folder / "store", kz, server.server_port
        upstream.git("checkout", "-q", "--detach", "v1")
        upstream.commit("ours", {"a.txt": OURS})
        stack = self.root / "patches/l/up"
        upstream.git("format-patch", "-q", *FORM, "-o", str(stack), "v1..HEAD")
        (stack / "series").write_text("0001-ours.patch\n")
        upstream.git("checkout", "-q", "main")
        upstream.commit("Take it (#2)", {"a.txt": put(text(), 10, "theirs")}, tag="v2")
        self.pins()

    def pins(self, password: str = PASSWORD, repository: str = "up", archive: str = "sdk-{version}.zip") -> None:
        host = f"127.0.0.1:{self.port}"
        sources = {
            "up": {"git": f"http://{USER}:{password}@{host}/git/{repository}"},
            "tool": {"wheel": "tool", "tag": "py3-none-any", "index": f"http://{USER}:{password}@{host}/simple"},
            "sdk": {"archive": f"http://{host}/signed/{archive}?X-Amz-Expires=9&X-Amz-Signature={SIGNATURE}"},
        }
        target = {
            "platform": "linux",
            "abi": "arm64",
            "sources": list(sources),
            "tools": {"cmake": ["c"], "ninja": ["n"], "objcopy": ["o"]},
            "cmake": {},
            "outputs": {},
        }
        line = {"up": "v1", "tool": "1.0", "sdk": "1"}
        data = {"version": 1, "default": "l", "sources": sources, "lines": {"l": line}, "targets": {"t": target}}
        (self.root / "pins.yaml").write_text(json.dumps(data))

    def kz(self, *words: str, code: int = 0, **more: Any) -> str:
        """Run kz, which ends with this code; its outputs, in which there is no secret."""
        done = self.run("-C", self.root, *words, KZ_CACHE=str(self.store), NO_PROXY="*", **more)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        said = done.stdout + done.stderr
        assert not [secret for secret in SECRETS if secret in said], (words, said)
        return said

    def look(self) -> None:
        """No file but pins.yaml has a secret, and only their owner reads those of the store that have an address."""
        for folder in (self.root, self.store):
            for name, data in snapshot(folder).items():
                content = data if isinstance(data, bytes) else data.encode()
                assert name == "pins.yaml" or not [s for s in SECRETS if s.encode() in content], name
                if folder == self.store and f"127.0.0.1:{self.port}".encode() in content:
                    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name


@pytest.fixture
def carried(tmp_path: Path, kz: Kz, server: Server, upstream: Upstream) -> Carried:
    return Carried(tmp_path, kz, server, upstream)


def test_passwords_reach_the_server_and_nothing_else(carried: Carried) -> None:
    carried.kz("lock", "--write", "--trust", "sdk", "--trust", "tool")
    lock = json.loads((carried.root / "pins.lock").read_text())["lines"]["l"]
    assert lock["up"]["patched"]["tree"] and lock["tool"]["sha256"] and lock["sdk"]["sha256"]
    assert lock["up"]["url"] == f"http://127.0.0.1:{carried.port}/git/up"
    for words in (
        ("fetch",),
        ("lock", "--json"),
        ("apply",),
        ("status", "--fetch"),
        ("report", "--json"),
    ):
        carried.kz(*words)
    carried.kz("verify", "--onto", "main", "--fetch", code=4)
    carried.kz("history", "--why", "--json")
    carried.kz("rebase", "--onto", "v2", code=4)
    carried.kz("rebase", "abort")
    carried.look()


def test_errors_do_not_name_them(carried: Carried, server: Server) -> None:
    carried.kz("lock", "--write", "--trust", "sdk", "--trust", "tool")
    carried.pins(password=WRONG)
    carried.store.rename(carried.store.with_name("old"))
    for words in (("fetch",), ("fetch", "--json"), ("status", "--fetch"), ("verify",)):
        assert f"127.0.0.1:{carried.port}" in carried.kz(*words, code=6)
    carried.kz("lock")
    carried.pins(repository="gone", archive="gone-{version}.zip")
    carried.kz("lock", "--trust", "sdk", "--trust", "tool")
    carried.pins()
    server.redirect = f"http://{USER}:{WRONG}@127.0.0.1:{carried.port}/gone?token={SIGNATURE}"
    for verb in ("fetch", "verify"):
        carried.kz(verb, code=6)
    carried.look()


def test_an_index_of_the_environment(carried: Carried) -> None:
    data = json.loads((carried.root / "pins.yaml").read_text())
    del data["sources"]["tool"]["index"]
    (carried.root / "pins.yaml").write_text(json.dumps(data))
    index = f"http://{USER}:{PASSWORD}@127.0.0.1:{carried.port}/simple"
    carried.kz("lock", "--write", "--trust", "sdk", "--trust", "tool", PIP_INDEX_URL=index)
    carried.kz("fetch", PIP_INDEX_URL=index)
    carried.look()


def test_a_mirror_of_gits_own_configuration(carried: Carried) -> None:
    """Git itself knows the password; what it prints of it is shown without."""
    carried.pins()
    data = json.loads((carried.root / "pins.yaml").read_text())
    data["sources"]["up"]["git"] = "https://example.invalid/up"
    (carried.root / "pins.yaml").write_text(json.dumps(data))
    for password in (PASSWORD, WRONG):
        mirror: dict[str, Any] = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.http://{USER}:{password}@127.0.0.1:{carried.port}/git/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://example.invalid/",
        }
        carried.kz("lock", "--write", "--trust", "sdk", "--trust", "tool", **mirror)
    carried.look()


def test_logs_and_the_journal(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "log")
    address = f"https://{USER}:{PASSWORD}@h/simple?token={SIGNATURE}&x=1"
    argv = ("printf", "%s\\n", f"Looking in {address}", "\\377 stays")
    shown: list[str] = []
    log = commands.run(
        "pip", argv, cwd=tmp_path, env={"PIP_INDEX_URL": address, "PATH": os.environ["PATH"]}, watch=shown.append
    )
    written = log.read_bytes() + (tmp_path / "log/commands.jsonl").read_bytes() + "".join(shown).encode()
    assert not [s for s in SECRETS if s.encode() in written]
    assert b"Looking in https://***@h/simple?token=***&x=1\n" in log.read_bytes()


@pytest.mark.parametrize(
    "plain",
    ["git@github.com:o/r", "ssh://git@h/r", "https://h/a@b?x=1#c", "git+https://h/r@v1", "a ?: b", "x && y = 1"],
)
def test_other_addresses_stay(plain: str) -> None:
    assert without_secrets(plain) == env.public_address(plain) == env.with_password(plain) == plain


def test_a_signed_address_with_a_version_in_it() -> None:
    url = "https://u:p@h/sdk-{version}.zip?Expires=1&sig=a%2Bb"
    assert env.public_address(url) == "https://h/sdk-{version}.zip"
    assert env.with_password("https://h/sdk-2.zip") == "https://u:p@h/sdk-2.zip?Expires=1&sig=a%2Bb"
    assert env.with_password("https://h/other.zip") == "https://u:p@h/other.zip"
    assert env.public_address("ssh://git:p@h/r") == "ssh://git@h/r"


def test_a_credential_helper_of_git_finds_its_own_variables(
    tmp_path: Path, kz: Kz, server: Server, upstream: Upstream
) -> None:
    """As that of gh, which answers by GH_TOKEN. What git itself reads to find a repository stays away from it."""
    helper = '!f() { test -z "$GIT_WORK_TREE" && echo username=reader && echo "password=$GH_TOKEN"; }; f'
    (tmp_path / "gitconfig").write_text(f"[credential]\n\thelper = {json.dumps(helper)}\n")
    lines = {"version": 1, "sources": {"up": {"git": f"http://127.0.0.1:{server.server_port}/git/up"}}}
    (tmp_path / "pins.yaml").write_text(json.dumps({**lines, "default": "l", "lines": {"l": {"up": "v1"}}}))
    given = {"GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"), "GIT_WORK_TREE": "/", "NO_PROXY": "*"}
    given |= {"KZ_CACHE": str(tmp_path / "store"), "GH_TOKEN": "pass/word"}
    for words in (("lock", "--write"), ("status", "--fetch")):
        done = kz("-C", tmp_path, *words, **given)
        assert done.returncode == 0 and "Authentication" not in done.stdout, done.stdout + done.stderr
