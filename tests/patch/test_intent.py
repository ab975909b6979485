"""The six kinds of intent checks: what holds, and the words for what does not."""

from __future__ import annotations

import re
import time
import warnings

import pytest

from kz_build.patch.intent_checks import IntentCheck, cmake_commands, evaluate

PY = """VERSIONS = {"a": "one", "b": make("two")}
OTHER: dict[str, str] = {"k": "v"}
LATER = dict(VERSIONS, z=1)
FIRST = SECOND = {**OTHER, "s": 1}
LATE = None
LATE = {"l": 1}


class Model:
    layers = 36
    name: str = "x"
    heads = width = 8
    bare: int
    kind = torch.int8
    self.other = 1

    def make(self):
        try:
            INNER = {3: 4}
        finally:
            class Inner: pass


if OTHER:
    class Twice: pass
else:
    class Twice: pass
"""
CMAKE = """# if(NOT ANDROID) in a comment counts for nothing
if(NOT ANDROID AND "${CMAKE_SYSTEM_PROCESSOR}" MATCHES "x86_64")
  add_library(Py MODULE)
  if(B)
    Add_Library(Deep MODULE)
    add_library(twice)
  endif()
elseif(WIN32)
  add_library(Win MODULE)
else()
  add_library(Else MODULE)
endif()
add_library(free SHARED [[a ) in brackets]] "a ) in quotes")
add_library(twice)
"""
FILES = {
    "m.py": PY,
    "CMakeLists.txt": CMAKE,
    "broken.py": "def (",
    "broken.json": "{",
    "broken.yaml": "a: [",
    "broken.yml": "a: [",
    "broken.cmake": "a b",
    "latin1.py": "# \udcfc\nlayers = 36\n",
    "zero.py": "\0",
    "ok.json": "{}",
    "ok.yaml": "a: 1\n---\nb: 2\n",
    "escape.py": "a = '\\d'\n",
    "ok.yml": "a: {1: 2}",
}


def ask(kind: str, file: str, **fields: object) -> str:
    check = IntentCheck("slug", kind, file, tuple(fields.items()), "checks.yaml:1")
    return evaluate(check, FILES[check.file].encode("utf-8", "surrogateescape") if check.file in FILES else None)


@pytest.mark.parametrize(
    ("kind", "file", "fields"),
    [
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "a", "value": "one"}),
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "b", "value": "make('two')"}),
        ("dict_key", "m.py", {"dict": "OTHER", "key": "k"}),
        ("dict_key", "m.py", {"dict": "INNER", "key": 3, "value": 4}),
        ("dict_key", "m.py", {"dict": "SECOND", "key": "s"}),
        ("class_once", "m.py", {"class": "Model", "attributes": {"layers": "36", "name": "x"}}),
        ("class_once", "m.py", {"class": "Model", "attributes": {"heads": 8, "width": 8, "kind": "torch.int8"}}),
        ("class_once", "m.py", {"class": "Inner"}),
        ("contains", "m.py", {"text": "layers"}),
        ("contains", "m.py", {"text": "VERSIONS", "count": 2}),
        ("contains", "m.py", {"text": "gone", "count": 0}),
        ("absent", "m.py", {"text": "gone"}),
        ("dict_key", "m.py", {"dict": "LATE", "key": "l"}),
        ("contains", "latin1.py", {"text": "layers = 36"}),
        ("absent", "latin1.py", {"text": "heads"}),
        ("parses", "m.py", {}),
        ("parses", "ok.json", {}),
        ("parses", "ok.yaml", {}),
        ("parses", "ok.yml", {}),
        ("parses", "CMakeLists.txt", {}),
    ],
)
def test_each_kind_holds(kind: str, file: str, fields: dict[str, object]) -> None:
    assert ask(kind, file, **fields) == ""


@pytest.mark.parametrize(
    ("kind", "file", "fields", "said"),
    [
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "a", "value": "two"}, "VERSIONS['a'] is 'one', not 'two'"),
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "b", "value": "x"}, """VERSIONS['b'] is "make('two')", not 'x'"""),
        ("dict_key", "m.py", {"dict": "VERSIONS", "key": "z"}, "VERSIONS has no key 'z'"),
        ("dict_key", "m.py", {"dict": "GONE", "key": "z"}, "m.py has no dict GONE"),
        ("dict_key", "m.py", {"dict": "LATER", "key": "z"}, "m.py has no dict LATER"),
        ("dict_key", "m.py", {"dict": "Model", "key": "z"}, "m.py has no dict Model"),
        ("class_once", "m.py", {"class": "Model", "attributes": {"layers": "35"}}, "Model.layers is 36, not 35"),
        ("class_once", "m.py", {"class": "Model", "attributes": {"heads": 8, "width": 9}}, "Model.width is 8, not 9"),
        ("class_once", "m.py", {"class": "Model", "attributes": {"gone": "1"}}, "Model.gone is not set, not 1"),
        ("class_once", "m.py", {"class": "Model", "attributes": {"bare": "1"}}, "Model.bare is not set, not 1"),
        ("class_once", "m.py", {"class": "Gone"}, "m.py defines class Gone 0 times, not once"),
        ("class_once", "m.py", {"class": "Twice"}, "m.py defines class Twice 2 times, not once"),
        ("class_once", "m.py", {"class": "make"}, "m.py defines class make 0 times, not once"),
        ("contains", "m.py", {"text": "VERSIONS", "count": 1}, "m.py contains 'VERSIONS' 2 times, not 1"),
        ("contains", "m.py", {"text": "gone", "count": 1}, "m.py contains 'gone' 0 times, not 1"),
        ("contains", "m.py", {"text": "gone"}, "m.py does not contain 'gone'"),
        ("contains", "gone.py", {"text": "x"}, "gone.py is not in the tree"),
        ("absent", "m.py", {"text": "layers"}, "m.py contains 'layers'"),
        ("parses", "broken.cmake", {}, "broken.cmake does not parse: `(` expected after 'a'"),
    ],
)  # fmt: skip
def test_each_kind_says_what_it_found(kind: str, file: str, fields: dict[str, object], said: str) -> None:
    assert ask(kind, file, **fields) == said


