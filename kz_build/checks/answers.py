"""Answers of check-apk's checks: rows of (place, status, evidence)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kz_build.core.result import Status

MAIN = "arm64-v8a"
QNN = re.compile(r"lib(Qnn\w+|qnn_executorch_backend)\.so")
"""What Qualcomm's SDK brings or is linked with it: made for arm64 alone."""
Row = tuple[str, Status, str]


def answer(bad: Iterable[Row], good: str) -> list[Row]:
    """The rows that fail, or one that says what is good."""
    return list(bad) or [("-", Status.PASS, good)]


def skip(reason: str) -> list[Row]:
    """Nothing to ask."""
    return [("-", Status.SKIP, reason)]


def count(number: int, what: str) -> str:
    """`1 library`, `2 libraries`."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what[:-1]}ies" if what.endswith("y") else f"{number} {what}s"
