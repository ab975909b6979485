"""Logs in which nothing is recognised: the lines that look like the error, and what to search for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kz_build.diagnose.diagnose import diagnose, shipped
from kz_build.diagnose.error_lines import LIMIT, MOST, ErrorLines, search_words
from kz_build.diagnose.error_words import rank
from kz_build.diagnose.line_forms import FormSearch
from kz_build.diagnose.log_line import bare, prefix
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.signature import Diagnosis, ErrorLine
from kz_build.diagnose.text import short
from kz_build.diagnose.text_search import TextSearch

SINGLE = tuple(one for one in shipped() if not (one.family or one.sentence))


def error_lines(log: str) -> tuple[ErrorLine, ...]:
    scanner = Scanner(SINGLE)
    scanner.feed(log.encode())
    return scanner.error_lines()


PYTHON = """\
Collecting something==1.0
Traceback (most recent call last):
  File "/home/me/export.py", line 12, in <module>
    raise Unsupported(f"Error: {what} cannot be traced")
torch._dynamo.exc.Unsupported: Frobnicated branching in /home/me/model.py:71
subprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit status 3.
"""
LOGCAT = """\
11-21 08:00:00.123  1234  5678 D nativeloader: Load ok, error 0
11-21 08:00:01.000  1234  5678 E libc    : Access refused finding property "ro.vendor.x"
11-21 08:00:02.123  1234  5678 E AndroidRuntime: FATAL EXCEPTION: main
11-21 08:00:02.124  1234  5678 E AndroidRuntime: java.lang.IllegalStateException: Widget 0x7f12 has no frobnicator
11-21 08:00:02.124  1234  5678 E AndroidRuntime: \tat com.example.Main.run(Main.java:12)
"""
NINJA = """\
[1/9] Building CXX object x.cpp.o
FAILED: x.cpp.o
/src/a/x.cpp:12:3: error: no matching function for call to 'frobnicate'
ninja: build stopped: subcommand failed.
gmake[2]: *** [x.dir/build.make:110: libx.so] Error 1
"""
CMAKE = """\
-- The C compiler identification is Clang 18.0.3
CMake Error at tools/cmake/Frob.cmake:7 (message):

  The frobnicator of this tree is too old.

-- Configuring incomplete, errors occurred!
"""
GRADLE = """\
> Task :app:mergeDebugResources
* What went wrong:
Execution failed for task ':app:checkDebugAarMetadata'.
> A failure occurred while executing com.android.build.CheckAar
   > Dependency 'androidx.frob:1.2' requires compileSdk 99.

* Try:
"""
GRADLE_BLANKS = """\
FAILURE: Build failed with an exception.

* What went wrong:

A problem occurred configuring project ':frob'.

> com.android.builder.Frob: the frobnicator has no handle

* Try:
"""
NOTEBOOK = """\
---------------------------------------------------------------------------
Exception                                 Traceback (most recent call last)
Cell In[88], line 1
----> 1 tokenizer = Tokenizer.from_file("frobnicate.json in this folder")

Exception: data did not frobnicate
"""
DOTTED = """\
  File "/home/me/x.py", line 3, in f
    raise self._frob()
