"""Text of others on a terminal: what is escaped, and that nothing gets around it."""

from __future__ import annotations

import io
import json
import sys

import pytest

from kz_build.core.escape import escaped, escaped_streams, one_line, unescaped

RAW = [
    *map(chr, (*range(9), *range(11, 32), *range(127, 160))),
    "\u200e",
    "\u200f",
    "\u202a",
    "\u202e",
    "\u2066",
    "\u2069",
]
RAW += ["\u200b", "\u200d", "\u2028", "\u2029", "\ufeff", "\xad", "\u061c", "\u3164", "\U000e0041", "\udc80", "\ue000"]


def test_what_a_terminal_obeys_or_hides_is_escaped_as_json_writes_it() -> None:
    for character in RAW:
        shown = escaped(f"a{character}b")
        assert shown.isascii() and shown.isprintable() and json.loads(f'"{shown}"') == f"a{character}b"


@pytest.mark.parametrize(
    "text", ["plain\n\tindented", "Zoë, Łukasz, 山田太郎\u3000様, Ελλάδα, עברית", "a\xa0b", "🎉 ⚡️", "\\x1b"]
)
def test_what_a_person_reads_stays(text: str) -> None:
    assert escaped(text) == text


def test_a_name_stays_in_its_row() -> None:
    assert one_line("a\nkz: exit 0\t\x1b[2J") == "a\\nkz: exit 0\\t\\u001b[2J"


def test_everything_printed_is_escaped_but_what_kz_itself_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with escaped_streams():
        print("a\x1b[31m", "b\u202e", sep="\n")
        print("c\x9b", file=sys.stderr, flush=True)
        sys.stdout.writelines(["d\r", "e\n"])
        print("\r1 of 2", end="", file=unescaped(sys.stderr))
    assert out.getvalue() == "a\\u001b[31m\nb\\u202e\nd\\u000de\n"
    assert err.getvalue() == "c\\u009b\n\r1 of 2"
    assert sys.stdout is out and sys.stderr is err


def test_in_a_workflow_no_line_of_others_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with escaped_streams(in_workflow=True):
        print("::add-mask::a\n  ::error::b\na::b ::c ##[error]d")
        print("::notice::kz itself", file=unescaped(sys.stdout))
    assert out.getvalue() == "\\u003a:add-mask::a\n  \\u003a:error::b\na::b ::c \\u0023#[error]d\n::notice::kz itself\n"


def test_a_closed_stream_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with escaped_streams():
        print("nobody reads it")
