"""A check: one question with an answer and its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(str, Enum):
    """PASS, FAIL, SKIP (needs a reason) or ERROR (the question could not be asked)."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    ERROR = "ERROR"


@dataclass(frozen=True)
class CheckResult:
    """Answer to one check of one file. A required check that is not PASS fails the run."""

    file: str
    check: str
    status: Status
    evidence: str
    required: bool

    @property
    def failed(self) -> bool:
        """Whether this answer fails the run: FAIL and ERROR always, SKIP where the check is required."""
        return self.status in (Status.FAIL, Status.ERROR) or (self.required and self.status is Status.SKIP)
