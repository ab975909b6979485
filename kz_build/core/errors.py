"""Every failure that kz expects, with its documented exit code.

Exit code 1 means a bug in kz. `docs/reference/errors.md` lists the codes for users.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kz_build.core.escape import one_line, wrapped


class KzError(Exception):
    """A failure that a person can act on. `hint` says what to do next."""

    exit_code = 1
    name = "bug"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Problem(NamedTuple):
    """One error in a file that a person wrote; `line` counts from 1, 0 if unknown."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return one_line(f"{where}: {self.text}")


def similar(word: str, known: Iterable[str]) -> str:
    """Return what the text of an error ends with: the known word that this one is nearly, if there is one."""
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class ConfigError(KzError):
    """The command line, a pins file, a stack or a checks file is wrong; lists every problem."""

    exit_code = 2
    name = "config"

    def __init__(self, message: str, problems: tuple[Problem, ...] = (), *, hint: str = "") -> None:
        super().__init__("\n".join([message, *(f"  {problem}" for problem in problems)]), hint=hint)
        self.problems = problems


class LockError(KzError):
    """The lock does not cover the pins, or bytes or identities differ from what it says."""

    exit_code = 3
    name = "lock"


class ConflictError(KzError):
    """A patch does not apply, or the patched result does not pass its checks."""

    exit_code = 4
    name = "conflict"


class CommandError(KzError):
    """A program that kz started failed, with exit code `code` (-9 for signal 9); the file `log` has its output."""

    exit_code = 5
    name = "command"

    def __init__(self, message: str, *, hint: str = "", code: int = 0, log: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.log = log


class UnreachableError(CommandError):
    """A server does not answer, or does not have what was asked for: what it has stays unknown."""


class StoppedError(CommandError):
    """A program that kz started exceeded its time limit; it was stopped, with all that it had started."""


class Missing(NamedTuple):
    """One thing that is missing: what it is, why it is needed, and what closes the gap: a command, or a line of
    pins.local.yaml; each further line is another way. `exit_code` is that of a failure for it alone."""

    what: str
    why: str
    remedy: str
    exit_code: int = 6


class MissingError(KzError):
    """Tools, SDKs, networks or facts of the lock are missing; lists all of them. With one of the lock, it is a lock error."""

    exit_code = 6
    name = "missing"

    def __init__(self, missing: tuple[Missing, ...], *, hint: str = "") -> None:
        lines = [f"missing on this machine: {len(missing)}"]
        for item in missing:
            lines += [
                f"  {item.what}",
                wrapped(f"      {item.why}", " " * 6),
                *(f"      -> {way}" for way in item.remedy.splitlines()),
            ]
        super().__init__("\n".join(lines), hint=hint or "kz doctor shows what this machine can do")
        self.missing = missing
        if any(item.exit_code == LockError.exit_code for item in missing):
            self.exit_code, self.name = LockError.exit_code, LockError.name


class AuditError(KzError):
    """A required check of a build failed, or could not run."""

    exit_code = 7
    name = "audit"


class DeviceError(KzError):
    """A model would not load or run on its device (export, contract or device check failed), or a device is gone, refuses or is full."""

    exit_code = 8
    name = "device"


class NotReadyError(KzError):
    """A machine lacks what a recipe needs; its checks, already shown, say how to fix each."""

    exit_code = 6
    name = "missing"


class StorageError(KzError):
    """The disk is full or a file cannot be written; counts as a missing resource of the machine."""

    exit_code = 6
    name = "missing"


_KINDS = (ConfigError, LockError, ConflictError, CommandError, MissingError, AuditError, DeviceError)
EXIT_CODES = {**{kind.exit_code: kind.name for kind in _KINDS}, 130: "interrupt"}
