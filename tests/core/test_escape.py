"""Text of others on a terminal: what is escaped, and that nothing gets around it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import sys
import termios

import pytest

from kz_build.core.escape import escaped, escaped_streams, fitted, one_line, text_width, unescaped, wrapped

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


def test_what_goes_to_a_closed_standard_error_is_not_in_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kz verify --json 2>&- | jq`: Python's print takes None for standard output."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", None)
    with escaped_streams():
        print("progress", file=sys.stderr)
        print("{}")
    assert out.getvalue() == "{}\n"


ROWS = """\
127.0.0.1:20495 run 1 of 5: model load 0.204 s, first token 0.277 ms, prefill 3611.99 tok/s, decode 524288 tok/s, total 0.258 s
PASS  needed    7 in all; from the system: libc.so.6, libdl.so.2, libpthread.so.0, libm.so.6, ld-linux-aarch64.so.1
device    PASS        6.4  EMULATED out/device/sample-0.1/127.0.0.1_20495/manifest.json and more
  decode          330,156.17  524,288.00  525,338.68 tok/s
      -> sudo fallocate -l 34G /kz-swap && sudo chmod 600 /kz-swap && sudo mkswap /kz-swap && sudo swapon /kz-swap
 7 -> hf download Qwen/Qwen3-1.7B --revision 70d244cc86ccca08cf5af4e1e306ecf908b1ad5e --local-dir /weights
$ cmake -S /tmp/somewhere/with/a/long/name -B /tmp/elsewhere/with/a/long/name -G Ninja"""


def test_a_hint_that_is_a_sentence_ends_at_its_punctuation() -> None:
    hint = "  -> then kz rebase continue, or skip to drop the patch, or abort. The project has not changed"
    assert fitted(hint, 60).splitlines() == [
        "  -> then kz rebase continue, or skip to drop the patch,",
        "     or abort. The project has not changed",
    ]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_line_ends_inside_a_word_and_commands_stay_whole(columns: int) -> None:
    text = fitted(ROWS, columns)
    assert text.split() == ROWS.split()
    commands = ROWS.splitlines()[-3:]
    lines = text.splitlines()
    assert [line for line in lines if line in commands] == commands
    assert all(len(line) <= columns for line in lines if line not in commands)
    if columns == 80:
        assert lines[1].startswith("  ") and lines[3].startswith("                l")
    assert columns != 200 or text == ROWS


@pytest.mark.parametrize(("columns", "width"), [(60, 80), (100, 100), (200, 120)])
def test_text_is_as_wide_as_the_terminal(columns: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(theirs, "w") as terminal, open(ours, "rb", buffering=0):
        monkeypatch.setattr(sys, "stdout", terminal)
        assert max(map(len, wrapped("word " * 99).splitlines())) in range(width - 5, width + 1)
        monkeypatch.undo()
    assert text_width() == 80, "no terminal"
