"""Progress events of a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """`phase` is at `done` of `total` (0 if unknown), in `bytes` or items; `text` is a line for people, '' for mere
    progress. A line without a phase is shown and stays. `status` replaces the numbers where they would say too little."""

    phase: str
    done: int = 0
    total: int = 0
    text: str = ""
    bytes: bool = False
    status: str = ""


Watch = Callable[[Event], None]


def quiet(event: Event) -> None:
    """Ignore an event."""
