"""This machine: memory, disks, the C library, Pythons, and a git that is too old."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import Missing, MissingError
from kz_build.core.process import find, run

MOUNTS = Path("/proc/self/mounts")


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
    """Return RAM and swap of this machine; RAM within the limit of its control group."""
    text = Path("/proc/meminfo").read_text()
    values = {key: int(value) * 1024 for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return Memory(min(values.get("MemTotal", 0), _group_limit()), values.get("SwapTotal", 0))


def _group_limit() -> int:
    limits = [1 << 62]
    for folder in memory_groups():
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                limits.append(int((folder / name).read_text()))
            except (OSError, ValueError):  # "max", or no such file in this version of control groups
                continue
    return min(limits)


def memory_groups() -> tuple[Path, ...]:
    """Return the folders of the control groups that limit this process's memory, its own first; of version 1 or 2."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return ()
    for controllers, root in (("memory", "/sys/fs/cgroup/memory"), ("", "/sys/fs/cgroup")):
        own = next((path for _, names, path in lines if controllers in names.split(",")), None)
        if own is not None and Path(root).is_dir():
            folder = Path(root, own.lstrip("/"))
            # In a container the path is the host's, and the mount is the group itself.
            folder = folder if folder.is_dir() else Path(root)
            return tuple(p for p in (folder, *folder.parents) if p.is_relative_to(root))
    return ()


def disk(folder: Path) -> Disk:
    """Return the file system of a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    folder = folder.resolve()
    best = (Path("/"), "unknown")
    for mount, kind in mounts():
        # The last mount at a path hides those before.
        if folder.is_relative_to(mount) and mount.is_relative_to(best[0]):
            best = (mount, kind)
    return Disk(shutil.disk_usage(folder).free, str(best[0]), best[1])


def mounts() -> Iterator[tuple[Path, str]]:
    """Yield (folder, kind of file system) of every mount, in their order."""
    for line in MOUNTS.read_bytes().splitlines():
        place, kind = line.split(b" ")[1:3]
        place = re.sub(rb"\\([0-7]{3})", lambda m: bytes((int(m[1], 8),)), place)
        yield Path(os.fsdecode(place)), kind.decode("ascii", "replace")


def glibc() -> str:
    """Return the version of glibc, '' if this system has another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError, AttributeError):
        return ""
    return version if name == "glibc" else ""


def dlopen_error(library: str) -> str:
    """Return why the linker does not open a library, '' if it does."""
    import ctypes

    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return ""


def pythons() -> Iterator[tuple[str, str]]:
    """Yield (version, program) of the Python that runs kz and of those on PATH. Each of those is asked when its turn comes."""
    yield platform.python_version(), sys.executable
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 16))):
        if program := find(name):
            version = re.search(rb"Python (\S+)", run([program, "--version"]).stdout)
            if version:
                yield version[1].decode(), program


def not_installed(package: str, why: str, requirement: str = "") -> MissingError:
    """Return the error for a package that this Python lacks, with the command that installs it; `requirement` limits its versions."""
    remedy = f"{sys.executable} -m pip install {shlex.quote(requirement or package)}"
    return MissingError((Missing(package, why, remedy),))


OLDEST_GIT = (2, 35)
"""`zdiff3` needs it. 2.31 is the first that keeps the user's hooks out, and knows `--diff-merges=first-parent`."""
_UNKNOWN_TO_GIT = re.compile(r"unknown (option|style|value for|switch)|^usage: git ", re.MULTILINE)
"""How a git says that it does not know what it was asked."""


def old_git() -> Missing | None:
    """Return what is missing if git is older than kz needs."""
    text = run(["git", "--version"]).stdout.decode("utf-8", "replace").strip()
    match = re.search(r"(\d+)\.(\d+)", text)
    if not match or (int(match[1]), int(match[2])) >= OLDEST_GIT:
        return None
    why = f"this one is {match.string.removeprefix('git version ')}"
    return Missing(
        f"git {OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer", why, "install a newer git, and put it first on PATH"
    )


def refuse_old_git(errors: str) -> None:
    """Raise MissingError if git did not know what it was asked, because it is too old."""
    if _UNKNOWN_TO_GIT.search(errors) and (missing := old_git()):
        raise MissingError((missing,))
