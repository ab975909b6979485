"""A farm on one machine for the tests: a scheduler of sccache-dist and workers, each in a network namespace of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.build.daemon import packages
from tests.deadline import until

SUBNET = f"10.77.{os.getpid() % 250}"
PORT = 10501


def clang() -> str:
    """Return Debian's clang 19, which the NDK's is too; installs it, or skips the test.

    Of an object with -g, clang 14 makes other bytes where it gets the source with its macros, as workers do.
    """
    if not shutil.which("clang-19"):
        packages("clang-19", programs=("clang-19",))
    return str(shutil.which("clang-19"))


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Worker:
    """A build server. Its commands run in bubblewrap, by a script that may do other things first."""

    number: int
    folder: Path
    program: Path
    token: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def namespace(self) -> str:
        return f"kz{os.getpid()}w{self.number}"

    @property
    def address(self) -> str:
        return f"{SUBNET}.{10 + self.number}:{PORT}"

    @property
    def jobs(self) -> int:
        """How many compilations it has begun."""
        log = self.folder / "jobs"
        return len(log.read_text().splitlines()) if log.exists() else 0

    @property
    def link(self) -> str:
        """The end of its cable that is on the bridge."""
        return f"kzv{os.getpid() % 100000}{self.number}"

    def connect(self) -> None:
        """Give it a network namespace on the bridge."""
        inside, outside = f"i{self.number}", self.link
        ip("netns", "add", self.namespace)
        ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", self.namespace)
        ip("link", "set", outside, "master", bridge(), "up")
        ip("-n", self.namespace, "addr", "add", f"{self.address.split(':')[0]}/24", "dev", inside)
        for link in ("lo", inside):
            ip("-n", self.namespace, "link", "set", link, "up")

    def cut(self) -> None:
        """Drop its packets, as a pulled cable does: nobody is told."""
        ip("-n", self.namespace, "link", "set", f"i{self.number}", "down")

    def start(self, instead: str = "") -> None:
        """Start it; `instead` is a line of shell before each command of a compiler."""
        sandbox = self.folder / "sandbox"
        # The first argument after `--` is the compiler; what stands before is bubblewrap's.
        sandbox.write_text(
            f'#!/bin/bash\n[ "$1" = --version ] && exec bwrap --version\necho >>{self.folder}/jobs\nsleep 0.3\n{instead}\nexec bwrap "$@"\n'
        )
        sandbox.chmod(0o755)
        config = self.folder / "server.toml"
        rows = {"cache_dir": str(self.folder / "toolchains"), "public_addr": self.address, "scheduler_url": scheduler()}
        builder = {"type": "overlay", "build_dir": str(self.folder / "build"), "bwrap_path": str(sandbox)}
        auth = {"type": "jwt_token", "token": self.token}
        config.write_text(toml(rows) + "[builder]\n" + toml(builder) + "[scheduler_auth]\n" + toml(auth))
        argv = ["ip", "netns", "exec", self.namespace, str(self.program), "server", "--config", str(config)]
        self.process = daemon(argv, self.folder / "log")

    def stop(self) -> None:
        """Kill it."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@dataclass
class Farm:
    """A scheduler, its workers, and the token of its clients."""

    token: str
    workers: list[Worker] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return scheduler()

    def ready(self, count: int) -> None:
        """Wait until so many workers have registered."""
        until(lambda: status().get("num_servers") == count, 30)


def bridge() -> str:
    return f"kzb{os.getpid()}"


def scheduler() -> str:
    return f"http://{SUBNET}.1:10600"


def status() -> dict[str, int]:
    """What the scheduler says of its workers; nothing if it does not answer."""
    import requests

    try:
        url = f"{scheduler()}/api/v1/scheduler/status"
        answer: dict[str, int] = requests.get(url, headers={"Accept": "application/json"}, timeout=5).json()
    except (OSError, ValueError):
        return {}
    return answer


def toml(rows: dict[str, str]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in rows.items())


def daemon(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
    with log.open("ab") as file:
        return subprocess.Popen(argv, stdout=file, stderr=file, env=env, start_new_session=True)


@contextlib.contextmanager
def farm(program: Path, folder: Path, workers: int) -> Iterator[Farm]:
    """Start a scheduler and workers, by the commands of the guide; kill all of them at the end."""

    def auth(*words: str) -> str:
        return subprocess.run([program, "auth", *words], check=True, capture_output=True, text=True).stdout.strip()

    made = Farm(secrets.token_hex(32))
    config = folder / "scheduler.toml"
    key = toml({"type": "jwt_hs256", "secret_key": auth("generate-jwt-hs256-key")})
    client = toml({"type": "token", "token": made.token})
    config.write_text(
        f'public_addr = "{SUBNET}.1:10600"\n[client_auth]\n{client}[server_auth]\n{key}',
    )
    try:
        ip("link", "add", bridge(), "type", "bridge")
        ip("addr", "add", f"{SUBNET}.1/24", "dev", bridge())
        ip("link", "set", bridge(), "up")
        made.process = daemon([str(program), "scheduler", "--config", str(config)], folder / "scheduler.log")
        for number in range(1, workers + 1):
            at = folder / f"worker{number}"
            at.mkdir()
            address = f"{SUBNET}.{10 + number}:{PORT}"
            token = auth("generate-jwt-hs256-server-token", "--config", str(config), "--server", address)
            worker = Worker(number, at, program, token)
            made.workers.append(worker)
            worker.connect()
            worker.start()
        made.ready(workers)
        yield made
    finally:
        for worker in made.workers:
            worker.stop()
            for words in (["link", "del", worker.link], ["netns", "del", worker.namespace]):
                subprocess.run(["ip", *words], capture_output=True)
        if made.process:
            made.process.kill()  # nothing happens if it has ended
            made.process.wait()
        subprocess.run(["ip", "link", "del", bridge()], capture_output=True)
