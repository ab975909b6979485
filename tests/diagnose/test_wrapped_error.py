"""An error is known inside other words: behind a logger's, in quotes, without the name of its exception."""

from __future__ import annotations

import pytest

from kz_build.diagnose.diagnose import shipped
from kz_build.diagnose.log_line import prefix
from kz_build.diagnose.scanner import Scanner

SIGNATURES = shipped()


def certain(log: str) -> list[str]:
    scanner = Scanner(SIGNATURES)
    scanner.feed(f"{log}\n".encode())
    return [one.id for one in scanner.found() if not one.possible]


@pytest.mark.parametrize(
    "frame",
    [
        "2026-05-01T10:00:00.1234567Z {}",
        "build\tRun tests\t2026-05-01T10:00:00.1234567Z {}",
        "10:00:00 {}",
        "[10:00:00] {}",
        "web_1  | {}",
        "#12 34.56 {}",
        "34.56 {}",
        "I/flutter ( 1234): {}",
        "ERROR:root:{}",
        "2026-05-01 10:00:00,123 - app - ERROR - {}",
        "ERROR  {}",
        "[ ERROR ]  {}",
        "Error executing job: {}",
        "(worker pid=123) {}",
    ],
)
@pytest.mark.parametrize(
    ("error", "id"),
    [
        ("ModuleNotFoundError: No module named 'frob'", "module-missing"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda-kernel"),
    ],
)
def test_an_error_is_known_behind_what_loggers_and_services_write_before_it(frame: str, error: str, id: str) -> None:
    assert certain(frame.format(error)) == [id]


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: ignored ModuleNotFoundError: No module named 'frob'",
        "11-21 08:00:02.124  1234  5678 W App: java.lang.IllegalStateException: RecyclerView has no LayoutManager",
        'AssertionError: expected "connection refused" but got "ok"',
        "E       AssertionError: assert 'Permission denied' in ''",
        'Error: expected error "out of memory" but none was thrown',
        "INFO: will retry after OSError: frob has no module named 'nicate'",
    ],
)
def test_a_warning_or_an_assertion_that_quotes_an_error_is_no_cause(line: str) -> None:
    assert certain(line) == []


@pytest.mark.parametrize(
    ("words", "id"),
    [
        ("No module named 'frob'", "module-missing"),
        ("cannot import name 'frob' from 'executorch.exir' (/x/y.py)", "import-name"),
        ("module 'frob' has no attribute 'nicate'", "python-module-attribute"),
        ("__init__() got an unexpected keyword argument 'frob'", "python-argument"),
        ("forward() missing 1 required positional argument: 'mask'", "python-argument"),
        ("name 'frob' is not defined", "python-name"),
        ("local variable 'frob' referenced before assignment", "python-name"),
        ("index out of range in self", "tensor-index-range"),
        ("could not convert string to float: 'frob'", "python-number-text"),
    ],
)
@pytest.mark.parametrize("frame", ["{}", "An error occurred: {}", "Error converting /x/model.onnx: {}"])
def test_words_of_a_python_exception_are_known_without_its_name(words: str, id: str, frame: str) -> None:
    assert certain(frame.format(words)) == [id]


@pytest.mark.parametrize("mark", [">", "#"])
def test_a_log_whose_every_line_is_quoted_is_read_without_the_marks(mark: str) -> None:
    lines = ["* What went wrong:", "Execution failed for task ':app:frob'.", "", "> Java heap space"]
    assert (
        certain("\n".join(f"{mark} {line}".rstrip() for line in lines)) == certain("\n".join(lines)) == ["gradle-heap"]
    )


def test_colours_that_a_notebook_writes_as_text_are_taken_off() -> None:
    assert certain(r"\u001b[31mModuleNotFoundError\u001b[39m: No module named 'frob'") == ["module-missing"]


FRAMES = {
    "GitHub's log": "2026-05-01T10:00:00.1234567Z {}",
    "gh run view": "build\tRun tests\t2026-05-01T10:00:00.1234567Z {}",
    "docker compose": "web_1  | {}",
    "BuildKit": "#12 34.56 {}",
    "flutter": "I/flutter ( 1234): {}",
    "a clock": "[10:00:00] {}",
}
"""What services and tools write before each line of a log."""
UNFRAMED = {"gradle-heap", "uv-build-isolated", "apk-conflict", "torchao-abort", "expo-header-missing", "opam-conflict"}
"""Signatures whose lines are known by the white space or the marks at their beginning."""


@pytest.mark.parametrize("frame", FRAMES)
def test_what_a_signature_has_seen_is_known_behind_a_frame_too(frame: str) -> None:
    """One signature in sixty for each frame, others for each: all of them take minutes."""
    turn = list(FRAMES).index(frame)
    claimed = (one for one in SIGNATURES if not (one.harmless or one.possible or one.consequence))
    for number, one in enumerate(one for one in claimed if one.seen and one.id not in UNFRAMED):
        line = one.seen[0].line
        plain = "\n" not in line and not prefix(line).level
        if number % 60 == turn and plain and one.id in certain(line):
            assert one.id in certain(FRAMES[frame].format(line)), line
