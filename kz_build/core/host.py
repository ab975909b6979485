"""What this machine has: memory, disks, the C library, Pythons."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from kz_build.core.process import find, run


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
    found = [1 << 62]
    for folder in memory_groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                found.append(int((folder / name).read_text()))
            except (OSError, ValueError):  # "max", or no such file in this version of control groups
                continue
    return min(found)


def memory_groups() -> tuple[Path, ...]:
    """Folders of the control groups that limit this process's memory, its own first; version 2 or 1, whichever is there."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return ()
    for controllers, root in (("memory", "/sys/fs/cgroup/memory"), ("", "/sys/fs/cgroup")):
        own = next((path for _, names, path in lines if controllers in names.split(",")), None)
        if own is not None and Path(root).is_dir():
            place = Path(root, own.lstrip("/"))
            # In a container the path is the outer system's, and what is mounted is the group itself.
            place = place if place.is_dir() else Path(root)
            return tuple(p for p in (place, *place.parents) if p.is_relative_to(root))
    return ()


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
