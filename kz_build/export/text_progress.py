"""The progress of an export: one changing line on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from kz_build.export.text import clock

if TYPE_CHECKING:
    from kz_build.export.run_stage import Moment

EVERY_SECONDS = 60.0


class ProgressLine:
    """Shows each moment of a stage: phase, time, the time of earlier runs, memory."""

    def __init__(self) -> None:
        self._phase = ""
        self._last_print = 0.0
        self._wide = 0
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._wide:
            print(f"\r{'':{self._wide}}\r", end="", file=sys.stderr, flush=True)

    def moment(self, at: Moment) -> None:
        """Show one moment."""
        text = line(at)
        if self._terminal:
            print(f"\r{text:{self._wide}}", end="", file=sys.stderr, flush=True)
            self._wide = len(text)
        elif at.phase != self._phase or time.monotonic() - self._last_print > EVERY_SECONDS:
            print(text, file=sys.stderr, flush=True)
            self._last_print = time.monotonic()
        self._phase = at.phase


def line(at: Moment) -> str:
    """Return a moment as `  export: lower 0:23 of ~0:40, all 0:45 of ~1:02, 0.9 GB`."""
    parts = [
        f"{at.stage}: {at.phase} {clock(at.in_phase)}" + (f" of ~{clock(at.phase_before)}" if at.phase_before else "")
    ]
    parts.append(f"all {clock(at.elapsed)}" + (f" of ~{clock(at.before)}" if at.before else ""))
    parts.append(f"{at.ram / 10**9:.1f} GB" + (f" + {at.swap / 10**9:.1f} swap" if at.swap else ""))
    return "  " + ", ".join(parts)
