"""Several files of a project changed as one: all changes are recorded first, so that the next command can finish a killed one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.files import disk_errors, write_atomic
from kz_build.core.rules import unsafe_path

NAME = ".kz-commit"
Changes = Mapping[str, bytes | None]
"""path relative to the project -> its new content; None to remove it"""


def change_all(root: Path, changes: Changes) -> tuple[str, ...]:
    """Write and remove files, all of them, however often kz is killed: the next command finishes it.

    Return those that were not so already, sorted.
    """
    _refuse_outside(root, changes)
    pending = {path: (old, data) for path, data in changes.items() if (old := _read(root / path)) != data}
    if not pending:
        return ()
    plain = {path: [_encoded(before), _encoded(after)] for path, (before, after) in pending.items()}
    write_atomic(root / NAME, json.dumps(plain).encode())
    _sync(root)
    roll_forward(root)
    return tuple(sorted(pending))


def roll_forward(root: Path) -> None:
    """Finish what a killed command began, if there is a record.

    Raises ConfigError, and changes nothing, if a file was changed by hand since.
    """
    try:
        if not (root / NAME).is_file() and os.path.lexists(root / NAME):
            raise ConfigError(f"{NAME} was not written by kz: it is no file", hint=f"remove {root / NAME}")
        data = (root / NAME).read_bytes()
    except FileNotFoundError:
        return
    try:
        plain = json.loads(data).items()
        changes = {path: (_decoded(before), _decoded(after)) for path, (before, after) in plain}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{NAME} was not written by kz: {error}", hint=f"remove {root / NAME}") from error
    _refuse_outside(root, changes)
    edited = [path for path, versions in changes.items() if _read(root / path) not in versions]
    if edited:
        raise ConfigError(
            "a command was killed while it wrote these files, and they were changed since:",
            tuple(
                Problem(path, 0, "is neither as it was before nor as that command would have left it")
                for path in edited
            ),
            hint=f"put them back (git checkout) to let it finish, or remove {root / NAME} to keep what is there",
        )
    for path, (_, after) in sorted(changes.items()):
        if after is None:
            (root / path).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (root / path).parent.rmdir()
        else:
            write_atomic(root / path, after)
        _sync((root / path).parent)
    (root / NAME).unlink(missing_ok=True)


def _refuse_outside(root: Path, paths: Iterable[str]) -> None:
    """Raise ConfigError for paths that leave the project or reach into .git: a record can come with a pull request."""
    problems = []
    for path in paths:
        target = (root / path.replace("\0", "")).parent.resolve() / Path(path).name
        inside = target.relative_to(root.resolve()).as_posix() if target.is_relative_to(root.resolve()) else ".."
        wrong = unsafe_path(inside)
        if not wrong and (target.exists() and not target.is_file() or any(p.is_file() for p in target.parents)):
            wrong = "is a folder, a device, or below a file"
        if wrong:
            problems.append(Problem(path, 0, wrong))
    if problems:
        hint = f"nothing was written; if {root / NAME} is there and no kz of yours was killed, remove it"
        raise ConfigError("kz must not write these files:", tuple(problems), hint=hint)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _encoded(data: bytes | None) -> str | None:
    import base64  # needed only if there is a record

    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    import base64

    return None if text is None else base64.b64decode(text)


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    if not folder.is_dir():
        return
    with disk_errors(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
