"""A git that lives and does not answer, and one that is killed before it does."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kz_build.core.errors import CommandError
from kz_build.core.progress import Event
from kz_build.git import cat_file
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.fetch_progress import FetchProgress
from kz_build.git.object_types import blob_id
from kz_build.git.remote import reachable
from kz_build.git.repository import Repository
from tests.conftest import ROOT, Kz
from tests.deadline import patient
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS
from tests.stack.upstreams import project, started


def test_a_git_that_does_not_answer_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was not asked anything for as long is not."""
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    monkeypatch.setattr(cat_file, "SILENT_SECONDS", patient(0.3))  # git itself must answer sooner
    with Repository(tmp_path / "up.git").objects() as objects:
        time.sleep(2.5 * cat_file.SILENT_SECONDS)
        assert objects.get("HEAD") is None and objects.process.poll() is None
    monkeypatch.setattr(cat_file, "SILENT_SECONDS", 0.05)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nread request && exec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        Repository(tmp_path / "up.git").objects() as objects,
        pytest.raises(CommandError, match=r"cat-file` in .*up\.git said nothing for 0\.05 s"),
    ):
        objects.get("HEAD")


def test_a_git_that_reads_no_more_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may live on, and end its errors only when it does."""
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec <&-\necho fatal: x >&2\necho x x\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    started = time.monotonic()
    with Repository(tmp_path / "up.git").objects() as objects:
        assert objects.process.stdout and objects.process.stdout.readline()  # it has closed its input by now
        with pytest.raises(ObjectsMissing, match="fatal: x"):
            objects.get("HEAD")
        objects.process.kill()
    assert time.monotonic() - started < patient(15)


def test_a_git_that_is_killed_lacks_no_object(tmp_path: Path, kz: Kz) -> None:
    ours = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    (tmp_path / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *cat-file*--batch) kill -9 $$;; esac\nexec {shutil.which("git")} "$@"\n'
    )
    (tmp_path / "git").chmod(0o755)
    done = ours.kz("verify", "--onto", "v1", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 5 and "cat-file" in done.stderr and "killed by signal 9" in done.stderr, done.stderr
    assert ours.kz("verify", "--onto", "v1").returncode == 0


def test_a_git_that_is_killed_within_an_object_has_not_damaged_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("git", "init", "-q", "--bare", str(tmp_path / "up.git"), cwd=tmp_path)
    blob = blob_id(b"one\n")
    (tmp_path / "git").write_text(f"#!/bin/sh\nread request; printf '{blob} blob 4\\non'; kill -9 $$\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        Repository(tmp_path / "up.git").objects() as objects,
        pytest.raises(CommandError, match="killed by signal 9"),
    ):
        objects.get(blob)


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"


def _command_lines() -> Iterator[str]:
    for entry in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            yield Path(entry).read_bytes().replace(b"\0", b" ").decode()


def _programs_with(word: str) -> list[str]:
    return [text for text in _command_lines() if "remote-http" in text and word in text]


def test_a_git_that_waits_for_a_server_ends_with_its_helpers(silent_server: str) -> None:
    assert reachable(silent_server, 0.5) == "no answer within 0.5 s"
    assert not _programs_with(silent_server)


def test_ctrl_c_ends_the_helpers_of_a_git_that_waits(silent_server: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "kz_build", "init", silent_server]
    process = subprocess.Popen(argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + patient(30)
    while not _programs_with(silent_server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _programs_with(silent_server)
    process.send_signal(signal.SIGINT)
    assert b"kz: exit 130 (interrupt)" in process.communicate(timeout=patient(30))[1]
    assert not _programs_with(silent_server)


_INTERRUPTED_AT_THE_START = """
from kz_build.cli import main
from kz_build.core import process

start = process._start


def interrupted(*arguments, **options):
    start(*arguments, **options)
    raise KeyboardInterrupt


process._start = interrupted
main(["init", "{url}"])
"""


def test_ctrl_c_just_after_the_start_of_a_git_ends_it(silent_server: str, tmp_path: Path) -> None:
    script = _INTERRUPTED_AT_THE_START.format(url=silent_server)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 130
    assert not [text for text in _command_lines() if silent_server in text]


def test_a_git_that_is_killed_says_nothing_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CommandError, match="killed by signal 9"):
        reachable("https://github.com/x/y", 8.0)


def test_what_git_says_of_a_fetch_is_told_in_its_order() -> None:
    """Some of git's lines go on where an `error:` or `fatal:` ends."""
    lines = ["remote: hello", "fatal: Could not read from remote repository.", "", "Please make sure you may."]
    steps: list[Event] = []
    progress = FetchProgress("up", steps.append)
    for line in (*lines[:2], "Receiving objects:  50% (1/2)\r", *lines[2:]):
        progress.line(f"{line}\n")
    assert progress.messages == lines and [(step.done, step.total) for step in steps] == [(1, 2)]
