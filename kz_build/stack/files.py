"""The files of a stack: which there are, and their bytes. `parse` reads what they say."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConfigError, LockError, Problem
from kz_build.core.paths import files_at
from kz_build.core.rules import unsafe_path
from kz_build.patch.series import series_rows
from kz_build.pins.project import Project

RULES = ".rewrite.yaml"
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".lzma": "lzma"}
_NOT_READ = {".lz": "lzip", ".zst": "zstd"}
_MOST_UNPACKED = 64 << 20
_NUMBERED = re.compile(r"\d{4}-")


class StackFiles(NamedTuple):
    """A stack as bytes: its patches in the order of the series, the rules beside them, `checks.yaml` if it has one, and `series`.

    `folder` is its path in the project; `digest` covers all files. A verdict cached under a digest requires no more.
    `foreign`: somebody else's quilt stack, with any names, -pN and -R; its patches are read and applied as GNU patch does.
    """

    line: str
    source: str
    folder: str
    patches: tuple[str, ...]
    files: Mapping[str, bytes]
    digest: str
    foreign: bool = False


def stack_sources(project: Project, line: str) -> tuple[str, ...]:
    """Return the names of the sources that have a stack on this line."""
    files = files_at(project.root / "patches" / line, "*/*")
    own = {path.parent.name for path in files if path.name == "series" or path.suffix == ".patch"}
    named = {name for name in project.pins.line(line) if project.pins.source(name).options.get("patches")}
    return tuple(sorted(own | named))


def require_stacks_of_lock(project: Project, line: str, only: Collection[str] | None = None) -> None:
    """Raise LockError for a stack that only the lock has: one of a line, or on the sources in `only`."""
    names = stack_sources(project, line)
    for name in project.pins.line(line):
        locked = (project.lock.entry(line, name) or {}).get("patched")
        if locked and name not in names and (only is None or name in only):
            raise LockError(
                f"{name} of {line} has no stack, pins.lock says that a stack of it makes tree {locked['tree']}",
                hint=f"restore {project.stack_folder(line, name)}/series, or if you removed the stack: kz lock --write --line {line}",
            )


def read_stack(project: Project, line: str, source: str) -> StackFiles | None:
    """Read the files of a source's stack; None if it has none. Raises ConfigError for a wrong series."""
    if source not in project.pins.line(line):
        return None
    folder = project.stack_folder(line, source)
    foreign = bool(project.pins.source(source).options.get("patches"))
    files = read_files(project.root, line, source, folder, foreign=foreign)
    if files is None and foreign:
        hint = f"fix `patches` of {source} in pins.yaml"
        raise ConfigError(f"{source} has no stack in {folder}: there is no file {folder}/series", hint=hint)
    return files


def read_files(root: Path, line: str, source: str, folder: str, *, foreign: bool = False) -> StackFiles | None:
    """Read the files of a stack in a folder of the project; None if there is no series. Raises ConfigError for patches without one."""
    path = root / folder
    if not (path / "series").is_file():
        if not foreign and any(path.glob("*.patch")):
            hint = f"in {folder}: ls | grep patch$ > series"
            raise ConfigError(f"{folder} has patches, and no file `series` that names them in order", hint=hint)
        return None
    names = _foreign(path, folder) if foreign else _series(path, folder)
    checks = ["checks.yaml"] if (path / "checks.yaml").is_file() else []
    rules = [] if foreign else [one for name in names if (path / (one := rules_name(name))).is_file()]
    files = {name: _unpacked(path / name) for name in ("series", *names, *rules, *checks)}
    return StackFiles(line, source, folder, tuple(names), files, stack_digest(files), foreign)


def _foreign(folder: Path, shown: str) -> list[str]:
    from kz_build.patch.quilt import read_series

    entries = read_series((folder / "series").read_bytes().decode("utf-8", "replace"), f"{shown}/series")
    gone = [entry.name for entry in entries if not (folder / entry.name).is_file()]
    if gone:
        problems = tuple(Problem(f"{shown}/series", 0, f"{name}: there is no such file") for name in gone)
        raise ConfigError(f"the series of {shown} is wrong:", problems)
    return [entry.name for entry in entries]


def _unpacked(path: Path) -> bytes:
    """Return a file's bytes, unpacked as quilt would. Raises ConfigError for a damaged one."""
    if program := _NOT_READ.get(path.suffix):
        hint = f"unpack it, and name it without {path.suffix} in series"
        raise ConfigError(f"{path.name} is packed by {program}, which kz does not read", hint=hint)
    if path.suffix not in _PACKED:
        return path.read_bytes()
    import importlib
    import zlib
    from lzma import LZMAError

    from kz_build.sources.archive import Xz

    try:
        module = _PACKED[path.suffix]
        with io.BufferedReader(Xz(path)) if module == "lzma" else importlib.import_module(module).open(path) as file:
            unpacked: bytes = file.read(_MOST_UNPACKED + 1)
    except (EOFError, zlib.error, LZMAError, ValueError) as error:
        raise ConfigError(f"{path.name} is damaged: {error}") from error
    except OSError as error:  # of gzip and bz2, which give theirs no number
        if error.errno is not None:
            raise
        raise ConfigError(f"{path.name} is damaged: {error}") from error
    if len(unpacked) > _MOST_UNPACKED:
        raise ConfigError(f"{path.name} unpacks to more than {_MOST_UNPACKED:,} bytes")
    return unpacked


