"""Every signature: the line that it was seen as triggers it, the line that looks alike does not; and what a scanner makes of logs."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.diagnose.diagnose import FOLDER, extra, files, read, shipped
from kz_build.diagnose.scanner import LIMIT, Scanner
from kz_build.diagnose.sentence import Sentence
from kz_build.diagnose.signature import PLACE, Diagnosis, Finding, Seen, Signature
from kz_build.diagnose.text import text

SIGNATURES = shipped()
FILES = files()
NOISE = "11-21 08:00:00.123  1234  5678 I QnnDsp  : <I> graph finalized, error 0, 137 of 5010 tensors\n"


def found(*lines: str | bytes) -> tuple[Finding, ...]:
    scanner = Scanner(SIGNATURES)
    scanner.feed(b"".join(line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines))
    return scanner.found()


def triggers(one: Signature, line: str) -> bool:
    """Whether a signature takes a line where no other can: cheap, and where it does not, it does not among all either."""
    scanner = Scanner((one,))
    scanner.feed(f"{line}\n".encode())
    return bool(scanner.found())


def ids(*lines: str | bytes) -> set[str]:
    return {one.id for one in found(*lines)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lines_as_they_were_seen_trigger_it_and_lines_that_look_alike_do_not(path: Path) -> None:
    valid = read(path)
    for one in (one for one in SIGNATURES if one.id in valid):
        for line in (seen.line for seen in one.seen):
            findings = found(line)
            mine = [finding for finding in findings if finding.id == one.id]
            causes = [each.id for each in findings if not (each.follows or each.harmless or each.possible)]
            assert "\n" in line or len(causes) <= 1, f"signatures that say the same of {line}"
            assert len(mine) == 1, (one.id, line)
            for said in (mine[0].title, mine[0].cause, *mine[0].reasons, mine[0].next):
                assert said == said.strip() and "  " not in said, f"{one.id}: a group that may be empty: {line}"
        line = one.seen[0].line
        coloured = f"\x1b[31m{line[:5]}\x1b[0m{line[5:]}\r"
        assert one.id in ids(NOISE.encode() * 3, coloured), f"{one.id}, in colour, with CRLF: {line}"
        assert [near for near in one.near if triggers(one, near) and one.id in ids(near)] == [], one.id


def test_ordinary_lines_trigger_nothing() -> None:
    assert not ids(NOISE, "Killing 1234:com.example/u0a1 (adj 905): empty", "exit code 0", "W linker: unused DT entry")
    assert not ids(
        "I tokenizers:regex.cpp:27] Registering override fallback regex",
        "I 00:00:00.069284 executorch:llm_runner_helper.cpp:72] Loaded TikToken tokenizer",
        "[program.cpp:135] InternalConsistency verification requested but not available",
        "I 00:00:00.003 executorch:method.cpp:90] Loading of method forward succeeded",
        "[WARNING] [Qnn ExecuTorch]: QnnDsp <W> Initializing HtpProvider",
        "Program finished with exit code 13, 134 files, 139 lines",
        "I/ActivityManager: Process com.example (pid 4242) has died: fg TOP, signal 15",
        "W GnssHAL: Load failed: 3 of 12 almanacs",
        "E SQLiteLog: (1) error code: 18 in statement",
    )


def test_ordinary_builds_and_app_starts_trigger_nothing() -> None:
    assert not ids(
        "-- Performing Test COMPILER_HAS_BF16 - Failed",
        "[ 12%] Building CXX object third-party/flatbuffers/CMakeFiles/flatc.dir/src/idl_parser.cpp.o",
        "clang++ -march=armv8.2-a+bf16 -Werror -o libextension_module.so -lextension_tensor",
        "ld.lld: warning: cannot find entry symbol _start",
        "-- Configuring done (1.5s)",
        "> Task :app:checkDebugDuplicateClasses",
        "> Task :app:mergeDebugNativeLibs",
        "D nativeloader: Load /data/app/com.example/lib/arm64/libexecutorch.so using ns clns-7 from class loader: ok",
        "W example.app: Accessing hidden method Lorg/pytorch/executorch/Module;->x()V (unsupported, reflection, allowed)",
        'W linker  : library "libadreno_app_profiles.so" not found',
        "lib/arm64-v8a/libexecutorch.so: ALIGNED (2**14)",
        "I ExecuTorch: BackendDelegate::Init( XnnpackBackend ) took 31 ms",
    )


def test_addresses_are_public_and_each_signature_says_what_to_do() -> None:
    for one in SIGNATURES:
        assert all(re.match(r"https://(github\.com|docs\.|pytorch\.org)", seen.at) for seen in one.seen if seen.at), (
            one.id
        )
        assert not any(re.search(r"/blob/(main|master|develop\w*|trunk)/", seen.at or "") for seen in one.seen), (
            f"{one.id}: the text at a branch changes; name a tag or a commit"
        )
        for said in one.texts:
            known = {*re.compile(one.match).groupindex, *(Sentence._fields if one.sentence else ())}
            assert {name for name, _ in PLACE.findall(said)} <= known, one.id
        assert {*one.explains} <= {other.id for other in SIGNATURES} - {one.id}


def test_what_follows_comes_after_its_cause() -> None:
    lines = ["E Transport layer setup failed: 14001", 'W dlopen failed: library "libcdsprpc.so" not found: needed by x']
    first, second = found(*lines)
    assert (first.id, first.line, first.follows) == ("libcdsprpc", 2, "")
    assert (second.id, second.line, second.follows) == ("qnn-transport", 1, "libcdsprpc")


HARMLESS = Signature(
    "noise",
    "it tries again",
    ("cannot open",),
    "c",
    "n",
    (Seen("E cannot open x", "https://example.org"),),
    ("x",),
    harmless=True,
)


def test_what_is_harmless_comes_last_and_never_as_the_cause() -> None:
    scanner = Scanner((HARMLESS, *SIGNATURES))
    scanner.feed(b"E cannot open x\nBackend XnnpackBackend is not registered.\n")
    diagnosis = Diagnosis("log", 2, 1, scanner.found())
    assert [one.id for one in diagnosis.found] == ["backend-missing", "noise"]
    assert [one.id for one in diagnosis.causes] == ["backend-missing"]
    shown = text(diagnosis)
    assert shown.startswith("1 recognised in 2 lines\n\n1. no backend XnnpackBackend is registered")
    assert "\n\nharmless: it tries again  [noise]\n   line 1: E cannot open x\n" in shown


def test_a_log_with_harmless_lines_alone_has_nothing_recognised() -> None:
    scanner = Scanner((HARMLESS,))
    scanner.feed(b"E cannot open x\n")
    shown = text(Diagnosis("log", 1, 1, scanner.found()))
    assert shown.startswith("nothing recognised in 1 line ") and "\nharmless: it tries again" in shown


def test_a_line_with_a_cause_is_not_harmless() -> None:
    scanner = Scanner((HARMLESS, *SIGNATURES))
    scanner.feed(b"cannot open: Backend XnnpackBackend is not registered.\n")
    assert [one.id for one in scanner.found()] == ["backend-missing"]


def test_a_consequence_follows_from_the_cause_before_it() -> None:
    crash = "F libc    : Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 1, pid 1 (a)"
    code = "java.lang.Exception: Execution of method forward failed with status 0x20"
    cause = "Backend XnnpackBackend is not registered."
    assert [(one.id, one.follows) for one in found(cause, code, crash)] == [
        ("backend-missing", ""),
        ("code-not-found", "backend-missing"),
        ("crash", "backend-missing"),
    ]
    assert [(one.id, one.follows) for one in found(code, crash)] == [
        ("code-not-found", ""),
        ("crash", "code-not-found"),
    ]
    assert [(one.id, one.follows) for one in found(crash, cause)] == [("backend-missing", ""), ("crash", "")], (
        "a later one is no cause of it, but goes before"
    )


def test_a_line_with_a_cause_is_no_consequence() -> None:
    (one,) = found(
        "Model load failure: [Executorch Error 0x12] Invalid argument: Invalid model type category: 4. Valid values are: 1"
    )
    assert one.id == "model-type"


def test_groups_of_the_line_stand_in_cause_and_next() -> None:
    one = found("E 00:00:00.071665 executorch:program.cpp:67] No method named 'kv_forward' in program")[0]
    assert one.title == "the .pte has no method kv_forward"
    assert "{" not in one.title + one.cause + one.next


def test_lines_are_numbered_and_counted_over_blocks() -> None:
    scanner = Scanner(SIGNATURES)
    line = b"Backend XnnpackBackend is not registered.\n"
    scanner.feed(NOISE.encode() * 10 + line)
    scanner.feed(line + NOISE.encode())
    (one,) = scanner.found()
    assert (one.line, one.times, one.more, scanner.lines) == (11, 2, False, 13)


def test_counting_stops_where_it_says_nothing_more() -> None:
    (one,) = found(b"Backend XnnpackBackend is not registered.\n" * (LIMIT + 7))
    assert (one.times, one.more) == (LIMIT, True)


def test_a_progress_bar_rewrites_its_line() -> None:
    (one,) = found(b"10%|#  |\r20%|## |\rKilled\n")
    assert (one.id, one.text) == ("killed", "Killed")


def test_scanners_of_parts_add_up_to_the_scanner_of_all() -> None:
    lines = [NOISE.encode()] * 50 + [f"{s.seen[0].line}\n".encode() for s in SIGNATURES[::4]]
    random.Random(3).shuffle(lines)
    whole, first, second = Scanner(SIGNATURES), Scanner(SIGNATURES), Scanner(SIGNATURES)
    whole.feed(b"".join(lines))
    first.feed(b"".join(lines[:40]))
    second.feed(b"".join(lines[40:]))
    first.add(second)
    assert first.found() == whole.found()
    assert first.lines == whole.lines


BAD = """\
one:
  title: "wants {name}"
  find: [text, longer text]
  match: 'longer (text'
  cause: c
  nxt: n
  seen: [{line: longer text, at: ftp://x}]
  near: []
"""


def test_a_wrong_file_is_told_all_at_once_with_lines(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(BAD)
    with pytest.raises(ConfigError) as error:
        read(tmp_path / "own.yaml")
    said = "\n".join(map(str, error.value.problems))
    assert "own.yaml:6: one.nxt: unknown key; did you mean next?" in said
    for line, key in ((3, "one.find.0"), (1, "one.next"), (7, "one.seen.0.at"), (8, "one.near")):
        assert re.search(rf"own\.yaml:{line}: {re.escape(key)}: ", said), (key, said)


def test_a_harmless_line_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "one:\n  title: t\n  find: [a text]\n  cause: c\n  next: n\n  harmless: true\n  explains: [killed]\n"
        "  seen: [{line: a text, at: https://x.y}]\n  near: [text]\n"
    )
    with pytest.raises(ConfigError) as error:
        read(tmp_path / "own.yaml")
    assert [p.text for p in error.value.problems] == ["one.explains: a harmless line is never the cause of another"]


def test_examples_that_do_not_do_what_they_are_there_for_are_errors(tmp_path: Path) -> None:
    text = (
        BAD.replace("nxt", "next")
        .replace("[text, ", "[")
        .replace("(text", "(?P<x>text)!")
        .replace("ftp://x", "https://x.y")
    )
    (tmp_path / "own.yaml").write_text(text.replace("near: []", 'near: ["longer text!"]'))
    with pytest.raises(ConfigError) as error:
        read(tmp_path / "own.yaml")
    assert [p.text for p in error.value.problems] == [
        "one.title: {name} is not a group of `match`",
        "one.seen.0: does not trigger it",
        "one.near.0: triggers it",
    ]


def test_an_id_that_is_taken_is_an_error_with_both_files(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    entry = '{title: t, find: ["frob failed"], cause: c, next: n, seen: [{line: frob failed, at: "https://example.org"}], near: [x]}\n'
    own.write_text(f"frob: {entry}")
    assert [one.id for one in extra([str(own)])] == ["frob"]
    own.write_text(f"spec-violation: {entry}")
    with pytest.raises(ConfigError) as error:
        extra([str(own)])
    assert str(own) in str(error.value) and str(FOLDER / "executorch/export_options.yaml") in str(error.value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_expression_takes_long_on_lines_of_repeated_parts(path: Path) -> None:
    valid = read(path)
    parts = ("a", "a.", "/a", "a: ", "(a ", "error: ", "a\n")
    for one in (one for one in SIGNATURES if one.match and one.id in valid):
        search = re.compile(one.match, re.MULTILINE).match if one.family else re.compile(one.match).search
        start = time.process_time()
        for line in (head + part * (1000 // len(part)) for part in parts for head in ("", "error: ")):
            search(line)
        assert time.process_time() - start < 2, one.id
