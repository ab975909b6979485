"""What an export environment is made of: the packages a person asked for, and the locked set they came to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BLOCK = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s\\;]+)[^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)
_ASKED = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([^\s;#]+)", re.MULTILINE)
_NAMED = re.compile(r"^([A-Za-z0-9][\w.-]*)", re.MULTILINE)


@dataclass(frozen=True)
class Locked:
    """One package of a locked set; `text` is its whole entry, hashes included."""

    name: str
    version: str
    text: str


def canonical(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> tuple[Locked, ...]:
    """The entries of a requirements file that holds `name==version` with hashes."""
    return tuple(Locked(canonical(m[1]), m[2], m[0]) for m in _BLOCK.finditer(text + "\n"))


def asked(text: str) -> dict[str, str]:
    """Name -> version of what a .in file pins exactly."""
    return {canonical(m[1]): m[2] for m in _ASKED.finditer(text)}


def named(text: str) -> tuple[str, ...]:
    """Every package that a .in file names, pinned or not."""
    return tuple(canonical(m[1]) for m in _NAMED.finditer(text))


def public(version: str) -> str:
    """A version without its local label: `2.13.0` of `2.13.0+cpu`."""
    return version.partition("+")[0]


def doubts(
    wanted: Mapping[str, str], found: tuple[Locked, ...], pins: Mapping[str, str], patched: frozenset[str]
) -> list[str]:
    """What keeps a locked set from being what was asked: `pins` are a line's wheels, `patched` those that kz makes."""
    versions = {one.name: one.version for one in found}
    said = [f"{one.name} has no hash" for one in found if "--hash=sha256:" not in one.text]
    for name, version in wanted.items():
        if name in pins and pins[name] != public(version):
            said.append(f"{name} {version} is asked for, the line has {pins[name]} in pins.yaml")
        if name in patched and name in versions:
            said.append(f"{name} is in it, and kz installs its own patched wheel: --no-emit-package {name}")
        elif name not in patched and versions.get(name) != version:
            said.append(f"{name} {version} is asked for, {versions.get(name, 'none')} is locked")
    return said