torch.fx.experimental.frob.GuardOnFrob: Could not frobnicate (u0)
"""
MACOS = """\
ld: frobnicator not found for architecture frob64
c++: error: linker command failed with exit code 1 (use -v to see invocation)
"""
RUNNER = """\
I 00:00:00.000271 executorch:cpuinfo_utils.cpp:62] Reading file /sys/devices/soc0/image_version
E 00:00:00.071665 executorch:frob.cpp:67] The frobnicator is missing at index 3
Aborted
"""


@pytest.mark.parametrize(
    ("log", "line", "search"),
    [
        (PYTHON, 5, '"torch._dynamo.exc.Unsupported: Frobnicated branching in"'),
        (LOGCAT, 4, '"java.lang.IllegalStateException: Widget" "has no frobnicator"'),
        (NINJA, 3, '"error: no matching function for call to" "frobnicate"'),
        (CMAKE, 4, '"The frobnicator of this tree is too old"'),
        (GRADLE, 5, '"androidx.frob" "requires compileSdk"'),
        (RUNNER, 2, '"executorch:frob.cpp" "The frobnicator is missing at index"'),
        (GRADLE_BLANKS, 7, '"com.android.builder.Frob: the frobnicator has no handle"'),
        (NOTEBOOK, 6, '"Exception: data did not frobnicate"'),
        (DOTTED, 3, '"torch.fx.experimental.frob.GuardOnFrob: Could not frobnicate"'),
        (MACOS, 1, '"ld: frobnicator not found for architecture frob64"'),
    ],
    ids=["python", "logcat", "ninja", "cmake", "gradle", "runner", "gradle-blanks", "notebook", "dotted", "macos"],
)
def test_the_likeliest_line_comes_first_with_the_words_to_search_for(log: str, line: int, search: str) -> None:
    first = error_lines(log)[0]
    assert (first.line, first.search) == (line, search)
    assert first.text == log.splitlines()[line - 1].strip()


def test_the_exception_of_a_nested_class_is_the_error_of_an_app() -> None:
    log = "".join(
        f"11-21 08:00:02.123  1234  5678 E AndroidRuntime: {line}\n"
        for line in (
            "FATAL EXCEPTION: main",
            "Process: com.example, PID: 1234",
            "com.example.Base$FrobError: no handle",
        )
    )
    assert error_lines(log)[0].line == 3


def test_they_are_few_each_text_once_and_what_only_follows_comes_last() -> None:
    assert [one.line for one in error_lines(PYTHON)] == [5, 6]
    assert [one.line for one in error_lines(NINJA)][-1] == 5, "make says only that something failed"
    assert [one.line for one in error_lines(RUNNER)] == [2], "the last line is known as a consequence"
    many = "".join(f"KeyError: 'name{'x' * n}' of {n}\n" for n in range(99))
    assert len(error_lines(many)) == MOST
    assert len(error_lines("KeyError: 'a'\n" * 99)) == 1


def test_a_crash_or_a_code_alone_does_not_hide_them() -> None:
    code = "java.lang.Exception: Execution of method forward failed with status 0x1\n"
    assert [one.line for one in error_lines(RUNNER + code)] == [2]
    scanner = Scanner(SINGLE)
    scanner.feed((RUNNER + code).encode())
    shown = short(Diagnosis("log", 4, 1, scanner.found(), scanner.error_lines()))
    assert "[shell-crash]" in shown and "the lines that look most like the error:\n  line 2: E 00:" in shown
    assert not error_lines(RUNNER + "Backend XnnpackBackend is not registered.\n"), "the cause is known"


ORDINARY = [
    "11-21 08:00:00.123  1234  5678 W adbd    : network.cpp:149 failed to connect to '127.0.0.1': Connection refused",
    "11-21 08:00:00.123  1234  5678 I QnnDsp  : <I> graph finalized, error 0, 137 of 5010 tensors",
    "D/Error   ( 123): Error: none",
    "[WARNING] [Qnn ExecuTorch]: QnnDsp <W> Error code 0",
    "-- Performing Test HAVE_STD_REGEX -- failed to compile",
    "-- Looking for strerror_r - found",
    "[ 12%] Building CXX object CMakeFiles/x.dir/error.cpp.o",
    "clang++ -Werror=format-security -c exception.cpp -o exception.o",
    "x.cpp:12:3: warning: unused variable 'error' [-Wunused-variable]",
    "12 passed, 0 failed, 0 errors",
    "0 errors, 3 warnings",
    "Process finished with exit code 0",
    "UserWarning: Error: is deprecated",
    "    except ValueError:",
    "    raise KeyError(f'Error: {name}')",
    "INFO:root:no error",
]


def test_ordinary_lines_are_none() -> None:
    assert not error_lines("\n".join(ORDINARY) + "\n")


def test_where_something_is_recognised_there_are_none(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"KeyError: 'a'\n{LOGCAT}Backend XnnpackBackend is not registered.\n")
    result = diagnose(str(log))
    assert result.causes and not result.not_recognised


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Failed to map 0x7f00aa of /data/app/x.pte at 12:31:07 in 31 ms", '"Failed to map"'),
        (
            "executorch:program.cpp:67] No method named 'kv_forward' in program",
            '"executorch:program.cpp" "No method named"',
        ),
        ("E       AssertionError: 3f2a9c7711ee is not 'what'", '"AssertionError" "is not"'),
        ("we don't know me@example.org's file", '"we don\'t know" "file"'),
    ],
)
def test_what_differs_between_machines_is_no_search_word(message: str, words: str) -> None:
    assert search_words(message) == words


def test_a_log_full_of_errors_is_read_on_for_what_is_worse() -> None:
    scanner = Scanner(shipped())
    for _ in range(3 * LIMIT // 1000):  # blocks as large as a log is read in
        scanner.feed(b"11-21 08:00:00.123  1 2 E Frob    : nothing to frob\n" * 1000)
    scanner.feed(b"KeyError: 'late'\n")
    assert [one.line for one in scanner.error_lines()] == [3 * LIMIT + 1, 1]


def test_parts_add_up() -> None:
    lines = f"{LOGCAT}{PYTHON}{NINJA}".splitlines(keepends=True)
    whole, first, second = Scanner(shipped()), Scanner(shipped()), Scanner(shipped())
    whole.feed("".join(lines).encode())
    first.feed("".join(lines[:6]).encode())
    second.feed("".join(lines[6:]).encode())
    first.add(second)
    assert [one.text for one in first.error_lines()] == [one.text for one in whole.error_lines()]


def test_one_search_finds_what_many_find() -> None:
    random.seed(5)
    texts = sorted({"".join(random.choices('abK"xE ', k=random.randint(2, 5))).encode() for _ in range(60)})
    search = TextSearch(texts)
    for _ in range(50):
        block = "".join(random.choices('abK"xE \n', k=400)).encode()
        lines = block.split(b"\n")
        found = {(text, block.count(b"\n", 0, at)) for text, at in search.hits(block)}
        assert found == {(text, n) for n, line in enumerate(lines) for text in texts if text in line}


def test_lines_that_repeat_with_other_numbers_are_found_as_if_each_was_searched() -> None:
    random.seed(6)
    texts = [b"code 13", b"code 137", b"v7", b"v79", b"xK", b"b 1", b"E 0x"]
    search = FormSearch()
    search.choose(texts)
    words = [b"code ", b"13", b"137", b"7", b"42", b"v", b"x", b"K", b"b ", b"E ", b"0x"]
    for _ in range(200):
        block = b"\n".join(b"".join(random.choices(words, k=random.randint(0, 5))) for _ in range(20)) + b"\n"
        found = [(text, block.count(b"\n", 0, at)) for text, at in search.hits(block)]
        lines = block.split(b"\n")
        assert sorted(found) == sorted((text, n) for n, line in enumerate(lines) for text in texts if text in line)
        assert all(block.startswith(text, at) for text, at in search.hits(block))


def test_a_number_that_tells_is_found_after_one_that_does_not() -> None:
    scanner = Scanner(shipped())
    scanner.feed(b"the job ended with exit code 100\n")
    scanner.feed(b"the job ended with exit code 137\n")
    assert [(one.id, one.line) for one in scanner.found()] == [("exit-137", 2)]


def test_a_line_that_cannot_be_among_the_best_costs_no_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def passage(_block: bytes, start: int) -> str:
        made.append(start)
        return ""

    monkeypatch.setattr("kz_build.diagnose.error_lines._passage", passage)
    lines = ErrorLines()
    for _ in range(50):
        lines.look_at(b"frob: error: handle is odd\nE/Frob: no handle\n")
    assert len(made) <= 4 and len(lines.best()) == 2


def test_a_line_of_a_board_without_a_system_is_read_as_any_other() -> None:
    line = "E [executorch:EthosUBackend.cpp:94 init()] Malformed vela_bin_stream found"
    assert prefix(line) == ("E", "", "executorch:EthosUBackend.cpp:94] Malformed vela_bin_stream found")
    assert rank(line) == 1


def test_the_time_that_buildkit_writes_before_the_lines_it_repeats_is_no_part_of_them() -> None:
    assert (
        bare("4.984       ModuleNotFoundError: No module named 'torch'")
        == "      ModuleNotFoundError: No module named 'torch'"
    )
    assert bare("3.14 is about pi") == "3.14 is about pi"


@pytest.mark.parametrize(
    "line",
    [
        r"C:\x\a.cpp(10): error C2065: 'M_FROB': undeclared identifier",
        "a.obj : error LNK2019: unresolved external symbol frob referenced in function main",
        "error[E0658]: use of unstable library feature 'frob'",
        "ninja: fatal: posix_spawn: Argument list too long",
        "Makefile:12: *** multiple target patterns.  Stop.",
        "make[2]: frobc: Command not found",
        "Android NDK: Module frob depends on undefined modules: knob",
        "Fatal Exception: java.lang.UnsatisfiedLinkError: Unable to load library 'frob':",
        "/usr/bin/ld: frob.o: plugin needed to handle lto object",
    ],
)
def test_lines_that_no_colon_after_error_marks_are_errors_too(line: str) -> None:
    errors = ErrorLines()
    errors.look_at(f"[1/9] Building\n{line}\n".encode())
    assert [(one.rank <= 1, one.line.line) for one in errors.best()] == [(True, 2)]
