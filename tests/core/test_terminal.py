"""Progress on standard error: a line now and then in a log, one changing line on a terminal."""

from __future__ import annotations

import re
import sys

import pytest

from kz_build.core.escape import escaped_streams
from kz_build.core.progress import Event
from kz_build.core.terminal import Live

STATUSES = (("load", "export: load 0:01"), ("load", "export: load 0:02"), ("lower", "export: lower"))


def test_a_log_has_a_line_for_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with Live() as live:
        for phase, status in STATUSES:
            live.event(Event(phase, status=status))
    assert capsys.readouterr().err == "  export: load 0:01\n  export: lower\n"


def test_a_terminal_has_one_line_that_is_gone_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Live() as live:
        for phase, status in STATUSES:
            live.event(Event(phase, status=status))
    shown = ["", "  export: load 0:01", "  export: load 0:02", "  export: lower    ", " " * 15, ""]
    assert capsys.readouterr().err.split("\r") == shown


def test_in_a_log_a_download_ends_in_done_with_its_size_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live()
    for done in (1_000_000, 2_000_000, 3_500_000):
        live.event(Event("ndk.zip", done, 3_500_000, bytes=True))
    live.event(Event("small.whl", 40_000, 40_000, bytes=True))
    live.event(Event("compile", 1, 2))
    live.event(Event("compile", 2, 2))
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r"[0-9.]+ s$", "S s", line) for line in lines] == [
        "  ndk.zip 1.0 MB of 3.5 MB",
        "  ndk.zip done: 3.5 MB in S s",
        "  small.whl done: 40.0 kB in S s",
        "  compile 1/2",
    ]


def test_github_folds_each_stage_and_nobody_else_opens_or_ends_a_fold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with escaped_streams(in_workflow=True), pytest.raises(KeyboardInterrupt), Live() as live:
        live.head("fetch")
        live.note("their subject\n::endgroup::\n  ::group::theirs\n##[group]theirs")
        live.fold("build")
        raise KeyboardInterrupt
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.lstrip().startswith("::") or "##[" in line] == [
        "::group::fetch", "::endgroup::", "::group::build", "::endgroup::",
    ]  # fmt: skip
    assert lines[1:3] == ["== fetch", "their subject"] and lines[-1] == "::endgroup::"


def test_elsewhere_there_are_no_folds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with Live() as live:
        live.head("fetch")
        live.fold("build")
    assert capsys.readouterr().err == "== fetch\n"
