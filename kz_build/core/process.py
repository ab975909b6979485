"""Processes: the only module that starts any."""

from __future__ import annotations

import contextlib
import errno
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from kz_build.core.env import plain, temporary_root
from kz_build.core.errors import CommandError, KzError, Missing, MissingError, StoppedError

Argv = Sequence[str]
Item = TypeVar("Item")
Result = TypeVar("Result")
Process = subprocess.Popen[bytes]
TimeoutExpired = subprocess.TimeoutExpired
HOUR = 3600.0
"""A short command that takes longer hangs."""
END_SECONDS = 60.0
"""How long a process may take to end once nobody talks to it any more."""
LONGEST_LINE = 1 << 20
"""Bytes of a line of output that are kept together: a program may print without ever ending one."""
STOP_SECONDS = 1.0
"""How long a stopped command may take to end before it is killed: after Ctrl-C kz ends within two seconds."""


class Output(NamedTuple):
    """The result of a short command."""

    code: int
    stdout: bytes
    stderr: bytes


def find(program: str) -> str:
    """Return the full path of a program on PATH, '' if there is none."""
    return shutil.which(program) or ""


def run(
    argv: Argv,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes | IO[bytes] = b"",
    cwd: Path | None = None,
    timeout: float | None = HOUR,
    stop: threading.Event | None = None,
) -> Output:
    """Run a short command and return its output, whatever its exit code: 124 after `timeout` seconds without an end.

    A file given as `stdin` is read from its beginning. Raises CommandError if it cannot start, MissingError without git, and StoppedError once another thread sets `stop`.
    """
    if not isinstance(stdin, bytes):
        stdin.seek(0)
    if stop:
        return _run_until(stop, argv, env=env, stdin=stdin, cwd=cwd)
    pipe = subprocess.PIPE
    given, file = (stdin, pipe) if isinstance(stdin, bytes) else (None, stdin)
    with _start(argv, cwd=cwd, env=plain() if env is None else env, stdin=file, stdout=pipe, stderr=pipe) as process:
        try:
            texts = process.communicate(given, timeout=timeout)
            return Output(process.returncode, *texts)
        except TimeoutExpired:
            return Output(124, b"", f"no answer within {timeout:g} s".encode())
        finally:
            if process.returncode is None:  # its time is up, or Ctrl-C: a git's own programs would live on
                _end_session(process)


def _run_until(
    stop: threading.Event, argv: Argv, *, env: Mapping[str, str] | None, stdin: bytes | IO[bytes], cwd: Path | None
) -> Output:
    with _file_of(stdin) if isinstance(stdin, bytes) else contextlib.nullcontext(stdin) as file:
        pipe = subprocess.PIPE
        process = _start(argv, cwd=cwd, env=plain() if env is None else env, stdin=file, stdout=pipe, stderr=pipe)
        with process:
            try:
                while not stop.is_set():
                    with contextlib.suppress(TimeoutExpired):
                        texts = process.communicate(timeout=0.05)
                        return Output(process.returncode, *texts)
            finally:
                _end_session(process)
    raise StoppedError(f"`{joined(argv)}` was stopped")


@contextlib.contextmanager
def _file_of(stdin: bytes) -> Iterator[IO[bytes]]:
    """Yield an open file with these bytes: a pipe would need somebody who goes on writing while its reader is waited for."""
    import tempfile

    with tempfile.TemporaryFile(dir=temporary_root()) as file:
        file.write(stdin)
        file.seek(0)
        yield file


def checked(
    argv: Argv,
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cwd: Path | None = None,
    stop: threading.Event | None = None,
) -> bytes:
    """Run a command and return its standard output. Raises CommandError with its errors if it fails, StoppedError as `run`."""
    output = run(argv, env=env, stdin=stdin, cwd=cwd, stop=stop)
    require_success(argv, output)
    return output.stdout


def answered(argv: Argv, output: Output) -> Output:
    """Return a command's output. Raises CommandError if a signal killed it: its exit code answers nothing then.

    SIGPIPE is an answer: so ends a git that lacks an object, once the git that it starts to fetch it has been refused.
    """
    if output.code < 0 and output.code != -signal.SIGPIPE:
        raise _killed(argv, output)
    return output


def _killed(argv: Argv, output: Output) -> CommandError:
    errors = output.stderr.decode("utf-8", "replace").strip()
    return CommandError(f"`{joined(argv)}` was killed by signal {-output.code}\n{errors}".rstrip(), code=output.code)


def require_success(argv: Argv, output: Output, failure: type[CommandError] = CommandError) -> None:
    """Raise `failure` with a command's errors if it failed; CommandError if it was killed, which says nothing of its work.

    Raises MissingError where git failed because it is too old.
    """
    if output.code < 0:
        raise _killed(argv, output)
    if output.code:
        errors = output.stderr.decode("utf-8", "replace").strip()
        if argv[0] == "git":
            from kz_build.core.host import refuse_old_git  # it starts git

            refuse_old_git(errors)
        raise failure(f"`{joined(argv)}` ended with {output.code}\n{errors}", code=output.code)


