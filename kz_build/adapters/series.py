"""The files of stacks: which there are, and what is in them; `stacks` reads what they say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kz_build.model.errors import ConfigError, Problem


class StackFiles(NamedTuple):
    """A stack as bytes: its patches in the order of the series, `checks.yaml` where it has one, `series` itself.

    `folder` is for messages; `digest` covers all of it. A verdict that is remembered for a digest needs no more.
    """

    line: str
    source: str
    folder: str
    patches: tuple[str, ...]
    files: Mapping[str, bytes]
    digest: str


def stack_sources(root: Path, line: str) -> tuple[str, ...]:
    """Names of the sources that have a stack on this line."""
    folder = root / "patches" / line
    return tuple(sorted(p.parent.name for p in folder.glob("*/series"))) if folder.is_dir() else ()


def read_stack(root: Path, line: str, source: str) -> StackFiles | None:
    """The files of a source's stack, None where it has none. Raises ConfigError for a series that is wrong."""
    folder = root / "patches" / line / source
    if not (folder / "series").is_file():
        return None
    shown = folder.relative_to(root).as_posix()
    names = _series(folder, shown)
    checks = ["checks.yaml"] if (folder / "checks.yaml").is_file() else []
    files = {name: (folder / name).read_bytes() for name in ("series", *names, *checks)}
    return StackFiles(line, source, shown, tuple(names), files, stack_digest(files))


def stack_digest(files: Mapping[str, bytes]) -> str:
    """sha256 over a stack's files, by name and content."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


def _series(folder: Path, shown: str) -> list[str]:
    names: list[str] = []
    problems: list[Problem] = []
    for number, raw in enumerate((folder / "series").read_text().splitlines(), 1):
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        name = words[0]
        if len(words) > 1:
            problems.append(
                Problem(
                    f"{shown}/series", number, f"{name}: options ({' '.join(words[1:])}) are not taken; patches are -p1"
                )
            )
        elif "/" in name or name in names:
            problems.append(
                Problem(
                    f"{shown}/series", number, f"{name}: {'stands twice' if name in names else 'is not a file name'}"
                )
            )
        elif not (folder / name).is_file():
            problems.append(Problem(f"{shown}/series", number, f"{name}: there is no such file"))
        names.append(name)
    left = sorted(p.name for p in folder.glob("*.patch") if p.name not in names)
    problems += [Problem(f"{shown}/series", 0, f"{name} lies in the folder but is not in the series") for name in left]
    if names != sorted(names):
        problems.append(
            Problem(
                f"{shown}/series", 0, "the order differs from the order of the file names, which `git am *.patch` takes"
            )
        )
    if problems:
        raise ConfigError(f"the series of {shown} is wrong:", tuple(problems))
    return names
