"""YAML of anyone's: a line for what is wrong, and bounds on what it may cost."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.core.yaml_lines import parse
from kz_build.pins.load import load_project
from tests.conftest import Kz

BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))
REFUSED: dict[str, tuple[bytes, int, str]] = {
    "aliases that grow": (BOMB.encode(), 1, "aliases repeat this too often"),
    "merges that grow": (MERGES.encode(), 1, "aliases repeat this too often"),
    "a list in itself": (b"k: 1\na: &a\n - *a\n", 2, "contains itself"),
    "a mapping merged into itself": (b"k: 1\na: &a {<<: *a}\n", 2, "contains itself"),
    "depth": (b"k: 1\na: " + b"[" * 2000, 2, "too many levels"),
    "many values": (b"- a\n" * 11_000, 10_000, "too many values"),
    "a tag of Python's": (b"k: 1\na: !!python/object:os.system x\n", 2, "'!!python/object:os.system'"),
    "a set": (b"k: 1\na: !!set {b}\n", 2, "'!!set' is not supported"),
    "bytes": (b"k: 1\na: !!binary eA==\n", 2, "'!!binary' does not fit"),
    "a tag that lies": (b"k: 1\na: !!int x\n", 2, "'!!int' does not fit"),
    "no such day": (b"k: 1\na: 2001-02-30\n", 2, "2001-02-30 is not a value"),
    "a huge integer": (b"k: 1\na: " + b"9" * 5000, 2, "is too large"),
    "a larger one than 64 bits": (b"k: 1\na: 36893488147419103232\n", 2, "is too large"),
    "infinity": (b"k: 1\na: .inf\n", 2, "no number"),
    "not a number": (b"k: 1\na: .nan\n", 2, "no number"),
    "half a character": (b'k: 1\na: "\\ud800"\n', 2, "no text may have"),
    "a NUL": (b'k: 1\na: "\\0"\n', 2, "no text may have"),
    "a control character": (b"k: 1\na: \x07\n", 2, "special characters"),
    "a list as a key": (b"k: 1\n? [a]\n: b\n", 2, "must be text"),
    "a merge of text": (b"k: 1\n<<: x\n", 2, "takes a mapping"),
    "Latin-1": (b"k: 1\na: \xff\n", 2, "invalid start byte"),
    "UTF-16": ("k: 1\n".encode("utf-16"), 1, "invalid start byte"),
    "two documents": (b"k: 1\n---\nb: 2\n", 2, "another document"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    data, line, text = REFUSED[name]
    start = time.process_time()
    with pytest.raises(ConfigError) as error:
        parse(data, "x.yaml")
    (problem,) = error.value.problems
    assert (problem.file, problem.line) == ("x.yaml", line) and text in problem.text
    assert time.process_time() - start < 5


def test_an_escape_that_is_no_character_and_a_long_file() -> None:
    with pytest.raises(ConfigError, match="is not YAML"):
        parse(b'a: "\\UFFFFFFFF"', "x.yaml")
    with pytest.raises(ConfigError, match=r"has 300,000 bytes; at most 262,144 are read"):
        parse(b"#" * 300_000, "x.yaml")


def test_every_wrong_value_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        parse(b"a: .nan\nb: [1, 2001-13-01]\nc: !x d\n", "x.yaml")
    assert [problem.line for problem in error.value.problems] == [1, 2, 3]


def test_what_people_write_keeps_its_meaning() -> None:
    text = "a: &a {x: 1, y: [yes, ~, 1.5]}\nb: {<<: *a, x: 2}\nc: {<<: [{x: 3}, *a]}\nd: *a\ne: 2024-10-24\n1: '0x1F'\nf: 0x1F\n=: =\n"
    value, lines = parse(text.encode(), "x.yaml")
    a = {"x": 1, "y": [True, None, 1.5]}
    b, c = {**a, "x": 2}, {**a, "x": 3}
    assert value == {"a": a, "b": b, "c": c, "d": a, "e": datetime.date(2024, 10, 24), 1: "0x1F", "f": 31, "=": "="}
    assert lines["b", "x"] == 2 and lines["b", "y"] == 1 and lines["e",] == 5


@pytest.mark.parametrize("text", ["sources: x\n", "sources: {minirt: 5}\n", "sources: {minirt: {git: 2001-01-01}}\n"])
def test_sources_of_a_wrong_type(sample: Path, kz: Kz, text: str) -> None:
    (sample / "pins.local.yaml").write_text(text)
    done = kz("-C", sample, "status")
    assert done.returncode == 2 and "pins.local.yaml:1" in done.stderr
    (sample / "pins.local.yaml").unlink()
    assert load_project(sample).pins.lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n\tb: 1\n", "f:2: found character '\\t' that cannot start any token; YAML is indented with spaces"),
        ('a: "b\nc: d\n', "f:3: found unexpected end of stream while scanning a quoted scalar, which begins in line 1"),
    ],
)
def test_a_tab_and_an_open_quote_are_found_by_what_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "f")
    assert said in str(caught.value)
