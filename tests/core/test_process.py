"""Programs that kz starts: what is left of them when they have ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kz_build.core.command_log import LONGEST_SHOWN, Commands
from kz_build.core.env import plain
from kz_build.core.errors import CommandError
from kz_build.core.process import LONGEST_LINE, STOP_SECONDS, Output, run
from tests.kz import ROOT

# Stands for PID 1 of a container without an init: orphans become its children, and it never asks for them.
CARELESS = """
import ctypes, os, sys, time
from kz_build.core.process import run_following_errors
assert ctypes.CDLL(None).prctl(36, 1) == 0  # PR_SET_CHILD_SUBREAPER, prctl(2)
begun = time.monotonic()
assert run_following_errors(["sh", "-c", "(sleep 0.1; echo $$ >&2) & exit 3"], print, env=os.environ) == 3
print("waited", time.monotonic() - begun)
"""


def test_a_zombie_that_nobody_reaps_is_not_waited_for() -> None:
    done = subprocess.run([sys.executable, "-c", CARELESS], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) < 1.9 * STOP_SECONDS, done.stdout


def test_a_command_that_can_be_stopped_gets_all_of_its_input() -> None:
    data = b"x" * 1_000_000  # more than a pipe holds
    assert run(["sh", "-c", "sleep 0.2; cat; exit 3"], stdin=data, stop=threading.Event()) == Output(3, data, b"")


def test_a_program_that_ends_no_line_is_passed_on_in_parts(tmp_path: Path) -> None:
    parts: list[int] = []
    log = Commands(tmp_path).run(
        "endless",
        ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2"],
        cwd=tmp_path,
        env=plain(),
        watch=lambda text: parts.append(len(text)),
    )
    assert max(parts) == LONGEST_LINE and sum(parts) == 3_000_003
    assert log.read_bytes().endswith(b"x" * 3_000_000 + b"end\n")
    with pytest.raises(CommandError) as error:
        Commands(tmp_path).run(
            "long", ["sh", "-c", "head -c 90000 /dev/zero | tr '\\0' x; exit 1"], cwd=tmp_path, env=plain()
        )
    assert len(str(error.value)) < 2 * LONGEST_SHOWN and "x…" in str(error.value)
