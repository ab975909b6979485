"""The six kinds of intent checks, and that every shipped one can fail."""

from __future__ import annotations

import pytest

from kz_build.model.intent import Check, cmake_commands, evaluate

PY = 'VERSIONS = {"a": "one", "b": make("two")}\nOTHER: dict[str, str] = {"k": "v"}\n\n\nclass Model:\n    layers = 36\n    name: str = "x"\n'
CMAKE = """# if(NOT ANDROID) in a comment counts for nothing
if(NOT ANDROID AND "${CMAKE_SYSTEM_PROCESSOR}" MATCHES "x86_64")
  add_library(Py MODULE)
elseif(WIN32)
  add_library(Win MODULE)
else()
  add_library(Else MODULE)
endif()
add_library(free SHARED [[a ) in brackets]] "a ) in quotes")
"""
FILES = {
    "m.py": PY,
    "CMakeLists.txt": CMAKE,
    "broken.py": "def (",
    "broken.json": "{",
    "broken.yaml": "a: [",
    "ok.json": "{}",
    "ok.yaml": "a: 1",
}


def ask(kind: str, file: str, **fields: object) -> str:
    check = Check("slug", kind, file, tuple(fields.items()), "checks.yaml:1")
    return evaluate(check, FILES[check.file].encode() if check.file in FILES else None)


@pytest.mark.parametrize(
    ("kind", "file", "fields", "said"),
    [
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "a", "value": "one"}, ""),
        ("dict_key", "m.py", {"dict": "OTHER", "key": "k"}, ""),
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "a", "value": "two"}, "is 'one', not 'two'"),
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "z"}, "has no key 'z'"),
        ("dict_key", "m.py", {"dict": "GONE", "key": "z"}, "has no dict GONE"),
        ("dict_key", "broken.py", {"dict": "GONE", "key": "z"}, "does not parse"),
        ("class_once", "m.py", {"class": "Model", "attributes": {"layers": "36", "name": "x"}}, ""),
        ("class_once", "m.py", {"class": "Model", "attributes": {"layers": "35"}}, "is 36, not 35"),
        ("class_once", "m.py", {"class": "Gone"}, "0 times"),
        ("contains", "m.py", {"text": "layers"}, ""),
        ("contains", "m.py", {"text": "=", "count": 1}, "times, not 1"),
        ("contains", "m.py", {"text": "gone"}, "does not contain"),
        ("contains", "gone.py", {"text": "x"}, "not in the tree"),
        ("absent", "m.py", {"text": "gone"}, ""),
        ("absent", "m.py", {"text": "layers"}, "contains"),
        (
            "cmake_condition",
            "CMakeLists.txt",
            {"command": "add_library", "first": "Py", "condition": "NOT ANDROID"},
            "",
        ),
        (
            "cmake_condition",
            "CMakeLists.txt",
            {"command": "add_library", "first": "Else", "condition": "NOT ANDROID"},
            "does not stand under",
        ),
        ("cmake_condition", "CMakeLists.txt", {"command": "add_library", "first": "Win", "condition": "WIN32"}, ""),
        (
            "cmake_condition",
            "CMakeLists.txt",
            {"command": "add_library", "first": "free", "condition": "X"},
            "does not stand under",
        ),
        (
            "cmake_condition",
            "CMakeLists.txt",
            {"command": "add_library", "first": "gone", "condition": "X"},
            "has no add_library(gone",
        ),
        ("parses", "m.py", {}, ""),
        ("parses", "ok.json", {}, ""),
        ("parses", "ok.yaml", {}, ""),
        ("parses", "CMakeLists.txt", {}, ""),
        ("parses", "broken.py", {}, "does not parse"),
        ("parses", "broken.json", {}, "does not parse"),
        ("parses", "broken.yaml", {}, "does not parse"),
    ],
)
def test_each_kind_holds_and_fails(kind: str, file: str, fields: dict[str, object], said: str) -> None:
    answer = ask(kind, file, **fields)
    assert (answer == "") if said == "" else (said in answer), answer


@pytest.mark.parametrize("text", ["if(A)\n", "endif()\n", "add_library(x\n", "else()\n", "a b\n"])
def test_cmake_that_does_not_balance(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        cmake_commands(text)
