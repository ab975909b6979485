"""`kz` in a fork of this process: it starts in milliseconds, and strace sees kz's own system calls and none of Python's start."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import pkgutil
import select
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import kz_build
from kz_build import cli
from tests.faults import strace
from tests.faults.world import World

SECONDS = 120.0
"""A command that takes longer hangs."""
_PR_SET_PTRACER, _PR_SET_CHILD_SUBREAPER = 0x59616D61, 36


class Ended(NamedTuple):
    """How a command ended: its exit code, or -9 if it was killed."""

    code: int
    stdout: str
    stderr: str


def prepare() -> None:
    """Import all of kz, so that no fork does, and become the parent of what a killed kz leaves running."""
    for module in pkgutil.walk_packages(kz_build.__path__, "kz_build."):
        if not module.name.startswith(("kz_build.export.scripts", "kz_build.__main__")):
            importlib.import_module(module.name)
    for name in (
        "docker",
        "requests",
        "git",
        "adbutils",
        "email.parser",
        "concurrent.futures.process",
        "encodings.idna",
    ):
        importlib.import_module(name)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kz(world: World, argv: Sequence[str], tracer: Sequence[str] = (), env: dict[str, str] | None = None) -> Ended:
    """Run a command, traced or not, and wait until all that it started has ended."""
    theirs, ours = os.pipe()
    ready, told = os.pipe()
    before = _children()
    pid = os.fork()
    if not pid:
        os.close(ours)
        _child(world, argv, (theirs, told), env or {})
    os.close(theirs)
    os.read(ready, 1)  # what comes before is none of kz's system calls
    os.close(ready)
    os.close(told)
    traced = strace.attached(pid, list(tracer)) if tracer else None
    os.write(ours, b"x")
    os.close(ours)
    code = _wait(pid)
    if traced:
        traced.wait()
    _wait_for_orphans(before)
    return Ended(code, *((world.root / name).read_text(errors="replace") for name in ("stdout", "stderr")))


def _child(world: World, argv: Sequence[str], pipes: tuple[int, int], env: dict[str, str]) -> None:
    code = 99
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, -1, 0, 0, 0)
        os.environ.clear()
        os.environ.update({**world.env, **env})
        os.chdir(world.project)
        tempfile.tempdir = None
        for number, name in ((0, os.devnull), (1, world.root / "stdout"), (2, world.root / "stderr")):
            handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, number)
            os.close(handle)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        os.write(pipes[1], b"x")
        os.close(pipes[1])
        select.select([pipes[0]], [], [])  # not by a call that strace counts
        try:
            code = cli.run(list(argv))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    finally:
        os._exit(code)


def _wait(pid: int) -> int:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.003)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 124


def _children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def _wait_for_orphans(before: set[int]) -> None:
    """Wait for what a killed kz had started; after a while kill it."""
    deadline = time.monotonic() + 10
    while orphans := _children() - before:
        for pid in orphans:
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.003)
