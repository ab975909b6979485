"""Processes: the only place that starts one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from kz_build.adapters.environment import plain
from kz_build.model.errors import CommandError, StoppedError

Argv = Sequence[str]
Item = TypeVar("Item")
Result = TypeVar("Result")
Program = Callable[["Argv", Path, Mapping[str, str], Callable[[bytes], None]], int]
"""Runs a command line in a folder with an environment, gives each line it prints, and its exit code."""
Process = subprocess.Popen[bytes]
TimeoutExpired = subprocess.TimeoutExpired
STOP_SECONDS = 5.0
"""How long a stopped command has to end by itself before it is killed."""


class Output(NamedTuple):
    """What a short command said."""

    code: int
    stdout: bytes
    stderr: bytes


def find(program: str) -> str:
    """Full path of a program on PATH, '' where there is none."""
    return shutil.which(program) or ""


def run(
    argv: Argv,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: Path | None = None,
    timeout: float | None = None,
) -> Output:
    """Run a command to its end and give its output, whatever its exit code. Raises CommandError if it cannot start."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            env=dict(env if env is not None else plain()),
            cwd=cwd,
            capture_output=True,
            timeout=timeout,
            check=False,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise CommandError(
            f"cannot start {argv[0]}: {error.strerror}", hint=f"install {argv[0]} and try again"
        ) from error
    except subprocess.TimeoutExpired:
        return Output(124, b"", f"no answer within {timeout:g} s".encode())
    return Output(done.returncode, done.stdout, done.stderr)


def checked(
    argv: Argv,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: Path | None = None,
) -> bytes:
    """Run a command and give its standard output. Raises CommandError with what it said when it fails."""
    done = run(argv, env=env, stdin=stdin, cwd=cwd)
    required(argv, done)
    return done.stdout


def required(argv: Argv, done: Output) -> None:
    """Raise CommandError with what a command said when it failed."""
    if done.code != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise CommandError(f"`{_joined(argv)}` ended with {done.code}\n{said}")


def followed(argv: Argv, line: Callable[[str], None], *, env: Mapping[str, str], stdin: bytes = b"") -> int:
    """Run a command to its end, each line of its standard error to `line`, also those it writes over; gives its exit code."""
    import tempfile

    with tempfile.TemporaryFile() as given:  # a pipe could fill up while nobody reads what it says
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            argv, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(env), start_new_session=True
        )
    assert process.stderr
    try:
        with open(process.stderr.fileno(), encoding="utf-8", errors="replace", closefd=False) as said:
            for text in said:  # \r ends a line too
                line(text)
        return process.wait()
    finally:
        _end_group(process)
        process.stderr.close()


def side_by_side(argvs: Sequence[Argv], *, env: Mapping[str, str]) -> list[Output]:
    """Run short commands at the same time; gives what each said, in order, whatever its exit code."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(conversation(argv, env)) for argv in argvs]
        said = [process.communicate() for process in running]
        return [Output(process.returncode, *texts) for process, texts in zip(running, said, strict=True)]


def all_checked(argvs: Sequence[Argv], *, env: Mapping[str, str]) -> list[bytes]:
    """As `side_by_side`, their output alone. Raises CommandError with what the first that failed said."""
    found = side_by_side(argvs, env=env)
    for argv, done in zip(argvs, found, strict=True):
        required(argv, done)
    return [done.stdout for done in found]


def in_processes(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """What a function of a module gives for each item, every item in a process of its own; a single one here.

    For work of Python's own on much data. Function, items and results must pickle.
    """
    if len(items) < 2:
        return [function(item) for item in items]
    from concurrent.futures import ProcessPoolExecutor  # costs 20 ms, which only much data is worth

    # Ctrl-C is for the caller: its processes end with what they are at.
    with ProcessPoolExecutor(len(items), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def conversation(argv: Argv, env: Mapping[str, str]) -> Iterator[Process]:
    """A process one talks to over its pipes; it has ended when the block is left."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


