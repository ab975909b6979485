"""Signals that ask kz to end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block like Ctrl-C; after the first of the three, cleanup is not interrupted."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    handled = [number for number in numbers if before[number] is not signal.SIG_IGN]  # nohup

    def stop(*_: object) -> None:
        for number in handled:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
