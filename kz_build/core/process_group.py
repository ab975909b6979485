"""Processes of a command as the kernel counts them: all of its session, their memory, and their end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from kz_build.core import files, plain_json
from kz_build.core.host import Memory, memory_groups
from kz_build.core.process import STOP_SECONDS

RUNNING = "running.json"
"""The name of a file that says which session is running there: see `note`."""

_PROC = Path("/proc")
_KILOBYTES = re.compile(rb"^(VmRSS|VmSwap):\s+(\d+) kB", re.MULTILINE)


def memory_use(session: int) -> Memory:
    """Return the memory that the processes of a session use. Shared pages are counted for each."""
    ram = swap = 0
    for pid in members(session):
        with contextlib.suppress(OSError):
            fields = dict(_KILOBYTES.findall((_PROC / str(pid) / "status").read_bytes()))
            ram += int(fields.get(b"VmRSS", 0)) * 1024
            swap += int(fields.get(b"VmSwap", 0)) * 1024
    return Memory(ram, swap)


def members(session: int) -> Iterator[int]:
    """Yield the process ids of a session, also of process groups within it."""
    for entry in os.listdir(_PROC):
        if entry.isdigit() and _facts(int(entry))[0] == session:
            yield int(entry)


def start_time(pid: int) -> int:
    """Return when a process started, in the kernel's ticks since boot; 0 if there is none. Tells a reused process id apart."""
    return _facts(pid)[1]


def _facts(pid: int) -> tuple[int, int]:
    """Return (session, start) of a live process; zombies do not count."""
    fields = _stat(pid)
    return (int(fields[3]), int(fields[19])) if fields and fields[0] not in (b"Z", b"X") else (0, 0)


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on, the third; none if the process has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return []
    return text.rpartition(b")")[2].split()  # the name before may contain anything


def end(session: int) -> bool:
    """End every process of a session, by SIGTERM, then SIGKILL; return whether there was one."""
    any_members = False
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + STOP_SECONDS
        pids = list(members(session))
        any_members = any_members or bool(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal_number)
        while pids and time.monotonic() < deadline and _alive(session):
            time.sleep(0.02)
    return any_members


def _alive(session: int) -> bool:
    """Return whether a session has a process. A list misses those that were started while it was read, so a second one is read."""
    return any(members(session)) or any(members(session))


def note(file: Path, session: int) -> None:
    """Write into `file` which session is running. If this run is killed, the next one ends that session by `end_noted`."""
    entry = {"session": session, "started": start_time(session), "where": _where()}
    files.write_atomic(file, json.dumps(entry).encode())


def end_noted(file: Path) -> bool:
    """End the session that a killed run noted in `file`, and return whether there was one.

    The caller holds the lock of that run's work. A session of another boot or container is left alone: its number means something else here.
    """
    try:
        noted = plain_json.read(file, 1 << 16)
        leader, began, where = int(noted["session"]), int(noted["started"]), noted["where"]
    except (OSError, ValueError, OverflowError, KeyError, TypeError):
        return False
    # By now the number may belong to another session, whose leader started at another time.
    ours = where == _where() and leader > 1 and leader != os.getsid(0) and start_time(leader) in (0, began)
    ended = ours and end(leader)
    file.unlink(missing_ok=True)
    return ended


def _where() -> str:
    """Return what process ids count in: the boot of this machine, and the process namespace (a container has its own)."""
    return f"{(_PROC / 'sys/kernel/random/boot_id').read_text().strip()} {os.readlink(_PROC / 'self/ns/pid')}"


def end_children() -> None:
    """End the sessions that this process has started and not ended.

    For Ctrl-C: between the start of a process and the block that ends it, nobody else would.
    """
    for entry in os.listdir(_PROC):
        fields = _stat(int(entry)) if entry.isdigit() else []
        if fields and int(fields[1]) == os.getpid() and int(fields[3]) == int(entry):
            end(int(entry))


def oom_kill_count() -> int:
    """Return how many processes the kernel killed at the memory limit of this control group; 0 if unknown."""
    for folder in memory_groups()[:1]:
        for name in ("memory.events", "memory.oom_control"):  # version 2, version 1
            with contextlib.suppress(OSError):
                match = re.search(r"^oom_kill (\d+)", (folder / name).read_text(), re.MULTILINE)
                return int(match[1]) if match else 0
    return 0
