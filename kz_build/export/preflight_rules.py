"""Rules of the preflight, on numbers of the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from kz_build.core.check import Check, failed, passed, warned
from kz_build.core.errors import Missing
from kz_build.export.recipe import Amount

GB = 10**9


@dataclass(frozen=True)
class Preflight:
    """All checks for one recipe."""

    recipe: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the checks that keep the recipe from running here."""
        return tuple(check for check in self.checks if check.failed)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Return the failed checks as what is missing, each with its fixes."""
        return tuple(Missing(c.name, c.evidence, "\n".join(c.fix) or "another machine") for c in self.failed)

    def as_json(self) -> dict[str, object]:
        """Return plain data: each answer with its `fix`, without a file, because all are about this machine."""
        keys = ("name", "status", "evidence", "fix")
        return {"recipe": self.recipe, "checks": [check.as_json(keys) for check in self.checks]}


def memory(need: Amount, ram: int, swap: int, disk: str, free: int) -> Check:
    """Compare RAM and swap, in bytes, with a recipe's need; the fix is a swap file, for the user to make."""
    have = (ram + swap) / GB
    most = need.high if need.high is not None else need.low
    evidence = f"{have:.1f} GB ({ram / GB:.1f} RAM + {swap / GB:.1f} swap)"
    if have >= most and need.high is not None:
        return passed(f"{evidence}, at most {most:g} needed")
    if have >= most:
        return passed(f"{evidence}, at least {need.low:g} needed; nobody measured the most")
    # Rounded up: it costs only disk.
    file, size = quote(f"{disk.rstrip('/')}/kz-swap"), int(most - have) + 1
    fix: tuple[str, ...] = (
        f"sudo fallocate -l {size}G {file} && sudo chmod 600 {file} && sudo mkswap {file} && sudo swapon {file}",
        f"# afterwards: sudo swapoff {file} && sudo rm {file}",
    )
    if size * GB > free:
        fix = (f"# {disk} has only {free / GB:.0f} GB free: put the file on another disk", *fix)
    if have >= need.low:
        return warned(f"{evidence}, {need.low:g} to {most:g} needed", fix=fix)
    return failed(f"{evidence}, at least {need.low:g} needed", fix=fix)


def disk(folder: str, need: Amount, free: int, mount: str, kind: str, variable: str) -> Check:
    """Check free bytes on a folder's file system; a tmpfs takes RAM for what it stores."""
    evidence = f"{free / GB:.1f} GB free on {mount} ({kind})"
    name = f"disk {folder}"
    if kind in ("tmpfs", "ramfs"):
        fix = (f"{variable}: choose a folder on a disk",)
        return failed(f"{evidence}: files there take RAM, and it must hold {need.low:g} GB", name=name, fix=fix)
    if free >= need.low * GB:
        return passed(f"{evidence}, at least {need.low:g} needed", name=name)
    fix = (f"df -h; {variable}: choose another disk",)
    return failed(f"{evidence}, at least {need.low:g} needed", name=name, fix=fix)


def glibc(need: str, have: str) -> Check:
    """Check the version of the C library, as `2.35`; '' if it is not glibc."""
    from packaging.version import Version

    if have and Version(have) >= Version(need):
        return passed(f"{have}, at least {need} needed", name="glibc")
    evidence = f"{have}, at least {need} needed" if have else f"no glibc here, {need} or newer needed"
    return failed(evidence, name="glibc", fix=("work on a Debian 12 or Ubuntu 22.04, or newer",))


def library(name: str, remedy: str, why: str) -> Check:
    """Check a library that the linker must find; `why` is the linker's error, '' if it found it."""
    name = f"library {name}"
    return failed(why, name=name, fix=(remedy,)) if why else passed("the linker finds it", name=name)


def python(need: str, have: Iterable[tuple[str, str]]) -> Check:
    """Check for a Python (version, program) in a range such as `>=3.10,<3.13`."""
    versions = []
    for version, program in have:
        if in_range(version, need):
            return passed(f"{program} ({version}), {need} needed")
        versions.append(version)
    there = ", ".join(dict.fromkeys(versions)) or "none"
    return failed(f"{there} found, {need} needed", fix=("uv python install 3.12   # or your system's python3.12",))


def in_range(version: str, need: str) -> bool:
    """Whether a version of Python is in a range such as `>=3.10,<3.13`; '' is any."""
    from packaging.specifiers import SpecifierSet  # 50 ms, only for exports

    # Python calls itself `3.13.0+` if it was built from a commit after 3.13.0.
    return SpecifierSet(need).contains(version.removesuffix("+"), prereleases=True)
