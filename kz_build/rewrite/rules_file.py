"""A reader of `NNNN-name.rewrite.yaml`: a list of counted rules. It reports all problems at once, each with file and line."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from kz_build.core.errors import ConfigError, Problem, similar
from kz_build.core.rules import unsafe_path
from kz_build.core.yaml_lines import Place, parse
from kz_build.patch.rewrite import Mismatch, Rewrite
from kz_build.rewrite.rule import Rule, Search, apply_rules

MOST_RULES = 100
MOST_MATCHES = 1000
_MOST_SYNTAX = 64 << 10  # it is one word of a command line
_TEXT, _SYNTAX = frozenset({"find", "replace"}), frozenset({"language", "rule", "fix"})
_KEYS = ("file", "count", *sorted(_TEXT | _SYNTAX), "constraints")
FORM = "a rule has a file, and either find and replace, or language, rule and fix (docs/reference/patches.md)"


def read_rewrite(data: bytes, shown: str, changed: Collection[str], search: Search) -> Rewrite:
    """Read the rules beside a mail that changes the files `changed` in place. Raises ConfigError with every problem."""
    rows, lines = parse(data, shown)
    name = shown.rpartition("/")[2]
    problems: list[Problem] = []
    rules: list[Rule] = []
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_RULES:
        rows, problems = [], [Problem(shown, 0, f"must be a list of 1 to {MOST_RULES} rules")]
    for number, row in enumerate(rows):
        line = lines.get((number,), 0)
        where = f"rule {number + 1} of {name}" + (f" (line {line})" if line else "")
        wrong, rule = _rule(row, where)
        if not wrong and rule.file not in changed:
            wrong = {"file": f"the mail does not change {rule.file} in place; rules replace its hunks"}
        problems += [Problem(shown, _line(lines, number, key), text) for key, text in wrong.items()]
        rules.append(rule)
    if problems:
        raise ConfigError(f"{name} cannot be read:", tuple(problems), hint=FORM)

    def generate(path: str, content: bytes) -> bytes | Mismatch:
        return apply_rules([rule for rule in rules if rule.file == path], content, search)

    return Rewrite(name, frozenset(rule.file for rule in rules), generate)


def _line(lines: dict[Place, int], number: int, key: str) -> int:
    return lines.get((number, key), lines.get((number,), 0))


def _rule(row: Any, where: str) -> tuple[dict[str, str], Rule]:
    """Return what is wrong, by key, and the rule."""
    if not isinstance(row, dict):
        return {"": "a rule must be a mapping"}, Rule("", 1, where)
    wrong = {str(key): f"unknown key {str(key)!r}{similar(str(key), _KEYS)}" for key in row if key not in _KEYS}
    file, count = row.get("file"), row.get("count", 1)
    if not isinstance(file, str) or unsafe_path(file):
        wrong["file"] = "`file` must be the path of a file" if not isinstance(file, str) else unsafe_path(file)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_MATCHES:
        wrong["count"] = f"`count` must be 1 to {MOST_MATCHES}"
    of_text = "find" in row or "replace" in row
    needed, other = (_TEXT, _SYNTAX | {"constraints"}) if of_text else (_SYNTAX, _TEXT)
    wrong |= {key: f"`{key}` is missing" for key in sorted(needed - set(row))}
    wrong |= {key: f"`{key}` does not go with `find`" for key in sorted(other & set(row))}
    for key in ("find", "replace", "language", "fix"):
        if key in row and key not in wrong and not isinstance(row[key], str):
            wrong[key] = f"`{key}` must be text"
    if of_text and not wrong.get("find") and not row.get("find"):
        wrong["find"] = "`find` must not be empty"
    if wrong:
        return wrong, Rule("", 1, where)
    if of_text:
        return {}, Rule(row["file"], count, where, row["find"].encode(), row["replace"].encode())
    try:
        syntax = json.dumps({"id": "rule", **{k: row[k] for k in row if k not in ("file", "count")}}, allow_nan=False)
    except (TypeError, ValueError) as error:
        return {"rule": f"has a value that JSON has not: {error}"}, Rule("", 1, where)
    if len(syntax) > _MOST_SYNTAX:
        return {"rule": f"has more than {_MOST_SYNTAX >> 10} KB"}, Rule("", 1, where)
    return {}, Rule(row["file"], count, where, syntax=syntax)
