"""pins.lock as text, what is unknown in it, and the differences that `kz lock` shows."""

from __future__ import annotations

import json

import pytest

from kz_build.pins.lock_file import ABSENT, Lock, as_text, count_nulls, differences

LINES = {"l": {"b": {"kind": "git", "commit": None}, "a": {"kind": "wheel", "sha256": "x", "more": {"size": None}}}}


def test_a_lock_is_sorted_text_that_counts_what_is_unknown() -> None:
    text = Lock(LINES).text()
    assert json.loads(text) == {"version": 1, "unknown": 2, "lines": LINES}
    assert text.endswith("\n}\n") and text.startswith('{\n "lines": {\n  "l": {\n   "a": {\n    "kind": "wheel",\n')
    assert as_text({"b": 1, "a": [None]}) == '{\n "a": [\n  null\n ],\n "b": 1\n}\n'


def test_an_entry_is_found_by_line_and_source() -> None:
    lock = Lock(LINES)
    assert lock.entry("l", "b") == {"kind": "git", "commit": None}
    assert lock.entry("l", "gone") is None
    assert lock.entry("gone", "b") is None


@pytest.mark.parametrize(
    ("data", "count"),
    [(None, 1), ("", 0), (0, 0), ([None], 0), ({}, 0), ({"a": None, "b": {"c": None, "d": 1}}, 2)],
)
def test_unknown_facts_are_counted_at_any_depth(data: object, count: int) -> None:
    assert count_nulls(data) == count


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": "x"}, {"a": None}, ["a: x -> (unknown)"]),
        ({"a": None}, {"a": True}, ["a: (unknown) -> true"]),
        ({}, {"a": ["x"]}, ['a: (absent) -> ["x"]']),
        ({"a": "x"}, {}, ["a: x -> (absent)"]),
        ({"b": {"c": 1, "d": 2}, "a": 0}, {"b": {"c": 3, "d": 2}, "a": 1}, ["a: 0 -> 1", "b.c: 1 -> 3"]),
        ({}, {"l": {"s": {"commit": "1", "tree": None}}}, ["l.s.commit: (absent) -> 1", "l.s.tree: (absent) -> (unknown)"]),
        ({"l": {"s": {"commit": "1"}}}, {}, ["l.s.commit: 1 -> (absent)"]),
        ({"l": {"s": 1}}, {"l": "x"}, ['l: {"s": 1} -> x']),
        ({1: "a"}, {1: "b"}, ["1: a -> b"]),
        ({}, {"l": {}}, []),
    ],
)  # fmt: skip
def test_differences_are_one_line_a_leaf(old: object, new: object, rows: list[str]) -> None:
    assert differences(old, new) == rows
    assert repr(ABSENT) == "(absent)"
