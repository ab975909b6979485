"""The entry point of kz: the only place that catches KzError, prints it and exits."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from kz_build.cli.parser import parser, words_without
from kz_build.core.env import variable
from kz_build.core.errors import CommandError, ConfigError, KzError, MissingError
from kz_build.core.escape import escaped, escaped_streams, fit
from kz_build.core.files import path_of, storage_error

CLEANUP_SECONDS = 2.0
"""How long kz may take to end the programs that it started."""

_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> None:
    """Entry point of `kz`."""
    if argv is None and (charset := sys.getfilesystemencoding()) != "utf-8":
        # Git and kz write names and texts in UTF-8. In another character set Python would read other names of them.
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execve(sys.executable, words, {"PYTHONIOENCODING": charset, **os.environ})
    if sys.stdout:  # None if it is closed; a character that the terminal lacks must not lose a report
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        if code == _INTERRUPTED:
            from kz_build.core.process_group import end_children

            end_children()
        if (threading := sys.modules.get("threading")) and any(thread.daemon for thread in threading.enumerate()):
            # One that still works, as a search for a name does that has no time limit. Where Python ends it inside a
            # library's own code, the whole process aborts.
            with contextlib.suppress(OSError):
                print(end="", flush=True)
            os._exit(code)
        sys.exit(code)
    finally:
        gc.freeze()  # saves two garbage collections at exit: 5 ms of every command


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code. The last line of a failure is `kz: exit N (name)`."""
    with contextlib.ExitStack() as stack:
        heartbeat = None
        if sys.stderr and sys.stderr.isatty():
            from kz_build.core.heartbeat import Heartbeat

            verb = next(iter(words_without(argv, "-C")), "")
            heartbeat = stack.enter_context(Heartbeat(sys.stderr, escaped(verb)))
        in_workflow = variable("GITHUB_ACTIONS") == "true"
        stack.enter_context(escaped_streams(in_workflow=in_workflow, heartbeat=heartbeat))
        return _run(argv)


def _require_folder() -> None:
    """Raise ConfigError if the working directory was deleted, such as the worktree of a rebase that ended."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise ConfigError("the folder that your shell is in was deleted", hint="cd to the project's folder") from error


def _project_folder() -> Path:
    """Return the folder of the project that the working directory is in: this one, or the nearest above with a pins.yaml.

    One that another user owns is not taken without `-C`: its pins name commands that would run as this user.
    """
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / "pins.yaml").is_file()), here)
    mine = all(path.stat().st_uid == os.geteuid() for path in (root, root / "pins.yaml") if path.exists())
    return Path(os.path.relpath(root, here)) if mine else Path()


def _run(argv: list[str]) -> int:
    code, name = 1, "bug"
    try:
        arguments = parser().parse_args([*argv[1:2], "--help"] if argv[:1] == ["help"] else argv)
        _require_folder()
        arguments.words = words_without(argv, "-C", "--engine")
        if arguments.root == Path() and arguments.words[:1] != ["init"]:
            arguments.root = _project_folder()
        with stoppable():
            code = arguments.run(arguments) or 0
        if sys.stdout:
            sys.stdout.flush()
        return code
    except KzError as error:
        code, name = error.exit_code, error.name
        _say(f"kz: {error}")
        if isinstance(error, CommandError) and error.log:
            _say_what_the_log_shows(error.log)
        if error.hint:
            _say(f"  -> {error.hint}")
    except KeyboardInterrupt:
        code, name = _INTERRUPTED, "interrupt"
        if sys.stderr and sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal has written ^C where the next line would begin
        _say("kz: interrupted; nothing incomplete is left, and the same command continues from here")
    except BrokenPipeError:
        _hush(sys.stdout)
        return 0
    except Exception as error:
        problem = storage_error(error) if isinstance(error, OSError) else None
        if (
            isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO) and not path_of(error)
        ):  # of a stream
            code, name = CommandError.exit_code, CommandError.name
            _say(f"kz: cannot write its output: {error.strerror}")
            _hush(sys.stdout)
        elif problem:
            code, name = problem.exit_code, problem.name
            _say(f"kz: {problem}\n  -> {problem.hint}")
        elif isinstance(error, ImportError) and ".so" in str(
            error
        ):  # the loader's words for a library that it cannot read
            code, name = MissingError.exit_code, MissingError.name
            _say(
                f"kz: cannot load a part of kz or of Python: {error}\n  -> run the command again; if it fails again, install kz again"
            )
        else:
            _say(traceback.format_exc())
            _say("kz: this is a bug of kz; please report it with the text above")
    finally:
        if locks := sys.modules.get("kz_build.core.locks"):  # a caller's process may go on
            locks.release()
    _say(f"kz: exit {code} ({name})")
    return code


def _say_what_the_log_shows(log: str) -> None:
    """Say the cause that the log of a failed command shows, or the lines that look like it."""
    from kz_build.diagnose.diagnose import diagnose
    from kz_build.diagnose.text import short

    with contextlib.suppress(KzError):  # the log is gone: the failure itself is what matters
        if shown := short(diagnose(log)):
            _say(shown)


def _hush(stream: TextIO) -> None:
    """Discard what is still buffered for a stream, and all that follows: Python would try to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(text: str) -> None:
    """Print to stderr, after all that stdout still holds: in a log of both, the reason stands below the table."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:  # its reader is gone, or its disk is full; what failed is still said
        _hush(sys.stdout)
    try:
        print(fit(text, sys.stderr), file=sys.stderr, flush=True)
    except OSError:  # nobody can read it: the exit code says what it can
        _hush(sys.stderr)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block like Ctrl-C. After the first of the three, cleanup is not interrupted for as long as
    it should take; a signal after that ends the process at once."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    handled = [number for number in numbers if before[number] is not signal.SIG_IGN]  # nohup

    stopped_at: list[float] = []

    def stop(*_: object) -> None:
        if not stopped_at:
            stopped_at.append(time.monotonic())
            raise KeyboardInterrupt
        if time.monotonic() > stopped_at[0] + CLEANUP_SECONDS:
            os._exit(_INTERRUPTED)

    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    except RuntimeError as error:  # up to Python 3.11 a class in the making wraps what is raised in it
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    finally:
        for number in handled:
            signal.signal(number, before[number])
