"""Requirements of an export environment: the requested packages, and the locked set."""

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
    """Return a package's name in the form that indexes compare."""
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def locked(text: str) -> tuple[Locked, ...]:
    """Parse a requirements file with `name==version` and hashes. Raises ConfigError like all here."""
    return tuple(one for one in _entries(text) if one.version)


def package_names(text: str) -> tuple[str, ...]:
    """Return every package that a .in file names, pinned or not."""
    return tuple(one.name for one in _entries(text))


def _entries(text: str) -> Iterator[Locked]:
    """Yield every entry of a requirements file, its version '' unless pinned exactly."""
    from packaging.requirements import InvalidRequirement, Requirement

    for entry in _ENTRY.findall(text + "\n"):
        try:
            requirement = Requirement(re.split(r"\s(?:#|--)|\\", entry, maxsplit=1)[0].strip())
        except InvalidRequirement as error:
            raise ConfigError(f"{entry.splitlines()[0]!r} is not a requirement: {str(error).splitlines()[0]}") from None
        exact = re.fullmatch(r"==([^=*,]+)", str(requirement.specifier))
        yield Locked(canonical(requirement.name), exact[1] if exact else "", entry)


def mismatches(
    requested: Mapping[str, str], packages: tuple[Locked, ...], pins: Mapping[str, str], patched: frozenset[str]
) -> list[str]:
    """Compare a locked set with the requested versions. `pins` are a line's wheels, `patched` those that kz makes."""
    from packaging.utils import canonicalize_version as form

    versions = {one.name: one.version for one in packages}
    problems = [f"{one.name} has no hash" for one in packages if "--hash=sha256:" not in one.text]
    for name, version in requested.items():
        if name in pins and form(pins[name]) not in (form(version), form(version.partition("+")[0])):
            problems.append(f"{name} {version} is requested, the line has {pins[name]} in pins.yaml")
        if name in patched and name in versions:
            problems.append(f"{name} is in it, and kz installs its own patched wheel: --no-emit-package {name}")
        elif name not in patched and form(versions.get(name, "")) != form(version):
            problems.append(f"{name} {version} is requested, {versions.get(name, 'none')} is locked")
    return problems
