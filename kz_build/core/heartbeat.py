"""A sign of life on a terminal: after a silent second, the verb, its time, and the program it waits for."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from kz_build.core.escape import escaped

SILENT_SECONDS = 1.2
"""How long kz prints nothing before the line appears; then it changes every second."""
_ERASED = "\r\x1b[K"


class Heartbeat:
    """Shows a line on a terminal while nothing else is written to it. `written` must be called before each write."""

    def __init__(self, stream: TextIO, verb: str) -> None:
        self._stream, self._verb = stream, verb
        self._started = self._last = time.monotonic()
        self._shown = self._paused = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.written()

    def written(self) -> None:
        """Erase the line, and wait for the next silence."""
        with self._lock:
            self._last = time.monotonic()
            if self._shown:
                self._shown = False
                self._write(_ERASED)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show nothing while the block waits for a person."""
        self.written()
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self.written()

    def _beat(self) -> None:
        while not self._ended.wait(1.0 if self._shown else 0.1):
            with self._lock:
                now = time.monotonic()
                if not self._paused and (self._shown or now - self._last > SILENT_SECONDS):
                    program = _child()
                    waits = f", {program} is running" if program else ""
                    self._write(f"{_ERASED}  kz {self._verb}: {now - self._started:.0f} s{waits}")
                    self._shown = True

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone
            self._stream.write(text)
            self._stream.flush()


def _child() -> str:
    """Return the program that this process started last and that still runs, with git's subcommand; '' for none."""
    try:
        pids = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
        words = Path("/proc", max(pids, key=int), "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except (OSError, ValueError):
        return ""
    name = os.path.basename(words[0])
    subcommands = (word for word in words[1:] if re.fullmatch("[a-z][a-z-]*", word))
    return f"git {next(subcommands, '')}".strip() if name == "git" else escaped(name)
