"""Rules on bytes: what they count, what they refuse, and what anybody's file or rule can do to ast-grep."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.errors import ConfigError, StoppedError
from kz_build.patch.rewrite import Mismatch
from kz_build.rewrite import ast_grep
from kz_build.rewrite.rule import MOST_BYTES, Rule, apply_rules
from tests.conftest import ROOT
from tests.deadline import patient

NEEDED = pytest.mark.skipif(not shutil.which("ast-grep"), reason="ast-grep is not on PATH")


def made(find: bytes, replace: bytes, data: bytes, count: int = 1) -> bytes | str:
    result = apply_rules([Rule("a", count, "rule 1", find, replace)], data, ast_grep.search)
    return result.reason if isinstance(result, Mismatch) else result


@pytest.mark.parametrize(
    ("find", "replace", "data", "count", "result"),
    [
        (b"a", b"b", b"xax", 1, b"xbx"),
        (b"a", b"", b"aa", 2, b""),
        (b"aa", b"b", b"aaaa", 2, b"bb"),
        ("é".encode(), b"e", "é\r\n".encode(), 1, b"e\r\n"),
        (b"a", b"b", b"a\nxa\na", 1, "rule 1 expects 1 match, and finds 3, at lines 1, 2, 3"),
        (b"a", b"b", b"a\n" * 9, 3, "rule 1 expects 3 matches, and finds 9 or more, at lines 1, 2, 3, 4, 5 …"),
        (b"a", b"b", b"xbx", 1, "rule 1 expects 1 match, and finds 0; what it writes is there already"),
        # One that adds to what it matches would match again.
        (b"one\n", b"one\ntwo\n", b"one\ntwo\n", 1, "rule 1 would write a second time what is there already, at line 1"),
        (b"if(", b"if(ANDROID OR (", b"if(X)", 1, b"if(ANDROID OR (X)"),
        (b"load", b"load_all", b"load load_all", 2, "rule 1 would write a second time what is there already, at line 1"),
        (b"load ", b"load_all ", b"load load_all", 1, b"load_all load_all"),
        (b"a", b"b", b"a" * (MOST_BYTES + 1), 1, "it has more than 4 MB, and rule 1 is not tried on it"),
    ],
)  # fmt: skip
def test_a_text_is_replaced_exactly_as_often_as_it_says(
    find: bytes, replace: bytes, data: bytes, count: int, result: bytes | str
) -> None:
    assert made(find, replace, data, count) == result


def syntax(count: int = 1, **rule: Any) -> Rule:
    return Rule("a.py", count, "rule 1", syntax=json.dumps({"id": "rule", "language": "python", **rule}))


@NEEDED
def test_a_syntax_is_matched_without_the_project_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "ruleDirs: [rules]\nutilDirs: [utils]\ncustomLanguages: {python: {libraryPath: /nowhere.so, extensions: [py]}}\n"
    (tmp_path / "sgconfig.yml").write_text(hostile)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    call = syntax(2, rule={"pattern": "load($A)"}, fix="read($A, 'é')")
    source = "# é load(0)\nload(1)\n'load(2)'\nload(\n  3)\n".encode()
    assert apply_rules([call], source, ast_grep.search) == (
        "# é load(0)\nread(1, 'é')\n'load(2)'\nread(3, 'é')\n".encode()
    )
    nested = apply_rules([syntax(2, rule={"pattern": "load($A)"}, fix="x")], b"load(load(1))\n", ast_grep.search)
    assert isinstance(nested, Mismatch) and "matches inside its own match, at line 1" in nested.reason
    many = apply_rules([call], b"load(1)\n" * 9, ast_grep.search)
    assert many == Mismatch("rule 1 expects 2 matches, and finds 8 or more, at lines 1, 2, 3, 4, 5 …")
    assert isinstance(apply_rules([call], b"load(\xff)\n", ast_grep.search), Mismatch)
    assert not [p.name for p in tmp_path.iterdir() if p.name != "sgconfig.yml"]


def test_the_version_is_the_one_that_is_installed_by_hash() -> None:
    assert f'rewrite = ["ast-grep-cli=={ast_grep.VERSION}"]' in (ROOT / "pyproject.toml").read_text()


@NEEDED
def test_a_wrong_rule_is_an_error_of_its_author() -> None:
    for rule, said in (
        ({"rule": {"pattern": "load($A)"}, "fix": "$B"}, "Undefined meta var `B`"),
        ({"rule": {"matches": "util"}, "fix": ""}, "util"),
        ({"rule": {"pattern": "a"}, "fix": "", "language": "--config=/etc/passwd"}, "language"),
        ({"rule": {"regex": "("}, "fix": ""}, "regex"),
    ):
        with pytest.raises(ConfigError, match="(?s)ast-grep does not accept rule 1:.*" + re.escape(said)):
            apply_rules([syntax(1, **rule)], b"load(1)\n", ast_grep.search)


def test_an_ast_grep_that_was_killed_says_nothing_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ast-grep"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(ast_grep, "_program", lambda: str(program))
    with pytest.raises(StoppedError, match="killed by signal 9 for rule 1"):
        apply_rules([syntax(1, rule={"pattern": "load($A)"}, fix="x")], b"load(1)\n", ast_grep.search)


@NEEDED
def test_what_is_hostile_ends_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ast_grep, "SECONDS", 0.5)
    for rule, source in (
        ({"rule": {"pattern": "f($A)"}, "fix": "z"}, b"f(" * 100_000 + b")" * 100_000),
        ({"rule": {"pattern": "$A"}, "fix": "$A" * 20_000}, b"x = [" + b"1," * 500_000 + b"]"),
        ({"rule": {"regex": "(a*)*b"}, "fix": ""}, b"a" * 1_000_000),
        ({"rule": {"pattern": "f($A)"}, "fix": ""}, bytes(range(256)) * 1000),
        ({"rule": {"pattern": "a"}, "fix": "", "id": "x\n---\nid: y"}, b"a"),
    ):
        began = time.monotonic()
        with contextlib.suppress(ConfigError, StoppedError):
            assert isinstance(apply_rules([syntax(1000, **rule)], source, ast_grep.search), bytes | Mismatch)
        assert time.monotonic() - began < patient(5)
