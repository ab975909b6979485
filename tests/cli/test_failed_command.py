"""A command that fails and has a log: what the log shows stands beside the error."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build import cli
from kz_build.cli.commands import schema
from kz_build.core.command_log import Commands
from kz_build.core.env import plain


def failing(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, says: str = "") -> None:
    """Let `kz schema` run a shell script as kz runs a step of a build; it says something, then much else."""
    (folder / "says").write_text(f"{says}\n" + "[1/9] Building x.cpp.o\n" * 60)

    def run(arguments: object) -> None:
        Commands(folder).run("build", ["sh", "-c", script], cwd=folder, env=plain())

    monkeypatch.setattr(schema, "run", run)


def test_the_cause_and_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    failing(monkeypatch, tmp_path, "cat says; exit 1", "ld.lld: error: unable to find library -letdump")
    assert cli.run(["schema"]) == 5
    said = capsys.readouterr().err
    assert "the linker does not find libetdump  [link-component]" in said
    assert "line 2: ld.lld: error" in said and "cause: The link names libetdump, a part of ExecuTorch" in said
    assert said.index("-> Configure with its option") < said.index(f"-> the whole log: {tmp_path}")


def test_the_likeliest_lines_where_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    failing(monkeypatch, tmp_path, "cat says; exit 1", "tool: error: no frobnicator")
    assert cli.run(["schema"]) == 5
    assert (
        "no known problem; the lines that look most like the error:\n  line 2: tool: error" in capsys.readouterr().err
    )


def test_a_log_that_is_gone_or_says_nothing_hides_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for script in (f"rm {tmp_path}/*.log; exit 3", "exit 3"):
        failing(monkeypatch, tmp_path, script)
        assert cli.run(["schema"]) == 5
        assert capsys.readouterr().err.splitlines()[-1] == "kz: exit 5 (command)"
