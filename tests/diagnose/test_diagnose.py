"""`kz diagnose` on real files: encodings, sizes, standard input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kz_build.diagnose import log_blocks
from kz_build.diagnose.log_blocks import LONGEST, blocks, parts
from tests.conftest import ROOT, Kz

LINE = "E [Qnn ExecuTorch]: Can't create context from binary. Error 5010."
NOISE = b"11-21 08:00:00.123  1234  5678 I ActivityManager: started process, nothing failed at all here\n"


def recognised(kz: Kz, log: Path) -> dict[str, int]:
    done = kz("diagnose", log, "--json")
    assert done.returncode == 0, done.stderr
    return {one["id"]: one["line"] for one in json.loads(done.stdout)["found"]}


@pytest.mark.parametrize(
    "data",
    [
        f"a\r\n{LINE}\r\n".encode(),
        f"a\n{LINE}".encode(),
        b"\xff\xfe\x80\n" + LINE.encode() + b" \xf0\x28\n",
        f"a\n{LINE}\n".encode("utf-16"),
        ("\ufeff" + f"a\n{LINE}\n").encode("utf-16-be"),
        b"\0\0\n" + LINE.encode() + b"\0\n",
        f"a\n\x1b[1;31mE\x1b[0m {LINE}\n".encode(),
    ],
    ids=["crlf", "no line end", "not utf-8", "utf-16", "utf-16-be", "nul", "colour"],
)
def test_however_it_was_written(kz: Kz, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log.txt").write_bytes(data)
    assert recognised(kz, tmp_path / "log.txt") == {"context-5010": 2}


def test_cause_evidence_and_next_step_for_people(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"one\n{LINE}\n{LINE}\n")
    out = kz("diagnose", tmp_path / "log").stdout
    assert out.startswith("1 recognised in 3 lines\n")
    assert f"line 2: {LINE}  (2 times)" in out
    assert "cause  5010 is QNN_CONTEXT_ERROR_INVALID_CONFIG" in out
    assert "next   " in out and "https://github.com/pytorch/executorch/" in out


def test_what_is_only_possible_is_shown_as_such(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\nRuntimeError: no tokenizer was found at /x\nfrob: error: handle 7 is odd\n")
    out = kz("diagnose", tmp_path / "log").stdout
    assert out.startswith("nothing recognised in 3 lines (")
    possible, lines = out.index("- something is not found: no tokenizer"), out.index("   line 3: frob: error")
    assert out.index("possible, but not sure") < possible < out.index("   maybe  ") < lines


def test_nothing_recognised_says_so_and_what_to_attach(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("all is well\n")
    done = kz("diagnose", tmp_path / "log")
    assert done.returncode == 0
    assert done.stdout.startswith("nothing recognised in 1 line (")
    assert "adb logcat -d" in done.stdout and "kz report --json" in done.stdout


def test_standard_input_and_signatures_of_ones_own(clean_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "ours:\n  title: our own {what}\n  find: [our app says]\n  match: 'our app says (?P<what>\\w+)'\n  cause: c\n"
        "  reasons: ['{what} was said before', it is late]\n  next: n\n  seen: [{line: our app says no, at: https://example.org}]\n  near: [our app says]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kz_build", "diagnose", "-", "--signatures", tmp_path / "own.yaml"],
        input=f"x\nour app says no\n{LINE}\n",
        cwd=tmp_path,  # it needs no project
        env=clean_env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "1. our own no  [ours]" in done.stdout and "[context-5010]" in done.stdout
    reasons = ["          - no was said before", "          - it is late"]
    shown = ["   cause  c", "   often  one of these, or a rarer reason:", *reasons, "   next   n"]
    assert "\n".join(shown) in done.stdout


def test_what_cannot_be_read_is_said(kz: Kz, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(LINE.encode()))
    packed = kz("diagnose", tmp_path / "log.gz")
    assert packed.returncode == 2 and f"gzip -dc {tmp_path / 'log.gz'} | kz diagnose -" in packed.stderr
    absent = kz("diagnose", tmp_path / "none")
    assert absent.returncode == 2 and "cannot be read: No such file" in absent.stderr


def test_a_line_without_end_keeps_memory_bounded(tmp_path: Path) -> None:
    data = b"x" * (3 * LONGEST) + LINE.encode() + b"y" * LONGEST
    (tmp_path / "log").write_bytes(data)
    pieces = list(blocks(str(tmp_path / "log")))
    assert max(map(len, pieces)) < 2 * LONGEST
    assert any(LINE.encode() in piece for piece in pieces), "no text is cut in two"


def test_a_large_log_in_parts_reads_as_one(kz: Kz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "PART", part_size := 4 << 20)  # as a log of gigabytes, in less time
    log = tmp_path / "log"
    mark = LINE.encode() + b"\n"
    with log.open("wb") as file:
        while file.tell() < 2 * part_size + 1000:
            file.write(NOISE * 2000 + mark)
    size, lines = log.stat().st_size, (log.stat().st_size // len(NOISE * 2000 + mark)) * 2001
    assert len(parts(str(log))) >= 2 or (os.cpu_count() or 1) < 2
    for start, end in parts(str(log)):
        assert b"".join(blocks(str(log), (start, end))).endswith(b"\n")
    assert sum(len(b) for part in parts(str(log)) for b in blocks(str(log), part)) == size
    done = json.loads(kz("diagnose", log, "--json").stdout)
    assert done["lines"] == lines
    assert [(one["id"], one["line"], one["times"]) for one in done["found"]] == [("context-5010", 2001, lines // 2001)]


def test_memory_does_not_grow_with_the_log(clean_env: dict[str, str], tmp_path: Path) -> None:
    # VmHWM, for ru_maxrss also counts what the process was before it became this program: pytest.
    code = (
        "import sys; from kz_build.diagnose.diagnose import diagnose; diagnose(sys.argv[1]);"
        "print(next(row.split()[1] for row in open('/proc/self/status') if row.startswith('VmHWM')))"
    )
    peaks = []
    for blocks_of in (1, 20):
        (tmp_path / "log").write_bytes(NOISE * 10000 * blocks_of)
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "log"],
            cwd=ROOT,
            env=clean_env,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 8192, peaks  # KB; the second log is 18 MB longer


def test_start_is_cheap(kz_process: Kz, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("x\n")
    assert kz_process("diagnose", tmp_path / "log").returncode == 0  # it compiles the signatures
    result = kz_process("diagnose", tmp_path / "log", PYTHONPROFILEIMPORTTIME="1")
    imported = {row.split("|")[-1].strip() for row in result.stderr.splitlines() if row.startswith("import time:")}
    assert "kz_build.diagnose.diagnose" in imported
    assert not imported & {"pydantic", "git", "docker", "requests", "rich", "adbutils"}