@pytest.mark.parametrize(
    ("kind", "file", "fields", "why"),
    [
        ("parses", "broken.py", {}, "invalid syntax"),
        ("parses", "zero.py", {}, "null bytes"),
        ("parses", "broken.json", {}, "line 1 column 2"),
        ("dict_key", "broken.py", {"dict": "GONE", "key": "z"}, "line 1"),
    ],
)
def test_what_does_not_parse_is_said_with_the_parsers_reason(
    kind: str, file: str, fields: dict[str, object], why: str
) -> None:
    answer = ask(kind, file, **fields)
    assert answer.startswith(f"{file} does not parse: ") and why in answer


@pytest.mark.parametrize("file", ["broken.yaml", "broken.yml"])
def test_a_fault_in_yaml_is_one_line(file: str) -> None:
    answer = ask("parses", file)
    assert answer.startswith(f"{file} does not parse: while parsing a flow node expected the node content")
    assert "\n" not in answer and "line 1, column 5" in answer


@pytest.mark.parametrize(
    ("first", "condition", "said"),
    [
        ("Py", "NOT ANDROID", ""),
        ("Py", '"x86_64"', ""),
        ("Py", "ANDROID", ""),
        ("Deep", "NOT ANDROID", ""),
        ("Deep", "B", ""),
        ("Win", "WIN32", ""),
        ("Py", "WIN32", "ADD_library(Py \u2026) is not inside if(WIN32)"),
        ("Py", "AND ROID", "ADD_library(Py \u2026) is not inside if(AND ROID)"),
        ("Py", "OT ANDROID", "ADD_library(Py \u2026) is not inside if(OT ANDROID)"),
        ("Py", "NOT ANDROI", "ADD_library(Py \u2026) is not inside if(NOT ANDROI)"),
        ("Win", "NOT ANDROID", "ADD_library(Win \u2026) is not inside if(NOT ANDROID)"),
        ("Else", "NOT ANDROID", "ADD_library(Else \u2026) is not inside if(NOT ANDROID)"),
        ("Else", "WIN32", "ADD_library(Else \u2026) is not inside if(WIN32)"),
        ("free", "NOT ANDROID", "ADD_library(free \u2026) is not inside if(NOT ANDROID)"),
        ("twice", "B", "ADD_library(twice \u2026) is not inside if(B)"),
    ],
)
def test_a_command_stands_under_a_condition_everywhere_it_is_called(first: str, condition: str, said: str) -> None:
    fields = {"command": "ADD_library", "first": first, "condition": condition}
    assert ask("cmake_condition", "CMakeLists.txt", **fields) == (f"CMakeLists.txt: {said}" if said else "")


@pytest.mark.parametrize("first", ["gone", "MODULE", "fre"])
def test_a_command_that_is_not_there(first: str) -> None:
    said = ask("cmake_condition", "CMakeLists.txt", command="add_library", first=first, condition="X")
    assert said == f"CMakeLists.txt has no add_library({first} \u2026)"


def test_the_commands_of_a_cmake_file() -> None:
    text = 'Set(A "b c" [=[d ]] )]=] #[[ e ]] (f))  # g\nIF(A (B))\nendif()\nlast()'
    assert cmake_commands(text) == [
        ("set", ["A", '"b c"', "[=[d ]] )]=]", "(", "f", ")"], []),
        ("last", [], []),
    ]
    assert cmake_commands(r"run(\"a b\" \( c\ d\#)") == [("run", [r"\"a", r"b\"", r"\(", r"c\ d\#"], [])]
    assert cmake_commands("if(A)\nelse(A)\nx()\nendif(A)\n") == [("x", [], [""])]
    assert cmake_commands("if(A)\nif(B)\nx()\nelse()\ny()\nendif()\nz()\nelseif(C D)\nw(1)\nendif()\n") == [
        ("x", [], ["A", "B"]),
        ("y", [], ["A", ""]),
        ("z", [], ["A"]),
        ("w", ["1"], ["C D"]),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("if(A)\n", "an if() is never closed"),
        ("endif()\n", "endif() without if()"),
        ("else()\n", "else() without if()"),
        ("ELSEIF(A)\n", "elseif() without if()"),
        ("Add(x\n", "add( is never closed"),
        ("add(x (y)\n", "add( is never closed"),
        ("Add(", "add( is never closed"),
        ("a b\n", "`(` expected after 'a'"),
        ("a() B", "`(` expected after 'B'"),
        ('a()\nadd("x)\n', '" is never closed, at line 2'),
        ("add([=[x]])\n", "[=[ is never closed, at line 1"),
        ("a()\n#[[x\n", "#[[ is never closed, at line 2"),
    ],
)
def test_cmake_that_does_not_balance(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        cmake_commands(text)


@pytest.mark.parametrize("text", ["[[ ", "#[[ \n", '" \\', "\\", "("])
def test_hostile_cmake_takes_bounded_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="never closed"):
        cmake_commands(f"set({text * 100_000}")
    assert time.process_time() - start < 2


def test_upstreams_own_escapes_are_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ask("parses", "escape.py") == ""
