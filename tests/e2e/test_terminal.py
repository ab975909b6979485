"""What verbs print on a terminal: no row ends inside a word or a number, colour only where it may be."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kz_build.core.escape import fitted
from tests.conftest import Kz

VERBS = (
    ("report",), ("audit",), ("status",), ("apply",), ("fetch",), ("build",), ("verify", "--tags", "*"), ("history",),
    ("lock",), ("doctor",), ("--help",), ("no-such-verb",), ("package",), ("fetch", "--line", "none"),
)  # fmt: skip
TO_PASTE = re.compile(r"\s*(\d+ +)?(-> |\$ )")


def on_a_terminal(argv: list[str], columns: int, env: dict[str, str]) -> str:
    """Run a command on a terminal of that width, and return all that it shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env) as running:
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += os.read(master, 65536)
            except OSError:  # the end, as Linux says it
                break
        running.wait()
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


def test_no_verb_has_a_row_that_a_terminal_would_break(built: Path, sample: Path, kz: Kz) -> None:
    shutil.copytree(built, sample, dirs_exist_ok=True)
    for words in VERBS:
        done = kz("-C", sample, *words, cwd=sample)
        for text in (done.stdout, done.stderr):
            for columns in (60, 80, 200):
                shown = fitted(text, columns)
                assert shown.split() == text.split(), words
                for row in shown.splitlines():
                    long = len(row) > columns and not TO_PASTE.match(row)
                    assert not long or len(row.split()) == 1, (words, columns, row)


def test_a_terminal_gets_rows_of_its_width_and_a_pipe_does_not(sample: Path, clean_env: dict[str, str], kz: Kz) -> None:
    words = ["-C", str(sample), "fetch", "--line", "a line with a long name that is not there and never was"]
    piped = kz(*words).stderr
    shown = on_a_terminal([sys.executable, "-m", "kz_build", *words], 60, clean_env)
    shown = re.sub(r"\r?\x1b\[K", "", shown)
    assert shown.split() == piped.split() and max(map(len, piped.splitlines())) > 60
    assert all(len(row) <= 60 or row.startswith("  -> ") for row in shown.splitlines()), shown


@pytest.mark.parametrize("variable", ["NO_COLOR", "FORCE_COLOR"])
def test_colours_are_on_a_terminal_alone_and_not_with_no_color(clean_env: dict[str, str], variable: str) -> None:
    """The bar of downloads and builds is all that has colours."""
    script = (
        "import time; from kz_build.core.terminal import Live; from kz_build.core.progress import Event\n"
        "with Live() as live:\n  live.event(Event('download', 5, 10)); time.sleep(.3); live.event(Event('download', 9, 10))"
    )
    plain = {k: v for k, v in clean_env.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    env = {**plain, "TERM": "xterm-256color", "COLUMNS": "80", variable: "1"}
    coloured = re.search(r"\x1b\[[\d;]*[34]\d", on_a_terminal([sys.executable, "-c", script], 80, env))
    assert bool(coloured) == (variable == "FORCE_COLOR")
    piped = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr and "download" in piped.stderr
