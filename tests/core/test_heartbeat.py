"""No verb is silent on a terminal: the line that says what it waits for, and that nothing else is lost by it."""

from __future__ import annotations

import io
import re
import sys
import threading

import pytest

from kz_build.core import heartbeat, process
from kz_build.core.escape import escaped_streams, unescaped, without_heartbeat
from kz_build.core.heartbeat import Heartbeat
from tests.deadline import until

ERASED = "\r\x1b[K"


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Both streams of this process, as one terminal."""
    monkeypatch.setattr(heartbeat, "SILENT_SECONDS", 0.05)
    made = io.StringIO()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, made)
    return made


def test_a_silent_verb_says_what_runs_and_its_output_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with Heartbeat(shown, "verify") as beat, escaped_streams(heartbeat=beat):
        other = threading.Thread(target=process.run, args=(["sleep", "0.5"],))
        other.start()
        until(lambda: "kz verify: 0 s, sleep is running" in shown.getvalue())
        print("a row")
        print("another\x1b[2J", file=sys.stderr)
        other.join()
        print("\r1 of 2", file=unescaped(sys.stderr))
    rest = re.sub(r"\r\x1b\[K(  kz verify: \d+ s(, \w+ is running)?)?", "", shown.getvalue())
    assert rest == "a row\nanother\\u001b[2J\n\r1 of 2\n"
    assert len(re.findall("  kz", shown.getvalue())) * 2 <= shown.getvalue().count(ERASED), "each line is erased"


def test_while_a_person_is_asked_nothing_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal(monkeypatch)
    with Heartbeat(shown, "accept") as beat, escaped_streams(heartbeat=beat):
        with without_heartbeat():
            threading.Event().wait(0.3)
            assert shown.getvalue() == ""
        until(lambda: "kz accept" in shown.getvalue())
    assert shown.getvalue().endswith(ERASED)
