"""One counted rule of a semantic patch, and what it makes of a file's content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kz_build.patch.rewrite import Mismatch

MOST_BYTES = 4 << 20
"""The largest file that rules are tried on; ExecuTorch's largest source has a tenth of that."""
_SHOWN = 5


class Edit(NamedTuple):
    """One match: the bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes


@dataclass(frozen=True)
class Rule:
    """Exactly `count` changes in `file`: of the text `find` to `replace`, or of what the ast-grep rule `syntax` (JSON) matches.

    `where` names the rule in messages.
    """

    file: str
    count: int
    where: str
    find: bytes = b""
    replace: bytes = b""
    syntax: str = ""

    @property
    def enough(self) -> int:
        """How many matches say that there are too many."""
        return self.count + _SHOWN + 1

    @property
    def wanted(self) -> bytes:
        """What it looks for: text as it is, syntax as its patterns."""
        return self.find or "\n".join(_patterns(json.loads(self.syntax)["rule"])).encode()


Search = Callable[[Rule, bytes], Sequence[Edit] | Mismatch]
"""Find what a rule's syntax matches in a file."""


def apply_rules(rules: Sequence[Rule], data: bytes, search: Search) -> bytes | Mismatch:
    """Apply rules to a file's content one after the other; each sees what those before it left."""
    for rule in rules:
        if len(data) > MOST_BYTES:
            return Mismatch(f"it has more than {MOST_BYTES >> 20} MB, and {rule.where} is not tried on it")
        edits = search(rule, data) if rule.syntax else _found(rule, data)
        if isinstance(edits, Mismatch):
            return edits
        if problem := _problem(rule, data, edits):
            return Mismatch(f"{rule.where} {problem}", *(() if edits else (rule.wanted, data)))
        for edit in sorted(edits, reverse=True):
            data = data[: edit.start] + edit.new + data[edit.end :]
    return data


def _patterns(rule: object) -> Iterator[str]:
    """Yield the texts of a rule of ast-grep that stand for code."""
    for key, value in rule.items() if isinstance(rule, dict) else ():
        if key in ("pattern", "context", "regex") and isinstance(value, str):
            yield re.sub(r"\$+\w+", " ", value)
        for part in value if isinstance(value, list) else (value,):
            yield from _patterns(part)


def _found(rule: Rule, data: bytes) -> list[Edit]:
    edits: list[Edit] = []
    start = data.find(rule.find)
    while start >= 0 and len(edits) < rule.enough:
        end = start + len(rule.find)
        edits.append(Edit(start, end, rule.replace))
        start = data.find(rule.find, end)
    return edits


def _problem(rule: Rule, data: bytes, edits: Sequence[Edit]) -> str:
    """Return why these matches must not be changed, '' if they may."""
    if len(edits) != rule.count:
        lines = [_line(data, edit) for edit in edits[:_SHOWN]]
        at = f", at line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
        at += " …" if len(edits) > _SHOWN else ""
        more = " or more" if len(edits) == rule.enough else ""
        has = "; what it writes is there already" if not edits and rule.replace and rule.replace in data else ""
        return f"expects {rule.count} match{'es' * (rule.count > 1)}, and finds {len(edits)}{more}{at}{has}"
    ends = sorted(edits)
    for before, edit in zip(ends, ends[1:], strict=False):
        if edit.start < before.end:
            return f"matches inside its own match, at line {_line(data, edit)}"
    if again := next((edit for edit in edits if _is_there(data, edit)), None):
        return f"would write a second time what is there already, at line {_line(data, again)}"
    return ""


def _is_there(data: bytes, edit: Edit) -> bool:
    """Return whether a match is part of what it would become: the rule adds text that is there."""
    old = data[edit.start : edit.end]
    at = edit.new.find(old) if old else -1
    while at >= 0:
        start = edit.start - at
        if start >= 0 and data.startswith(edit.new, start):
            return old != edit.new
        at = edit.new.find(old, at + 1)
    return False


def _line(data: bytes, edit: Edit) -> int:
    return data.count(b"\n", 0, edit.start) + 1
