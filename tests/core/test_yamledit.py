"""Editing YAML in place: the one value changes, everything else keeps its bytes, or it is refused."""

from __future__ import annotations

import difflib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kz_build.core.errors import ConfigError
from kz_build.core.yaml_edit import with_copy, with_value, without_keys
from tests.conftest import ROOT, SAMPLE


def changed(before: str, after: str) -> list[str]:
    """Lines that differ, with - and +."""
    return [row for row in difflib.ndiff(before.splitlines(), after.splitlines()) if row[0] in "-+"]


@pytest.mark.parametrize("root", [ROOT, SAMPLE], ids=["ours", "sample"])
def test_our_own_files(root: object) -> None:
    text = (ROOT if root is ROOT else SAMPLE).joinpath("pins.yaml").read_text()
    data = yaml.safe_load(text)
    line = data["default"]
    source = next(iter(data["lines"][line]))
    after = with_value(text, ("lines", line, source), "v9.9.9")
    assert [row[0] for row in changed(text, after)] == ["-", "+"] and f"{source}: v9.9.9" in after
    copied = with_copy(text, ("lines", line), "new-1", **{source: "v9.9.9"})
    assert all(row[0] == "+" for row in changed(text, copied))
    assert yaml.safe_load(copied)["lines"]["new-1"] == {**data["lines"][line], source: "v9.9.9"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: {b: 1.0, c: x}\n", "a: {b: v2, c: x}\n"),
        ("a:\n  b: 'quoted'   # why\n  c: x\n", "a:\n  b: v2   # why\n  c: x\n"),
        ("a: &anchor\n  b: v1\n", "a: &anchor\n  b: v2\n"),
        ("a:\n  b: v1", "a:\n  b: v2"),
        ("a:\r\n  b: v1\r\n", "a:\r\n  b: v2\r\n"),
        ('a:\n  b: "v1" # ä\n# ö\n', "a:\n  b: v2 # ä\n# ö\n"),
    ],
)
def test_a_value_in_any_form(before: str, after: str) -> None:
    assert with_value(before, ("a", "b"), "v2") == after


@pytest.mark.parametrize("value", ["1.0", "true", "null", "v1: x", "# no", "'", "2026-01-01", "0x10"])
def test_a_value_that_yaml_would_read_as_something_else_is_quoted(value: str) -> None:
    assert yaml.safe_load(with_value("a:\n  b: v1\n", ("a", "b"), value)) == {"a": {"b": value}}


@given(st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable()))
def test_any_value_comes_back_or_is_refused(value: str) -> None:
    text = "x: 1\na:\n  b: v1 # c\nz: [1]\n"
    try:
        after = with_value(text, ("a", "b"), value)
    except ConfigError:
        return
    assert yaml.safe_load(after) == {"x": 1, "a": {"b": value}, "z": [1]}


@pytest.mark.parametrize("text", ["a: *b\n", "base: &b {b: v1}\na: *b\n", "base: &b {b: v1}\na:\n  <<: *b\n", "c: 1\n"])
def test_what_stands_elsewhere_is_refused(text: str) -> None:
    try:
        yaml.safe_load(text)
    except yaml.YAMLError:
        text = "c: 1\n"
    with pytest.raises(ConfigError, match=r"a\.b"):
        with_value(text, ("a", "b"), "v2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "l:\n  a: &x\n    s: v1 # why\n\n  # next\n  z: {}\n",
            "l:\n  a: &x\n    s: v1 # why\n  n:\n    s: v2 # why\n\n  # next\n  z: {}\n",
        ),
        ("l:\n  a: {s: v1}\n", "l:\n  a: {s: v1}\n  n: {s: v2}\n"),
        ("l:\n  a: {s: v1}", "l:\n  a: {s: v1}\n  n: {s: v2}"),
    ],
)
def test_a_copy_beside_it(before: str, after: str) -> None:
    assert with_copy(before, ("l", "a"), "n", s="v2") == after


def test_a_copy_in_one_line_is_refused() -> None:
    with pytest.raises(ConfigError):
        with_copy("l: {a: {s: v1}}\n", ("l", "a"), "n", s="v2")


def test_keys_that_go_and_comments_that_stay() -> None:
    text = "# head\none:\n  - x\n\n# of two\ntwo:\n  - y # y\n# tail\n"
    assert without_keys(text, {"two"}) == ("# head\n# of two\ntwo:\n  - y # y\n# tail\n", ["one"]) or without_keys(
        text, {"two"}
    ) == ("# head\n\n# of two\ntwo:\n  - y # y\n# tail\n", ["one"])
    kept, gone = without_keys(text, set())
    assert gone == ["one", "two"] and yaml.safe_load(kept) is None and kept.count("#") == 3
