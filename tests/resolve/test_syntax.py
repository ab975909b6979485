"""Whether results parse: what counts as a fault in each language, and any content."""

from __future__ import annotations

import time

import pytest

from kz_build.resolve.candidate import made_candidates
from kz_build.resolve.syntax import allowed, faults

GUARD = "#ifdef USE_NPU\nvoid load(int kind) {\n  prepare(kind);\n  start(kind);\n}\n#endif\n"


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("load.cpp", GUARD, GUARD.replace("#endif\n", "")),
        ("load.h", 'char close = \'}\'; /* { */ const char *s = "\\"{"; // {\n', "int table[] = {1, 2;\n"),
        ("load.hh", "#if NPU\nint kind;\n#endif\n", "#if NPU\n\n  /* none */\n# endif\n"),
        ("Load.java", "class Load { int[] sizes = {1}; }\n", "class Load { int[] sizes = {1; }\n"),
        ("CMakeLists.txt", 'set(SOURCES "a(b" c.cpp) # (\n', "set(SOURCES a.cpp\n"),
        ("a.cmake", 'set(A \\( -D\\"x)\nset(B y)\n', 'set(A \\( -D\\"x)\nset(B y\n'),
        ("load.py", "def load():\n    return {}\n", "def load():\nreturn {}\n"),
    ],
)
def test_a_result_has_no_fault_that_its_sources_have_not(path: str, good: str, bad: str) -> None:
    whole, broken = good.encode(), bad.encode()
    assert faults(path, broken) not in allowed(path, whole, whole, whole)
    assert faults(path, whole) in allowed(path, broken, broken, broken)
    assert {faults(path, broken), faults(path, whole)} <= allowed(path, whole, broken, whole)


def test_half_of_a_pair_of_brackets_is_no_candidate() -> None:
    theirs = GUARD.replace("  prepare", "  if (kind) {\n  prepare").replace("  start(kind);\n", "  start(kind);\n  }\n")
    ours = GUARD.replace("  start(kind);\n}\n", "  run_until_done(kind);\n  stop_after(kind);\n};\n").replace(
        "#endif", "#else"
    )
    for path in ("load.c", "notes"):
        sides = ({path: text.encode()} for text in (GUARD + "\n" * 9, ours, theirs + "\n" * 9))
        results = [one.candidate.files[path] or b"" for one in made_candidates(*sides) if one.candidate.files]
        assert all(data.count(b"{") == data.count(b"}") for data in results) == (path == "load.c"), results


@pytest.mark.parametrize("name", ["a.c", "a.py", "a.cmake"])
@pytest.mark.parametrize("text", ["/*", '"', "(", "'\\", "#if\n", "-", "/* *", " \t#", "a.", "\0"])
def test_hostile_content_takes_bounded_time(name: str, text: str) -> None:
    start = time.process_time()
    faults(name, text.encode() * 200_000)
    faults(name, text.encode() * 50_000)
    assert time.process_time() - start < 2
