"""What this machine has: memory, disks, the C library, Pythons."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from kz_build.adapters.process import find, run


class Memory(NamedTuple):
    """Bytes."""

    ram: int
    swap: int


class Disk(NamedTuple):
    """A folder's file system."""

    free: int
    mount: str
    kind: str


def memory() -> Memory:
    """RAM and swap of this machine, or what a container's control group leaves of the RAM."""
    text = Path("/proc/meminfo").read_text()
    found = {key: int(value) * 1024 for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return Memory(min(found.get("MemTotal", 0), _group_limit()), found.get("SwapTotal", 0))


def _group_limit() -> int:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(path).read_text())
        except (OSError, ValueError):  # "max", or no such control group
            continue
    return 1 << 62


def disk(folder: Path) -> Disk:
    """The file system that a folder lies on, or will lie on once it is made."""
    while not folder.exists():
        folder = folder.parent
    folder = folder.resolve()
    best = ("/", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        mount, kind = line.split(" ")[1:3]
        mount = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), mount)
        # The last mount on a place hides those before.
        if len(mount) >= len(best[0]) and (folder == Path(mount) or Path(mount) in folder.parents):
            best = (mount, kind)
    return Disk(shutil.disk_usage(folder).free, *best)


def glibc() -> str:
    """Version of glibc, '' where this system has another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError, AttributeError):
        return ""
    return version if name == "glibc" else ""


def opens(library: str) -> str:
    """Why the linker does not open a library, '' where it does."""
    import ctypes

    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def pythons() -> dict[str, str]:
    """Version -> program of the Pythons on PATH, and of the one that runs this."""
    found = {platform.python_version(): sys.executable}
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 16))):
        if program := find(name):
            said = re.search(rb"Python (\S+)", run([program, "--version"]).stdout)
            if said:
                found.setdefault(said[1].decode(), program)
    return found
