"""sccache on this machine: the server that hands a build's compilations to the workers of a farm."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kz_build.core.env import plain
from kz_build.core.errors import CommandError
from kz_build.core.process import run, streamed
from kz_build.core.process_group import end

START_SECONDS = 30.0
"""How long the server may take until it listens: it asks the scheduler first, for at most five seconds."""


@dataclass(frozen=True)
class Farm:
    """A scheduler of sccache-dist: its address, and the token of its clients."""

    scheduler: str
    token: str = field(repr=False)


class Shares(NamedTuple):
    """Who compiled how many objects: each worker by its address, and this machine. `failed` are those of this machine that
    a worker was asked for."""

    workers: Mapping[str, int]
    local: int
    failed: int


def client_config(farm: Farm | None, cache: Path) -> str:
    """Return sccache's configuration; without a farm it compiles on this machine.

    Sources go out with their macros (`rewrite_includes_only`): a compiler warns of other things where they are expanded.
    """
    if farm is None:
        return ""
    rows = {"scheduler_url": farm.scheduler, "cache_dir": str(cache), "rewrite_includes_only": True}
    lines = [f"{key} = {json.dumps(value)}" for key, value in rows.items()]
    return "\n".join(["[dist]", *lines, "[dist.auth]", 'type = "token"', f"token = {json.dumps(farm.token)}", ""])


def shares(stats: str) -> Shares:
    """Read what `sccache --show-stats --stats-format json` prints. Raises ValueError."""
    known = json.loads(stats)["stats"]
    workers = {str(worker): int(count) for worker, count in known["dist_compiles"].items()}
    return Shares(workers, max(0, int(known["compile_requests"]) - sum(workers.values())), int(known["dist_errors"]))


def total(parts: list[Shares]) -> Shares:
    """Add up the shares of servers that followed each other."""
    workers: Counter[str] = Counter()
    for part in parts:
        workers.update(part.workers)
    return Shares(dict(sorted(workers.items())), sum(p.local for p in parts), sum(p.failed for p in parts))


class CompileServer:
    """sccache's server. It runs outside the network namespace of a build's commands, which reach it by a socket in `folder`.

    `prefix` are words before its command line, that give it the paths of the build.
    """

    def __init__(self, program: str, folder: Path, log: Path, prefix: Sequence[str] = ()) -> None:
        self.socket = folder / "s"
        self._program, self._folder, self._log, self._prefix = program, folder, log, prefix
        self._thread: threading.Thread | None = None
        self.pid = 0

    def start(self, config: str) -> None:
        """Start it and wait until it listens. Raises CommandError if it does not."""
        path = self._folder / "config"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(config)
        env = {
            **plain(),
            "HOME": str(self._folder),
            "SCCACHE_CONF": str(path),
            "SCCACHE_SERVER_UDS": str(self.socket),
            "SCCACHE_START_SERVER": "1",
            "SCCACHE_NO_DAEMON": "1",
            "SCCACHE_IDLE_TIMEOUT": "3600",  # if kz is killed
            "SCCACHE_LOG": "warn",
            # Nothing that a worker made is kept for another build.
            "SCCACHE_DIR": str(self._folder / "cache"),
            "SCCACHE_LOCAL_RW_MODE": "READ_ONLY",
            "SCCACHE_DIRECT": "false",
        }
        self._thread = threading.Thread(target=self._serve, args=(env,), daemon=True)
        self._thread.start()
        try:
            self._wait()
        finally:
            path.unlink()  # the server has read it, and the build's commands need no token

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return bool(self._thread and self._thread.is_alive())

    def stop(self) -> None:
        """End it, with all compilers that it started."""
        if self.pid:
            end(self.pid)
        if self._thread:
            self._thread.join()
        self.pid, self._thread = 0, None

    def shares(self) -> Shares | None:
        """Return what this server did since it started; None if it does not say."""
        output = run(
            [self._program, "--show-stats", "--stats-format", "json"],
            env={**plain(), "SCCACHE_SERVER_UDS": str(self.socket), "HOME": str(self._folder)},
            timeout=10,
        )
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            return shares(output.stdout.decode("utf-8", "replace"))
        return None

    def _serve(self, env: Mapping[str, str]) -> None:
        def started(pid: int) -> None:
            self.pid = pid

        with (
            self._log.open("ab", buffering=0) as log,
            contextlib.suppress(CommandError),
        ):  # `_wait` says that it did not start
            streamed(
                [*self._prefix, self._program],
                self._folder,
                env,
                lambda raw: None if log.write(raw) else None,
                limit=0,
                started=started,
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self._thread and self._thread.is_alive() and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
                probe.connect(str(self.socket))
                return
            time.sleep(0.02)
        raise CommandError("sccache's server does not start", hint=f"its log: {self._log}", log=str(self._log))
