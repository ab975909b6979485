"""What the command line is, whatever a verb does."""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kz_build import cli
from kz_build.cli import stoppable
from kz_build.cli.parser import GROUPS, parser
from tests.conftest import ROOT, SAMPLE, Kz


def test_kz_alone_is_its_help_in_groups(kz: Kz) -> None:
    alone, asked = kz(), kz("--help")
    assert alone.returncode == 0 and alone.stdout == asked.stdout
    heads = [line.rstrip(":") for line in alone.stdout.splitlines() if line.endswith(":")]
    assert heads == ["start here", "patches", "build and prove", "models", "devices", "CI", "files"]
    assert max(map(len, alone.stdout.splitlines())) <= 80
    for verbs in GROUPS.values():
        for name, summary in verbs.items():
            assert f"  {name:15} {summary}\n" in alone.stdout


@pytest.mark.parametrize(("argv", "own"), [([], []), (["schema"], ["schema"])])
def test_help_imports_no_verb_and_a_verb_itself_alone(argv: list[str], own: list[str]) -> None:
    code = (
        f"import sys; from kz_build.cli import run; run({argv}); print(*[m for m in sys.modules if '.commands.' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == [f"kz_build.cli.commands.{name}" for name in own]


def test_no_parser_colours_its_help() -> None:
    """argparse of Python 3.14 does by default, and reads this attribute for each help; kz shows such colours escaped."""
    kz = parser()
    verbs = next(action.choices for action in kz._actions if action.choices)
    assert {one.color for one in (kz, *dict(verbs).values())} == {False}


def test_a_command_sets_up_the_parser_of_its_verb_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all verbs take six milliseconds."""
    made: list[str] = []
    set_up = argparse.ArgumentParser.__init__

    def noted(self: argparse.ArgumentParser, **named: Any) -> None:
        made.append(named["prog"])
        set_up(self, **named)

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", noted)
    assert parser().parse_args(["schema", "pins"]).run
    assert made == ["kz", "kz schema"]


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ESTALE, errno.EACCES])
def test_an_error_of_the_machine_is_no_bug_of_kz(kz: Kz, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Wherever it is met: here in a file of the project, outside of all that expects one."""

    def broken(path: Path) -> bytes:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "read_bytes", broken)
    done = kz("-C", SAMPLE, "report")
    assert done.returncode == 6 and "Traceback" not in done.stderr and "bug" not in done.stderr, done.stderr
    said, hint, last = done.stderr.splitlines()
    assert said.endswith(f": {os.strerror(code)}") and str(SAMPLE) in said and hint.startswith("  -> ")
    assert last == "kz: exit 6 (missing)"


def test_a_library_that_the_loader_cannot_read_is_no_bug_of_kz(kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "/lib/x86_64-linux-gnu/libstdc++.so.6: cannot read file data: Stale file handle"

    def broken(path: Path) -> bytes:
        raise ImportError(text)

    monkeypatch.setattr(Path, "read_bytes", broken)
    done = kz("-C", SAMPLE, "report")
    assert done.returncode == 6 and text in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_program_that_cannot_be_started_is_named(kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refused)
    done = kz("-C", SAMPLE, "apply", KZ_CACHE=str(tmp_path))
    assert done.returncode == 5 and "cannot start git: Resource temporarily unavailable" in done.stderr, done.stderr


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_kz; printf "%s\\n" "${COMPREPLY[@]}"'
    argv = ["bash", "-euc", code, "bash", str(script), *words]
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


def test_bash_completes_verbs_their_own_and_options(kz: Kz, tmp_path: Path) -> None:
    script = tmp_path / "kz.bash"
    script.write_text(kz("completion", "bash").stdout)
    assert completed(script, "kz", "verif") == {"verify", "verify-release"}
    assert completed(script, "kz", "device", "em") == {"emulate"}
    assert completed(script, "kz", "store", "") >= {"list", "verify", "gc"}
    assert completed(script, "kz", "verify", "--on") == {"--onto"}
    assert completed(script, "kz", "device", "run", "--warm") == {"--warmup"}


_A_THREAD_THAT_WORKS_ON = """
import atexit, sys, threading, time
from kz_build import cli

def run(argv):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    sys.stdout.write("all of it")
    return 7

atexit.register(print, "Python stops the thread where it is")
cli.run = run
cli.main([])
"""


def test_the_end_stops_no_thread_in_a_librarys_code() -> None:
    """Python would: pydantic's compiled code then aborts the process, with code 134."""
    command = [sys.executable, "-c", _A_THREAD_THAT_WORKS_ON]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "all of it", "")


@pytest.mark.parametrize("verb", ["history", "radar", "rebase", "upstream"])
def test_a_verb_that_takes_one_revision_refuses_a_second(kz: Kz, verb: str) -> None:
    done = kz("-C", SAMPLE, verb, "--onto", "main", "--onto", "v2")
    assert done.returncode == 2 and f"kz: kz {verb}: argument --onto: may be given once\n" in done.stderr


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("abort --line L S", ["abort", "S"]),
        ("--line L abort S", ["abort", "S"]),
        ("abort S --line L", ["abort", "S"]),
        ("--line L S", ["S"]),
    ],
)
def test_an_option_may_stand_between_words(line: str, named: list[str]) -> None:
    arguments = parser().parse_args(["edit", *line.split()])
    assert (arguments.named, arguments.line) == (named, "L")


