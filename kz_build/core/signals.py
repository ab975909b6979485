"""Signals that ask kz to end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does; once one of the three came, what ends it is not interrupted again."""
    signs = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {sign: signal.getsignal(sign) for sign in signs}
    heard = [sign for sign in signs if before[sign] is not signal.SIG_IGN]  # nohup

    def stop(*_: object) -> None:
        for sign in heard:
            signal.signal(sign, signal.SIG_IGN)
        raise KeyboardInterrupt

    for sign in heard:
        signal.signal(sign, stop)
    try:
        yield
    finally:
        for sign in heard:
            signal.signal(sign, before[sign])
