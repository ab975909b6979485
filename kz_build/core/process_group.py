"""Processes of a command as the kernel counts them: all of its session, what they hold, and their end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kz_build.core.host import memory_groups

_PROC = Path("/proc")
_KILOBYTES = re.compile(rb"^(VmRSS|VmSwap):\s+(\d+) kB", re.MULTILINE)


class Held(NamedTuple):
    """Bytes of RAM and of swap."""

    ram: int
    swap: int


def held(session: int) -> Held:
    """What the processes of a session hold now. Pages that several share are counted for each."""
    ram = swap = 0
    for pid in members(session):
        with contextlib.suppress(OSError):
            found = dict(_KILOBYTES.findall((_PROC / str(pid) / "status").read_bytes()))
            ram += int(found.get(b"VmRSS", 0)) * 1024
            swap += int(found.get(b"VmSwap", 0)) * 1024
    return Held(ram, swap)


def members(session: int) -> Iterator[int]:
    """Process ids of a session, also of groups of their own in it."""
    for entry in os.listdir(_PROC):
        if entry.isdigit() and _facts(int(entry))[0] == session:
            yield int(entry)


def started(pid: int) -> int:
    """When a process started, in the kernel's ticks since boot; 0 where there is none. Tells a process id from its next use."""
    return _facts(pid)[1]


def _facts(pid: int) -> tuple[int, int]:
    """(session, start) of a process that lives; zombies do not."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0, 0
    fields = text.rpartition(b")")[2].split()  # the name before may hold anything
    return (int(fields[3]), int(fields[19])) if fields[0] not in (b"Z", b"X") else (0, 0)


def end(session: int, patience: float = 5.0) -> bool:
    """End every process of a session, asked first and then killed; whether there was one."""
    found = False
    for sign in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        pids = list(members(session))
        found = found or bool(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        while pids and time.monotonic() < deadline and any(members(session)):
            time.sleep(0.02)
    return found


def kills() -> int:
    """How many processes the kernel has killed for the memory limit of this process's control group; 0 where it tells not."""
    for folder in memory_groups()[:1]:
        for name in ("memory.events", "memory.oom_control"):  # version 2, version 1
            with contextlib.suppress(OSError):
                found = re.search(r"^oom_kill (\d+)", (folder / name).read_text(), re.MULTILINE)
                return int(found[1]) if found else 0
    return 0