def test_a_step_as_git_spells_it_is_told_as_kz_does(kz: Kz) -> None:
    assert (
        "unrecognized arguments: --continue\n  -> kz rebase continue\n"
        in kz("-C", SAMPLE, "rebase", "--continue").stderr
    )


def test_a_mistyped_verb_is_told_which_it_is_nearly(kz: Kz) -> None:
    said = kz("verfy").stderr
    assert said.startswith("kz: argument VERB: invalid choice: 'verfy'; did you mean verify?\n"), said
    assert "choose from" in kz("xyz").stderr


def test_a_mistyped_option_is_named_and_not_the_word_behind_it(kz: Kz) -> None:
    said = kz("rebase", "--on", "v1").stderr
    assert said.startswith("kz: kz rebase: unrecognized arguments: --on; did you mean --onto?\n"), said
    assert "unrecognized arguments: --soc\n" in kz("fetch", "--soc", "x").stderr
    said = kz("verify", "--tagz=v1").stderr
    assert "unrecognized arguments: --tagz=v1; did you mean --tags?\n" in said, said


def test_a_revision_without_its_option_is_told_which_it_is(kz: Kz) -> None:
    assert "unrecognized arguments: v2\n  -> kz verify --onto v2\n" in kz("verify", "v2").stderr


@pytest.mark.parametrize("verb", ["build", "all", "reproduce"])
def test_a_mistyped_soc_is_named_before_anything_is_asked_of_the_network(kz: Kz, tmp_path: Path, verb: str) -> None:
    done = kz(verb, "--soc", "SM875O", KZ_CACHE=str(tmp_path), https_proxy="http://127.0.0.1:1")
    assert done.returncode == 2 and "SM875O" in done.stderr, done.stderr


def test_help_may_be_asked_for_as_of_git(kz: Kz) -> None:
    assert kz("help").stdout == kz("--help").stdout
    assert kz("help", "verify").stdout == kz("verify", "--help").stdout


def test_a_folder_of_a_project_is_in_that_project(sample: Path, kz: Kz, tmp_path: Path) -> None:
    inside = sample / "patches"
    assert kz("lock", cwd=inside).stdout == kz("-C", sample, "lock").stdout
    gone = tmp_path / "gone"
    done = kz("-C", gone, "status", cwd=inside)
    assert done.returncode == 2 and f"kz: there is no folder {gone}\n" in done.stderr, done.stderr
    (tmp_path / "new").mkdir()
    assert kz("init", str(sample / "none"), cwd=inside).stderr == kz("-C", inside, "init", str(sample / "none")).stderr


def test_a_project_of_another_user_is_only_named(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sample / "deep").mkdir()
    monkeypatch.chdir(sample / "deep")
    monkeypatch.setattr("os.geteuid", lambda: sample.stat().st_uid + 1)
    assert cli.run(["status"]) == 2
    assert "-> a project above it is another user's: `kz -C .. …`" in capsys.readouterr().err


def test_a_folder_that_is_gone_under_the_shell_is_no_bug(kz: Kz, tmp_path: Path) -> None:
    """The worktree of a rebase is deleted when it ends, and people type the next command where they are."""
    (tmp_path / "tree").mkdir()
    command = f"cd {tmp_path}/tree && rmdir ../tree && exec {sys.executable} -m kz_build status"
    done = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "kz: the folder that your shell is in was deleted\n" in done.stderr, done.stderr


def test_an_interrupt_is_told_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal has written ^C by then, and would break a full line two characters too early."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def interrupted(_: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kz_build.cli.commands.schema.run", interrupted)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert cli._run(["schema", "pins"]) == 130
    assert terminal.getvalue().startswith("\nkz: interrupted; nothing"), terminal.getvalue()


def test_two_dashes_end_the_options() -> None:
    assert parser().parse_args(["diagnose", "--json", "--", "-x.log"]).log == "-x.log"


def test_the_reason_stands_last_in_a_log_of_both_streams(tmp_path: Path) -> None:
    """A pipe's buffer is written at the end, and then `kz: exit N` would stand above the table that it is about."""
    command = [sys.executable, "-m", "kz_build", "-C", str(SAMPLE), "verify", "--onto", "v0.3.0"]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KZ_CACHE": str(tmp_path),
        "PYTHONUNBUFFERED": "",
    }  # many images set it
    log = subprocess.run(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    rows = log.stdout.splitlines()
    assert log.returncode == 4 and rows[-1] == "kz: exit 4 (conflict)", log.stdout
    assert next(n for n, row in enumerate(rows) if "upstreamed" in row) < rows.index(
        "kz: 3 patches do not hold on v0.3.0"
    )


def test_an_interrupt_while_a_class_is_made_is_an_interrupt() -> None:
    """Python 3.11 raises RuntimeError from it, which was reported as a bug of kz."""

    class Interrupted:
        def __set_name__(self, *_: object) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt), stoppable():
        type("Made", (), {"member": Interrupted()})
