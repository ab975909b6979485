"""What an export environment is made of: the packages a person asked for, and the locked set they came to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kz_build.core.errors import ConfigError

_ENTRY = re.compile(r"^[A-Za-z0-9][^\n]*\n(?:[ \t]+[^\n]*\n)*", re.MULTILINE)


@dataclass(frozen=True)
class Locked:
    """One package of a locked set; `text` is its whole entry, hashes included."""

    name: str
    version: str
    text: str


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def locked(text: str) -> tuple[Locked, ...]:
    """The entries of a requirements file that holds `name==version` with hashes. Raises ConfigError like all here."""
    return tuple(one for one in _entries(text) if one.version)


def asked(text: str) -> dict[str, str]:
    """Name -> version of what a .in file pins exactly."""
    return {one.name: one.version for one in _entries(text) if one.version}


def named(text: str) -> tuple[str, ...]:
    """Every package that a .in file names, pinned or not."""
    return tuple(one.name for one in _entries(text))


def _entries(text: str) -> Iterator[Locked]:
    """Every entry of a requirements file, its version '' where it is not pinned exactly."""
    from packaging.requirements import InvalidRequirement, Requirement

    for entry in _ENTRY.findall(text + "\n"):
        try:
            requirement = Requirement(re.split(r"\s(?:#|--)|\\", entry, maxsplit=1)[0].strip())
        except InvalidRequirement as error:
            raise ConfigError(f"{entry.splitlines()[0]!r} is not a requirement: {str(error).splitlines()[0]}") from None
        exact = re.fullmatch(r"==([^=*,]+)", str(requirement.specifier))
        yield Locked(canonical(requirement.name), exact[1] if exact else "", entry)


def doubts(
    wanted: Mapping[str, str], found: tuple[Locked, ...], pins: Mapping[str, str], patched: frozenset[str]
) -> list[str]:
    """What keeps a locked set from being what was asked: `pins` are a line's wheels, `patched` those that kz makes."""
    from packaging.utils import canonicalize_version as form

    versions = {one.name: one.version for one in found}
    said = [f"{one.name} has no hash" for one in found if "--hash=sha256:" not in one.text]
    for name, version in wanted.items():
        if name in pins and form(pins[name]) not in (form(version), form(version.partition("+")[0])):
            said.append(f"{name} {version} is asked for, the line has {pins[name]} in pins.yaml")
        if name in patched and name in versions:
            said.append(f"{name} is in it, and kz installs its own patched wheel: --no-emit-package {name}")
        elif name not in patched and form(versions.get(name, "")) != form(version):
            said.append(f"{name} {version} is asked for, {versions.get(name, 'none')} is locked")
    return said
