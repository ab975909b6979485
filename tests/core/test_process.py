"""Programs that kz starts: what is left of them when they have ended."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kz_build.core.command_log import LONGEST_SHOWN, Commands
from kz_build.core.env import plain
from kz_build.core.errors import CommandError
from kz_build.core.process import LONGEST_LINE, STOP_SECONDS, Output, run
from kz_build.core.process_group import RUNNING, end_noted, members, note, start_time
from tests.deadline import until
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

# kz as it is killed while a command runs.
KILLED = """
import sys
from pathlib import Path
from kz_build.core.command_log import Commands
from kz_build.core.env import plain
folder = Path(sys.argv[1])
commands = Commands(folder).noted_in(folder / sys.argv[2])
commands.run("long", ["sh", "-c", "touch begun; sleep 300 & wait"], cwd=folder, env=plain())
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


def test_what_a_killed_run_left_is_ended_by_the_next(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), RUNNING], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    until((tmp_path / "begun").exists)
    session = int(json.loads((tmp_path / RUNNING).read_bytes())["session"])
    until(lambda: len(list(members(session))) == 2)
    process.kill()
    process.wait()
    assert len(list(members(session))) == 2, "nobody could end them"
    assert end_noted(tmp_path / RUNNING)
    until(lambda: not list(members(session)))
    assert not (tmp_path / RUNNING).exists() and not end_noted(tmp_path / RUNNING)


def test_a_process_that_has_the_number_of_a_noted_one_by_now_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / RUNNING
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        note(file, other.pid)
        true = json.loads(file.read_bytes())
        later = {"started": start_time(other.pid) - 1}
        for untrue in (
            later,
            {"where": "another boot"},
            {"session": os.getsid(0), "started": 0},
            {"session": 0},
            {"session": math.inf},
        ):
            file.write_text(json.dumps({**true, **untrue}))
            assert not end_noted(file) and other.poll() is None, untrue
        file.write_text(json.dumps(true))
        assert end_noted(file)


def test_a_command_is_noted_only_as_long_as_it_runs(tmp_path: Path) -> None:
    file = tmp_path / RUNNING
    waits = "until test -e running.json; do sleep 0.01; done; cp running.json seen"
    Commands(tmp_path).noted_in(file).run("note", ["sh", "-c", waits], cwd=tmp_path, env=plain())
    assert not file.exists() and json.loads((tmp_path / "seen").read_bytes())["session"] > 0
