"""A check: one question with one answer and its evidence, and the runner of a table of questions."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from kz_build.core.errors import AuditError, KzError
from kz_build.core.escape import one_line

T = TypeVar("T")


class Status(str, Enum):
    """PASS, FAIL, WARN (it may fail), SKIP (needs a reason) or ERROR (the question could not be answered)."""

    PASS = "PASS"
    FAIL = "FAIL"
    WARN = "WARN"
    SKIP = "SKIP"
    ERROR = "ERROR"


KEYS = ("file", "check", "status", "evidence", "required")
"""Keys of a check in JSON."""


@dataclass(frozen=True)
class Check:
    """One answer about a subject: a file, a device, this machine. `fix` are commands to paste."""

    subject: str
    name: str
    status: Status
    evidence: str
    required: bool = True
    fix: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.SKIP and not self.evidence:
            raise ValueError(f"{self.name} is skipped without a reason")

    @property
    def failed(self) -> bool:
        """Whether this answer fails the run: FAIL and ERROR always, SKIP where the check is required."""
        return self.status in (Status.FAIL, Status.ERROR) or (self.required and self.status is Status.SKIP)

    def as_json(self, keys: Sequence[str] = KEYS) -> dict[str, object]:
        """Return plain data under these keys: `file` is the subject; the name is `check`, or `name` beside a `fix`."""
        data = {**vars(self), "file": self.subject, "check": self.name, "status": self.status.value}
        return {key: data[key] for key in keys}

    @classmethod
    def from_json(cls, row: Mapping[str, object], subject: str = "") -> Check:
        """Read what `as_json` gave. `subject` is for rows without one."""
        name, evidence = str(row["check"]), str(row["evidence"])
        return cls(str(row.get("file", subject)), name, Status(row["status"]), evidence, bool(row["required"]))


def require_passed(checks: Sequence[Check], hint: str = "", names: bool = False) -> None:
    """Raise AuditError if a check failed; its text says which ones if `names`."""
    if failed := [check for check in checks if check.failed]:
        which = ": " + ", ".join(f"{check.subject} {check.name}" for check in failed) if names else ""
        raise AuditError(f"{len(failed)} of {len(checks)} checks failed{which}", hint=hint)


Answer = Check | Sequence[Check] | None
"""None where there is no reason to ask. The runner fills in an empty subject and an empty name."""


def ask(
    about: T, questions: Mapping[str, Callable[[T], Answer]], subject: str, required: Container[str] | None = None
) -> tuple[Check, ...]:
    """Ask every question of a table (name -> function). One that cannot be answered is an ERROR, and the others go on.

    `required`: names of those that must be answered; None where each answer says so itself.
    """
    checks: list[Check] = []
    for name, question in questions.items():
        try:
            answer = question(about)
        except KzError as error:
            answer = Check("", "", Status.ERROR, str(error), fix=(error.hint,) if error.hint else ())
        for one in (answer,) if isinstance(answer, Check) else answer or ():
            must = one.required if required is None else name in required
            checks.append(replace(one, subject=one.subject or subject, name=one.name or name, required=must))
    return tuple(checks)


def passed(evidence: str, *, name: str = "") -> Check:
    """It is as it must be."""
    return Check("", name, Status.PASS, evidence)


def failed(evidence: str, subject: str = "", *, name: str = "", fix: tuple[str, ...] = ()) -> Check:
    """It is not."""
    return Check(subject, name, Status.FAIL, evidence, fix=fix)


def pass_if(good: bool, evidence: str) -> Check:
    """PASS or FAIL, with the same evidence."""
    return passed(evidence) if good else failed(evidence)


def warned(evidence: str, *, name: str = "", fix: tuple[str, ...] = ()) -> Check:
    """It may be too little."""
    return Check("", name, Status.WARN, evidence, fix=fix)


def skipped(reason: str, *, name: str = "", required: bool = False, fix: tuple[str, ...] = ()) -> Check:
    """Nothing there answers it; that fails the run where the answer is required."""
    return Check("", name, Status.SKIP, reason, required, fix)


def unanswered(evidence: str, subject: str = "") -> Check:
    """The question could not be answered."""
    return Check(subject, "", Status.ERROR, evidence)


def table(checks: Sequence[Check]) -> str:
    """Return checks as a table, failures last, where the eye ends up. A file's name or text with a line end is one row, too."""
    order = sorted(checks, key=lambda c: c.failed)
    rows = [(c.status.value, one_line(c.subject), c.name, one_line(c.evidence)) for c in order]
    width = max((len(subject) for _, subject, _, _ in rows), default=0)
    return "\n".join(f"{status:5} {subject:{width}} {name:12} {evidence}" for status, subject, name, evidence in rows)
