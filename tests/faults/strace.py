"""System calls as strace records them, and the injection of an error or a SIGKILL into one of them."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ERRORS = {
    "openat": ("EIO", "EACCES", "EMFILE", "ESTALE", "EINTR"),
    "write": ("EIO", "ENOSPC", "EINTR"),
    "sendfile": ("EIO", "ENOSPC"),
    "rename": ("EIO", "EACCES", "EXDEV"),
    "renameat2": ("EIO", "EXDEV", "EACCES"),
    "fsync": ("EIO", "ENOSPC"),
    "mkdir": ("EACCES", "ENOSPC", "EIO"),
    "rmdir": ("EIO", "EACCES"),
    "unlink": ("EIO", "EACCES"),
    "unlinkat": ("EIO", "EACCES"),
    "symlink": ("EIO", "ENOSPC"),
    "link": ("EPERM", "EIO", "EMLINK"),
    "chmod": ("EPERM", "EIO"),
    "flock": ("EIO", "ENOLCK", "EINTR"),
    "connect": ("ECONNREFUSED", "ETIMEDOUT", "EINTR"),
    "wait4": ("EINTR", "ECHILD"),
    "waitid": ("EINTR", "ECHILD"),
    "vfork": ("EAGAIN", "ENOMEM"),
    "clone3": ("EAGAIN",),
    "getdents64": ("EIO", "ESTALE"),
    "read": ("EIO", "ESTALE", "EINTR"),
}
"""The system calls that are disturbed, and how each may fail on a real machine."""
PIPES = ("EPIPE", "EINTR")
"""How a write to another process may fail, if that one has died."""
NOT_IN_GIT = ("read", "getdents64", "wait4", "waitid", "vfork", "clone3", "openat")
"""Git's own reading is not what kz is tested for."""
KILL = "SIGKILL"
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)")
_FD = re.compile(r"^(?:AT_FDCWD|\d+)<([^>]*)>(?:, \"((?:[^\"\\]|\\.)*)\")?")
_PLAIN = re.compile(r'^"((?:[^"\\]|\\.)*)"')
_RANDOM = (
    (re.compile(r"(kz-scratch-|/\.proof-|tmp/tmp)[a-z0-9_]{8}(?=$|/)"), r"\1*"),
    (re.compile(r"tmp_(\w+)_\w{6}"), r"tmp_\1_*"),
    (re.compile(r"[0-9a-f]{8,}"), "*"),
    (re.compile(r"\d+"), "#"),
)


class Call(NamedTuple):
    """One system call: the `number`-th of its name, counted from 1, on a path of this kind."""

    name: str
    number: int
    kind: str


def argv(log: Path, names: tuple[str, ...], inject: str = "") -> list[str]:
    """Return strace's command line up to the process or program."""
    words = ["strace", "-qq", "-y", "-s", "4096", "-o", str(log), "-e", f"trace={','.join(names)}", "-e", "signal=none"]
    return [*words, "-e", f"inject={inject}"] if inject else words


def attached(pid: int, words: list[str]) -> subprocess.Popen[bytes]:
    """Start strace on a process that waits, and return when it traces."""
    tracer = subprocess.Popen([*words, "-p", str(pid)], stdin=subprocess.DEVNULL)
    for _ in range(5000):
        if "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.01)  # from being seized to its first stop
            return tracer
        if tracer.poll() is not None:
            break
        time.sleep(0.002)
    raise RuntimeError("strace cannot attach: is ptrace forbidden here?")


def calls(log: Path, root: Path) -> list[Call]:
    """Return the calls of a log that concern files below `root`, pipes, sockets or processes, in order."""
    numbers: Counter[tuple[str, str]] = Counter()
    result = []
    for row in log.read_text(errors="replace").splitlines():
        if not (match := _CALL.match(row)):
            continue
        name, rest = match.groups()
        process = row.partition(" ")[0] if row[:1].isdigit() else ""
        numbers[process, name] += 1
        if kind := _kind(name, rest, root):
            result.append(Call(name, numbers[process, name], kind))
    return result


def normal(path: str) -> str:
    """Return a path with whatever differs from run to run replaced."""
    for pattern, by in _RANDOM:
        path = pattern.sub(by, path)
    return path


def _kind(name: str, rest: str, root: Path) -> str:
    """Return what a call is about, '' if it is not ours to disturb."""
    if name in ("wait4", "waitid", "vfork", "clone3"):
        return "" if "CLONE_THREAD" in rest else "process"
    if name == "connect":
        return "socket"
    if match := _FD.match(rest):
        path = os.path.join(match[1], match[2] or "")
    elif match := _PLAIN.match(rest):
        path = match[1]
    else:
        return ""
    if path.startswith(("pipe:", "socket:", "TCP:", "UNIX")):
        return path.partition(":")[0] if name == "write" else ""
    if path == str(root / "stdout"):
        return "stdout"
    below = f"{root}/state/"
    return normal(path.removeprefix(below).rstrip("/")) if path.startswith(below) else ""
