"""pins.lock: what the pins resolved to. Written by the tool only; sorted JSON, so that it merges and diffs well."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kz_build.core.errors import LockError, Problem
from kz_build.pins.lock_form import Fault, Place, faults, key_lines, shown_place

VERSION = 1


class Lock(NamedTuple):
    """The parsed file: `lines[line][source]` is an entry (docs/reference/verbs/lock.md)."""

    lines: Mapping[str, Mapping[str, Any]]

    def entry(self, line: str, source: str) -> Mapping[str, Any] | None:
        """Return what the pin of a source resolved to, None if it was never locked."""
        entry: Mapping[str, Any] | None = self.lines.get(line, {}).get(source)
        return entry

    def text(self) -> str:
        """Return the file's text, ending in a newline."""
        return as_text({"version": VERSION, "unknown": count_nulls(self.lines), "lines": self.lines})


def as_text(data: Mapping[str, Any]) -> str:
    """Return plain data as sorted JSON, ending in a newline."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def parse_lock(data: bytes, name: str) -> Lock:
    """Read pins.lock. Raises LockError with everything that is wrong with it."""
    hint = "nothing of it was used: restore it from version control, or remove it and make a new one: kz lock --write"
    twice = False

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        unique_pairs = dict(pairs)
        twice = twice or len(unique_pairs) != len(pairs)
        return unique_pairs

    if re.search(rb"^<<<<<<< ", data, re.MULTILINE):
        raise LockError(
            f"{name} has git's conflict markers",
            hint=f"resolve pins.yaml and patches/ first; then git checkout --ours {name}, and kz lock --write",
        )
    try:
        text = data.decode()
        plain = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise LockError(f"{name} is not JSON: {error}", hint=hint) from error
    if not isinstance(plain, dict) or plain.get("version") != VERSION or "lines" not in plain:
        raise LockError(f"{name} is not a lock of version {VERSION}", hint=hint)
    invalid = list(faults(plain["lines"]))
    if invalid or twice:
        problems = _problems(text, name, invalid)
        raise LockError("\n".join([f"{name} is wrong:", *(f"  {problem}" for problem in problems)]), hint=hint)
    return Lock(plain["lines"])


def _problems(text: str, name: str, invalid: list[Fault]) -> list[Problem]:
    lines: dict[Place, int] = {}
    problems = []
    for place, line in key_lines(text):
        if place in lines:
            problems.append(Problem(name, line, f"{shown_place(place)}: appears here a second time"))
        lines.setdefault(place, line)
    for place, wrong in invalid:
        known = next((place[:at] for at in range(len(place), 0, -1) if place[:at] in lines), ())
        problems.append(Problem(name, lines.get(known, 0), f"{shown_place(place)}: {wrong}"))
    return sorted(problems, key=lambda problem: (problem.line, problem.text))


def count_nulls(data: object) -> int:
    """Count the facts that nobody has computed yet."""
    if isinstance(data, Mapping):
        return sum(count_nulls(value) for value in data.values())
    return 1 if data is None else 0


def differences(old: object, new: object, path: str = "") -> list[str]:
    """Return what changes from one plain value to another, one line per leaf: `path: old -> new`."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for key in sorted({*old, *new}):
            lines += differences(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}" if path else str(key))
        return lines
    if old == new:
        return []
    if old is ABSENT and isinstance(new, Mapping):
        return differences({}, new, path)
    if new is ABSENT and isinstance(old, Mapping):
        return differences(old, {}, path)
    return [f"{path}: {_shown(old)} -> {_shown(new)}"]


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


def _shown(value: object) -> str:
    return "(unknown)" if value is None else str(value) if isinstance(value, str | _Absent) else json.dumps(value)
