"""Commands that build, fetch or change something: shown, logged, journaled, and stopped in time."""

from __future__ import annotations

import copy
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from kz_build.core.env import plain
from kz_build.core.errors import CommandError, StoppedError
from kz_build.core.escape import without_secrets
from kz_build.core.process import Argv, joined, streamed
from kz_build.core.process_group import note

Program = Callable[["Argv", Path, Mapping[str, str], Callable[[bytes], None]], int]
"""Runs a command line in a folder with an environment, passes on each line it prints, and returns its exit code."""


LONGEST_SHOWN = 2000
"""Characters of a line of output that an error shows: a compiler's command line may have a hundred thousand."""


def new_log_folder(logs: Path) -> Path:
    """A folder of this process for the logs of its commands; not made yet."""
    return logs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


class Commands:
    """A run's commands: each is shown once, streamed to a log file, and journaled.

    `folder` is this run's `out/log/<time>-<pid>/`, created at the first command. `show` gets each command as one line.
    A command that takes longer than `limit` seconds (0: any time) is stopped.
    """

    def __init__(self, folder: Path, show: Callable[[str], None] = lambda text: None, limit: float = 0) -> None:
        self.folder = folder
        self.show = show
        self.limit = limit
        self._noted: Path | None = None

    def noted_in(self, file: Path) -> Commands:
        """Return commands like these that note in `file` which one is running, for process_group.end_noted."""
        noted = copy.copy(self)
        noted._noted = file
        return noted

    def run(
        self,
        title: str,
        argv: Argv,
        *,
        cwd: Path,
        env: Mapping[str, str],
        prefix: Argv = (),
        watch: Callable[[str], None] | None = None,
        program: Program | None = None,
        started: Callable[[int], None] | None = None,
    ) -> Path:
        """Run a command to its end, as a process or by `program`; pass each line of output to the log and to `watch`.

        Returns the log's path. `prefix`, words before the command line, is only in the journal. `started` gets the process id, which is also its session's. Raises CommandError with the
        log's path and its last lines, and StoppedError at the time limit. An interrupt ends the whole process group
        first.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{len(list(self.folder.glob('*.log'))) + 1:02d}-{title}.log"
        self.show(_shown(argv))
        last: deque[str] = deque(maxlen=25)
        since = time.monotonic()
        code = -1

        def begun(pid: int) -> None:
            if self._noted:
                note(self._noted, pid)
            if started:
                started(pid)

        try:
            with log.open("wb") as file:

                def line(raw: bytes) -> None:
                    raw = _without_secrets(raw)
                    file.write(raw)
                    text = raw.decode("utf-8", "replace").rstrip()
                    last.append(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")
                    if watch:
                        watch(text)

                file.write(_without_secrets(f"$ {joined(argv)}\n".encode()))
                file.flush()
                code = (program or partial(streamed, limit=self.limit, started=begun))((*prefix, *argv), cwd, env, line)
        except StoppedError as stopped:
            raise StoppedError(
                f"{stopped} ({title})\n{_indented(last)}", hint=f"the whole log: {log}", log=str(log)
            ) from None
        finally:
            if self._noted:
                self._noted.unlink(missing_ok=True)
            self._journal((*prefix, *argv), cwd, env, code, time.monotonic() - since)
        if code != 0:
            raise CommandError(
                f"`{joined(argv[:4])} …` ended with {code} ({title})\n{_indented(last)}",
                hint=f"the whole log: {log}",
                code=code,
                log=str(log),
            )
        return log

    def _journal(self, argv: Argv, cwd: Path, env: Mapping[str, str], code: int, seconds: float) -> None:
        base = plain()
        delta = {key: value for key, value in env.items() if base.get(key) != value}
        entry = {"argv": list(argv), "cwd": str(cwd), "environment": delta, "exit": code, "seconds": round(seconds, 3)}
        with (self.folder / "commands.jsonl").open("a") as file:
            file.write(without_secrets(json.dumps(entry)) + "\n")


def _without_secrets(raw: bytes) -> bytes:
    """Return a line of output without passwords in addresses; other bytes stay as they are."""
    if b"://" not in raw and b"=" not in raw:
        return raw
    return without_secrets(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _indented(last: Iterable[str]) -> str:
    return "\n".join(f"  | {text}" for text in last)


def _shown(argv: Argv) -> str:
    """Return a command as one line of a terminal; the log and the journal have all of it."""
    own = argv[argv.index("--") + 1 :] if Path(argv[0]).name == "unshare" else argv
    text = "$ " + joined([Path(own[0]).name, *own[1:]])
    return text if len(text) < 80 else text[:78] + "…"
