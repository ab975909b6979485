"""Whether a machine is ready for a recipe: the questions that need no look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kz_build.core.check import Check, failed, passed, warned
from kz_build.export.recipe import Amount

GB = 10**9


@dataclass(frozen=True)
class Preflight:
    """All answers for one recipe."""

    recipe: str
    checks: tuple[Check, ...]

    def as_json(self) -> dict[str, object]:
        """Return plain data: each answer with its `fix`, and without a file, for all are about this machine."""
        keys = ("name", "status", "evidence", "fix")
        return {"recipe": self.recipe, "checks": [check.as_json(keys) for check in self.checks]}


def memory(need: Amount, ram: int, swap: int, disk: str, free: int) -> Check:
    """RAM and swap, in bytes, against what a recipe needs; the fix is a swap file on a disk, for a person to make."""
    have = (ram + swap) / GB
    most = need.high if need.high is not None else need.low
    said = f"{have:.1f} GB ({ram / GB:.1f} RAM + {swap / GB:.1f} swap)"
    if have >= most and need.high is not None:
        return passed(f"{said}, at most {most:g} needed")
    if have >= most:
        return passed(f"{said}, at least {need.low:g} needed; nobody measured the most")
    # Rounded up: it costs only disk.
    file, size = f"{disk.rstrip('/')}/kz-swap", int(most - have) + 1
    fix: tuple[str, ...] = (
        f"sudo fallocate -l {size}G {file} && sudo chmod 600 {file} && sudo mkswap {file} && sudo swapon {file}",
        f"# afterwards: sudo swapoff {file} && sudo rm {file}",
    )
    if size * GB > free:
        fix = (f"# {disk} has only {free / GB:.0f} GB free: put the file on another disk", *fix)
    if have >= need.low:
        return warned(f"{said}, {need.low:g} to {most:g} needed", fix=fix)
    return failed(f"{said}, at least {need.low:g} needed", fix=fix)


def disk(folder: str, need: Amount, free: int, mount: str, kind: str, variable: str) -> Check:
    """Free bytes on a folder's file system; one in memory (tmpfs) takes from RAM what it stores."""
    said = f"{free / GB:.1f} GB free on {mount} ({kind})"
    name = f"disk {folder}"
    if kind in ("tmpfs", "ramfs"):
        fix = (f"{variable}: choose a folder on a disk",)
        return failed(f"{said}: what is written there takes RAM, and it shall hold {need.low:g} GB", name=name, fix=fix)
    if free >= need.low * GB:
        return passed(f"{said}, at least {need.low:g} needed", name=name)
    fix = (f"df -h; {variable}: choose another disk",)
    return failed(f"{said}, at least {need.low:g} needed", name=name, fix=fix)


def glibc(need: str, have: str) -> Check:
    """Version of the C library, as `2.35`; '' where the system has another one."""
    from packaging.version import Version

    if have and Version(have) >= Version(need):
        return passed(f"{have}, at least {need} needed", name="glibc")
    said = f"{have}, at least {need} needed" if have else f"no glibc here, {need} or newer needed"
    return failed(said, name="glibc", fix=("work on a Debian 12 or Ubuntu 22.04, or newer",))


def library(name: str, brings: str, why: str) -> Check:
    """A library that the linker must find; `why` it does not, '' where it does."""
    name = f"library {name}"
    return failed(why, name=name, fix=(brings,)) if why else passed("the linker finds it", name=name)


def python(need: str, have: Mapping[str, str]) -> Check:
    """Is one of the Pythons found (version -> program) inside a range as `>=3.10,<3.13`?"""
    fitting = [f"{program} ({version})" for version, program in have.items() if inside(version, need)]
    if fitting:
        return passed(f"{fitting[0]}, {need} needed")
    found = ", ".join(have) or "none"
    return failed(f"{found} found, {need} needed", fix=("uv python install 3.12   # or your system's python3.12",))


def inside(version: str, need: str) -> bool:
    """Is a version of Python in a range as `>=3.10,<3.13`? In any, where that is ''."""
    from packaging.specifiers import SpecifierSet  # 50 ms, which only an export waits for

    # Python itself says `3.13.0+` where it was built of a commit after 3.13.0.
    return SpecifierSet(need).contains(version.removesuffix("+"), prereleases=True)
