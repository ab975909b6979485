"""Whether a machine is ready for a recipe: the questions that need no look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kz_build.export.recipe import Amount

GB = 10**9


@dataclass(frozen=True)
class Check:
    """One answer: PASS, WARN (it may fail), FAIL, or SKIP with its reason. `fix` are commands to paste."""

    name: str
    status: str
    evidence: str
    fix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preflight:
    """All answers for one recipe."""

    recipe: str
    checks: tuple[Check, ...]


def memory(need: Amount, ram: int, swap: int, disk: str, free: int) -> Check:
    """RAM and swap, in bytes, against what a recipe needs; the fix is a swap file on a disk, for a person to make."""
    have = (ram + swap) / GB
    most = need.high if need.high is not None else need.low
    said = f"{have:.1f} GB ({ram / GB:.1f} RAM + {swap / GB:.1f} swap)"
    if have >= most and need.high is not None:
        return Check("memory", "PASS", f"{said}, at most {most:g} needed")
    if have >= most:
        return Check("memory", "PASS", f"{said}, at least {need.low:g} needed; nobody measured the most")
    # Rounded up: it costs only disk.
    file, size = f"{disk.rstrip('/')}/kz-swap", int(most - have) + 1
    fix: tuple[str, ...] = (
        f"sudo fallocate -l {size}G {file} && sudo chmod 600 {file} && sudo mkswap {file} && sudo swapon {file}",
        f"# afterwards: sudo swapoff {file} && sudo rm {file}",
    )
    if size * GB > free:
        fix = (f"# {disk} has only {free / GB:.0f} GB free: put the file on another disk", *fix)
    if have >= need.low:
        return Check("memory", "WARN", f"{said}, {need.low:g} to {most:g} needed", fix)
    return Check("memory", "FAIL", f"{said}, at least {need.low:g} needed", fix)


def disk(folder: str, need: Amount, free: int, mount: str, kind: str, variable: str) -> Check:
    """Free bytes on a folder's file system; one in memory (tmpfs) takes from RAM what it stores."""
    said = f"{free / GB:.1f} GB free on {mount} ({kind})"
    name = f"disk {folder}"
    if kind in ("tmpfs", "ramfs"):
        fix = (f"{variable}: choose a folder on a disk",)
        return Check(name, "FAIL", f"{said}: what is written there takes RAM, and it shall hold {need.low:g} GB", fix)
    if free >= need.low * GB:
        return Check(name, "PASS", f"{said}, at least {need.low:g} needed")
    return Check(name, "FAIL", f"{said}, at least {need.low:g} needed", (f"df -h; {variable}: choose another disk",))


def glibc(need: str, have: str) -> Check:
    """Version of the C library, as `2.35`; '' where the system has another one."""
    if not have:
        return Check(
            "glibc",
            "FAIL",
            f"no glibc here, {need} or newer needed",
            ("work on a Debian 12 or Ubuntu 22.04, or newer",),
        )
    from packaging.version import Version

    if Version(have) >= Version(need):
        return Check("glibc", "PASS", f"{have}, at least {need} needed")
    return Check("glibc", "FAIL", f"{have}, at least {need} needed", ("work on a Debian 12 or Ubuntu 22.04, or newer",))


def library(name: str, brings: str, why: str) -> Check:
    """A library that the linker must find; `why` it does not, '' where it does."""
    if not why:
        return Check(f"library {name}", "PASS", "the linker finds it")
    return Check(f"library {name}", "FAIL", why, (brings,))


def python(need: str, have: Mapping[str, str]) -> Check:
    """Is one of the Pythons found (version -> program) inside a range as `>=3.10,<3.13`?"""
    fitting = [f"{program} ({version})" for version, program in have.items() if inside(version, need)]
    if fitting:
        return Check("python", "PASS", f"{fitting[0]}, {need} needed")
    found = ", ".join(have) or "none"
    return Check(
        "python", "FAIL", f"{found} found, {need} needed", ("uv python install 3.12   # or your system's python3.12",)
    )


def inside(version: str, need: str) -> bool:
    """Is a version of Python in a range as `>=3.10,<3.13`? In any, where that is ''."""
    from packaging.specifiers import SpecifierSet  # 50 ms, which only an export waits for

    # Python itself says `3.13.0+` where it was built of a commit after 3.13.0.
    return SpecifierSet(need).contains(version.removesuffix("+"), prereleases=True)
