"""Progress on standard error: a line now and then in a log, one changing line on a terminal."""

from __future__ import annotations

import sys

import pytest

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