class Commands:
    """Commands that build, fetch or change something: shown once, streamed to a log file, journaled.

    `folder` is this run's `out/log/<time>-<pid>/`, made at the first command. `show` gets each command as one line.
    A command that takes longer than `limit` seconds (0: any time) is stopped.
    """

    def __init__(self, folder: Path, show: Callable[[str], None] = lambda text: None, limit: float = 0) -> None:
        self.folder = folder
        self.show = show
        self.limit = limit

    def run(
        self,
        title: str,
        argv: Argv,
        *,
        cwd: Path,
        env: Mapping[str, str],
        watch: Callable[[str], None] | None = None,
        program: Program | None = None,
        started: Callable[[int], None] | None = None,
    ) -> Path:
        """Run to the end, every line of output to the log and to `watch`; by `program`, where not as a process of ours.

        Gives the log. `started` gets the process id, which is that of its session too. Raises CommandError with the
        log's path and its last lines, and StoppedError at the time limit. On an interrupt the whole process group is
        ended first.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{len(list(self.folder.glob('*.log'))) + 1:02d}-{title}.log"
        self.show(_shown(argv))
        last: deque[str] = deque(maxlen=25)
        since = time.monotonic()
        code = -1
        try:
            with log.open("wb") as file:

                def line(raw: bytes) -> None:
                    file.write(raw)
                    text = raw.decode("utf-8", "replace").rstrip()
                    last.append(text)
                    if watch:
                        watch(text)

                file.write(f"$ {_joined(argv)}\n".encode())
                file.flush()
                code = (program or partial(self._here, started=started))(argv, cwd, env, line)
        except StoppedError as stopped:
            raise StoppedError(f"{stopped} ({title})\n{_indented(last)}", hint=f"the whole log: {log}") from None
        finally:
            self._journal(argv, cwd, env, code, time.monotonic() - since)
        if code != 0:
            raise CommandError(
                f"`{_joined(argv[:4])} …` ended with {code} ({title})\n{_indented(last)}",
                hint=f"the whole log: {log}",
                code=code,
                log=str(log),
            )
        return log

    def _here(
        self,
        argv: Argv,
        cwd: Path,
        env: Mapping[str, str],
        line: Callable[[bytes], None],
        started: Callable[[int], None] | None = None,
    ) -> int:
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError(f"cannot start {argv[0]}: {error.strerror}") from error
        assert process.stdout
        if started:
            started(process.pid)
        with limited(self.limit, lambda: _end_group(process)):
            try:
                for raw in process.stdout:
                    line(raw)
                return process.wait()
            finally:
                # Also when the leader has ended well: nothing that it left behind may go on writing.
                _end_group(process)

    def _journal(self, argv: Argv, cwd: Path, env: Mapping[str, str], code: int, seconds: float) -> None:
        base = plain()
        delta = {key: value for key, value in env.items() if base.get(key) != value}
        entry = {"argv": list(argv), "cwd": str(cwd), "environment": delta, "exit": code, "seconds": round(seconds, 3)}
        with (self.folder / "commands.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")


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


@contextlib.contextmanager
def limited(seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if the block takes longer (0: never), and raise StoppedError once it has ended."""
    over = threading.Event()

    def end() -> None:
        over.set()
        stop()

    timer = threading.Timer(seconds, end) if seconds else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer:
            timer.cancel()
        if over.is_set():
            raise StoppedError(f"stopped: it took longer than {seconds:g} s")


def _joined(argv: Argv) -> str:
    import shlex  # a verb that only reads shows no command

    return shlex.join(argv)


def _indented(last: Iterable[str]) -> str:
    return "\n".join(f"  | {text}" for text in last)


def _shown(argv: Argv) -> str:
    """A command as one line of a terminal; the log and the journal have it whole."""
    own = argv[argv.index("--") + 1 :] if Path(argv[0]).name == "unshare" else argv
    text = "$ " + _joined([Path(own[0]).name, *own[1:]])
    return text if len(text) < 80 else text[:78] + "…"


def _end_group(process: Process) -> None:
    for sign, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        try:
            os.killpg(process.pid, sign)
        except (ProcessLookupError, PermissionError):
            break
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except (ProcessLookupError, PermissionError):
                break
            time.sleep(0.02)
    process.wait()
