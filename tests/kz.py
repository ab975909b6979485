"""Run `kz` for a test: in the test's own process, or in one of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO

from kz_build import cli

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600
"""How long one command may take. A deadline against a hang, not a measurement."""

Kz = Callable[..., "subprocess.CompletedProcess[str]"]
ALONE = {"PYTHONNOUSERSITE": "1"}
"""With it `kz` gets a process of its own, which may be killed: a fork of this one, for a new Python takes ten times as long.

So it does with PYTHONSTARTUP, a file that it executes first.
"""


def kz_process(environment: Mapping[str, str]) -> Kz:
    """Return a function that runs `kz` as a user does, in a process of its own."""

    def run(*argv: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kz_build", *map(str, argv)],
            cwd=cwd or ROOT,
            env={**environment, **env},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    return run


def kz_in_process(environment: Mapping[str, str]) -> Kz:
    """Return a function that runs `kz` in this process, which saves the start of Python and its imports.

    The command line, environment, working directory and standard streams are those that a process would have.
    One command at a time: threads that run several need `kz_process`. Variables of Python's own (PYTHONPATH …) say how
    a process starts, so a command with one of them gets a process.
    """
    in_its_own = kz_process(environment)

    def run(*argv: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        pythons = {name: value for name, value in env.items() if name.startswith("PYTHON")}
        if pythons.keys() - {*ALONE, "PYTHONSTARTUP"}:
            return in_its_own(*argv, cwd=cwd, **env)
        words = [str(word) for word in argv]
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("only one kz at a time runs in this process: a thread needs kz_process")
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            surroundings = _surroundings(cwd or ROOT, {**environment, **env})
            if pythons:
                code = _code_of_fork(surroundings, _streams(out, err), words)
            else:
                with surroundings, _streams(out, err):
                    code = _exit_code(words)
            return subprocess.CompletedProcess(["kz", *words], code, _text(out), _text(err))

    return run


def _code_of_fork(
    surroundings: contextlib.AbstractContextManager[None],
    streams: contextlib.AbstractContextManager[None],
    argv: list[str],
) -> int:
    """Run `kz` in a fork of this process; return its exit code, or the negative number of the signal that ended it."""
    pid = os.fork()
    if not pid:
        code = 99
        try:
            with surroundings, streams:
                if first := os.environ.pop("PYTHONSTARTUP", ""):
                    exec(Path(first).read_text(), {})
                code = _exit_code(argv)
        finally:
            os._exit(code)
    deadline = threading.Timer(SECONDS, os.kill, (pid, signal.SIGKILL))
    deadline.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        deadline.cancel()


def _exit_code(argv: list[str]) -> int:
    threads = set(threading.enumerate())
    try:
        code = cli.run(argv)
    except SystemExit as ended:  # argparse: --help, and options that it refuses
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    for thread in set(threading.enumerate()) - threads:
        if not thread.daemon:  # a process waits for these at its end, too
            thread.join(SECONDS)
    return code


@contextlib.contextmanager
def _surroundings(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    before, here = dict(os.environ), os.getcwd()
    tempfile.tempdir, remembered = None, tempfile.tempdir  # it remembers TMPDIR
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = remembered


@contextlib.contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """Let file descriptors 0 to 2 and Python's streams be /dev/null and these files."""
    kept = [os.dup(number) for number in (0, 1, 2)]
    streams = sys.stdin, sys.stdout, sys.stderr
    with open(os.devnull, "rb") as nothing:
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)
    text = partial(open, encoding="utf-8", errors="backslashreplace", closefd=False)
    try:
        with text(0) as sys.stdin, text(1, "w") as sys.stdout, text(2, "w", 1) as sys.stderr:
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, copy in enumerate(kept):
            os.dup2(copy, number)
            os.close(copy)


def _text(file: IO[bytes]) -> str:
    """What was written to a file, as subprocess gives it."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
