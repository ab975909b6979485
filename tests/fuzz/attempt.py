"""One reading of hostile bytes, within limits of time and memory."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kz_build.core.errors import KzError

SECONDS = 5
MEGABYTES = 300


class Outcome(NamedTuple):
    """What a reading took, in seconds and megabytes; `fault` is '' if it ended in a result or the documented error."""

    seconds: float
    megabytes: int
    refused: bool
    fault: str


class _TooSlow(BaseException):
    """Not an Exception: a reader must not swallow it."""


def attempt(read: Callable[[], object]) -> Outcome:
    """Call a reader. Its fault is a traceback, more than SECONDS, or more than MEGABYTES."""
    before, start = _peak(), time.perf_counter()
    refused, fault = False, ""
    try:
        with _limits():
            read()
    except KzError as error:
        refused = True
        if error.exit_code == 1:
            fault = f"an error without an exit code of its own: {error}"
    except _TooSlow:
        fault = f"it took more than {SECONDS} s: {traceback.format_exc()}"
    except KeyboardInterrupt:
        raise
    except BaseException:
        fault = traceback.format_exc()
    seconds, megabytes = time.perf_counter() - start, (_peak(reset=False) - before) >> 20
    if not fault and megabytes > MEGABYTES:
        fault = f"it took {megabytes} MB"
    return Outcome(seconds, megabytes, refused, fault)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Interrupt what takes too long, and refuse more memory a little above the limit, so that the machine goes on."""

    def stop(*_: object) -> None:
        raise _TooSlow

    usual = signal.signal(signal.SIGALRM, stop)
    space = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + (4 * MEGABYTES << 20), space[1]))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
        resource.setrlimit(resource.RLIMIT_AS, space)


def _peak(*, reset: bool = True) -> int:
    """Return this process's largest resident size in bytes since the last reset."""
    if reset:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    return _status("VmHWM")


def _status(name: str) -> int:
    with open("/proc/self/status", "rb") as file:
        return int(next(line for line in file if line.startswith(name.encode())).split()[1]) << 10
