"""Waiting for what must happen soon, on a machine that may be busy with other work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def patient(seconds: float) -> float:
    """Return that many seconds of an idle machine; more on a busy one, by how many processes want each core."""
    return seconds * max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def until(happened: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something happened. Raises AssertionError when it did not within `patient(seconds)`."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() - started < patient(seconds), f"waited {seconds} s in vain for {happened}"
        time.sleep(0.02)