def run_following_errors(argv: Argv, line: Callable[[str], None], *, env: Mapping[str, str], stdin: bytes = b"") -> int:
    """Run a command, pass each line of its standard error to `line`, rewritten ones too; return its exit code."""
    with _file_of(stdin) as file:
        process = _start(argv, env=env, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr
    try:
        with open(process.stderr.fileno(), encoding="utf-8", errors="replace", closefd=False) as errors:
            for text in errors:  # \r ends a line too
                line(text)
        return process.wait()
    finally:
        _end_session(process)
        process.stderr.close()


def run_parallel(argvs: Sequence[Argv], *, env: Mapping[str, str]) -> list[Output]:
    """Run short commands at the same time; return their outputs in order, whatever their exit codes."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(conversation(argv, env)) for argv in argvs]
        outputs = [process.communicate() for process in running]
        return [Output(process.returncode, *texts) for process, texts in zip(running, outputs, strict=True)]


def checked_parallel(argvs: Sequence[Argv], *, env: Mapping[str, str]) -> list[bytes]:
    """Like `run_parallel`, but return only standard output. Raises CommandError with the errors of the first that failed."""
    outputs = run_parallel(argvs, env=env)
    for argv, output in zip(argvs, outputs, strict=True):
        require_success(argv, output)
    return [output.stdout for output in outputs]


def in_processes(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call a module's function for each item, each in a process of its own; a single item in this process.

    For much data that Python itself works on. Function, items and results must pickle.
    """
    if len(items) < 2:
        return [function(item) for item in items]
    from concurrent.futures import ProcessPoolExecutor  # costs 20 ms

    # Ctrl-C is for the caller: its processes finish their item.
    with ProcessPoolExecutor(len(items), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def conversation(argv: Argv, env: Mapping[str, str], terminal: int | None = None) -> Iterator[Process]:
    """Start a process to talk to over its pipes, or over a terminal; it has ended when the block is left."""
    end = subprocess.PIPE if terminal is None else terminal
    process = _start(argv, env=env, stdin=end, stdout=end, stderr=end)
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(END_SECONDS)
        except TimeoutExpired:
            process.kill()
            process.wait()


def streamed(
    argv: Argv,
    cwd: Path,
    env: Mapping[str, str],
    line: Callable[[bytes], None],
    *,
    limit: float,
    started: Callable[[int], None] | None = None,
) -> int:
    """Run a command, pass each line of its output to `line`, longer ones in parts, return its exit code. See Commands.

    Raises StoppedError after `limit` seconds, and CommandError if it cannot start.
    """
    process = _start(argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout
    if started:
        started(process.pid)
    with limited(limit, lambda: _end_session(process)):
        try:
            while raw := process.stdout.readline(LONGEST_LINE):
                line(raw)
            return process.wait()
        finally:
            # Also after success: nothing that it left behind may go on writing.
            _end_session(process)


@contextlib.contextmanager
def watched(waiting: Callable[[], object], seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if `waiting` returns the same answer, not None, for longer than `seconds`."""
    left = threading.Event()

    def watch() -> None:
        before = None
        while not left.wait(seconds):
            now = waiting()
            if now is not None and now == before:
                stop()
            before = now

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        left.set()


@contextlib.contextmanager
def limited(seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if the block takes longer than `seconds` (0: never), and raise StoppedError once it has ended."""
    expired = threading.Event()

    def end() -> None:
        expired.set()
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
        if expired.is_set():
            raise StoppedError(f"stopped: it took longer than {seconds:g} s")


def _start(
    argv: Argv,
    *,
    env: Mapping[str, str],
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int,
    stderr: int,
    cwd: Path | None = None,
) -> Process:
    """Start a program in a session of its own. Raises CommandError if that fails, MissingError without git."""
    try:
        return subprocess.Popen(
            argv, cwd=cwd, env=dict(env), stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except OSError as error:
        raise _not_started(argv, error) from error


def _not_started(argv: Argv, error: OSError) -> KzError:
    if argv[0] == "git" and not find("git"):
        return MissingError((Missing("git", "it is not on PATH", "install git, and put it on PATH"),))
    hint = f"install {argv[0]} and try again" if error.errno == errno.ENOENT else ""
    return CommandError(f"cannot start {argv[0]}: {error.strerror}", hint=hint)


def joined(argv: Argv) -> str:
    """Return a command line as a shell accepts it."""
    import shlex  # verbs that only read do not need it

    return shlex.join(argv)


def _end_session(process: Process) -> None:
    """End all processes of a command's session, and reap the first."""
    from kz_build.core.process_group import end  # it imports this module

    end(process.pid)
    process.wait()