def stack_digest(files: Mapping[str, bytes]) -> str:
    """Return the sha256 of a stack's files, by name and content."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode())
        digest.update(files[name])
    return digest.hexdigest()


def _series(folder: Path, shown: str) -> list[str]:
    data = (folder / "series").read_bytes()
    try:
        lines = series_rows(data.decode())
    except UnicodeDecodeError as error:
        problem = Problem(f"{shown}/series", data.count(b"\n", 0, error.start) + 1, str(error))
        raise ConfigError(f"the series of {shown} is not UTF-8 text", (problem,)) from error
    if any(line.startswith("<<<<<<< ") for line, _ in lines):
        raise ConfigError(
            f"{shown}/series has git's conflict markers",
            hint="keep the patches of both sides; each file's number is its place in the series",
        )
    names: list[str] = []
    wrong: list[tuple[int, str]] = []
    hint = ""
    for number, (_, words) in enumerate(lines, 1):
        if not words:
            continue
        name = words[0]
        if len(words) > 1:
            wrong.append((number, f"{name}: options ({' '.join(words[1:])}) are not supported; patches are -p1"))
            hint = foreign_hint(folder.name)
        elif name in names:
            wrong.append((number, f"{name}: appears twice"))
        elif "/" in name or unsafe_path(name):
            wrong.append((number, f"{name}: is not a file name"))
            hint = foreign_hint(folder.name)
        elif not (folder / name).is_file():
            wrong.append((number, f"{name}: there is no such file"))
        names.append(name)
    left = sorted(p.name for p in folder.glob("*.patch") if p.name not in names)
    wrong += [(0, f"{name} is in the folder but not in the series") for name in left]
    if left:
        hint = hint or f"add to {shown}/series what should be applied, in order, and remove the rest from the folder"
    problems = [Problem(f"{shown}/series", number, text) for number, text in wrong]
    idle = sorted({p.name for p in folder.glob(f"*{RULES}")} - {rules_name(name) for name in names})
    problems += [
        Problem(f"{shown}/{name}", 0, f"the series has no {name.removesuffix(RULES)}.patch, which it would be for")
        for name in idle
    ]
    if names != sorted(names):
        text = "the order differs from the order of the file names, which `git am *.patch` uses"
        problems.append(Problem(f"{shown}/series", 0, text))
        hint = hint or _numbers_hint(shown, names) or foreign_hint(folder.name)
    if problems:
        raise ConfigError(f"the series of {shown} is wrong:", tuple(problems), hint=hint)
    return names


def _numbers_hint(shown: str, names: Sequence[str]) -> str:
    """Say how to number files that are out of order, as after a merge of two branches; '' if not all have a number."""
    if not all(_NUMBERED.match(name) for name in names):
        return ""
    new = [_NUMBERED.sub(f"{number:04d}-", name) for number, name in enumerate(names, 1)]
    moves = [shlex.join(["mv", "--", old, name]) for old, name in zip(names, new, strict=True) if old != name]
    return f"number them as the series has them: in {shown}, {'; '.join(moves)}; and the same names in series"


def rules_name(mail: str) -> str:
    """Return the name of the file that has the rules of a mail."""
    return mail.removesuffix(".patch") + RULES


def series_text(text: str, files: Mapping[str, bytes], kept: Mapping[str, tuple[str, bytes]]) -> bytes:
    """Return the series of these files, with the comments above each patch that stays, and the options of those that kept their bytes.

    `text` was the series before; `kept` are the old name and bytes of each file that was there.
    """
    above: dict[str, list[str]] = {}
    rows: dict[str, str] = {}
    comments: list[str] = []
    for row, words in series_rows(text):
        if words:
            above[words[0]], comments = comments, []
            rows[words[0]] = row
        else:
            comments.append(row)
    lines = []
    for name, data in files.items():
        was, old = kept.get(name, ("", b""))
        lines += above.get(was, [])
        lines.append(rows[name] if (was, old) == (name, data) else name)
    return "".join(f"{row}\n" for row in (*lines, *comments)).encode("utf-8", "surrogateescape")


def foreign_hint(source: str) -> str:
    """Say where a stack belongs that is not made of git's mails, such as a Debian package's."""
    return f"a quilt stack of others, such as debian/patches, stays in its own folder: name it as `patches:` of {source} in pins.yaml"
