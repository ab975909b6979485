"""Intent checks: rules on the patched files that say what a patch is for. Exactly six kinds (docs/reference/patches.md)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

KINDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    # kind: (needed fields, optional fields), all beside `file`
    "dict_key": (frozenset({"dict", "key"}), frozenset({"value"})),
    "class_once": (frozenset({"class"}), frozenset({"attributes"})),
    "cmake_condition": (frozenset({"command", "first", "condition"}), frozenset()),
    "contains": (frozenset({"text"}), frozenset({"count"})),
    "absent": (frozenset({"text"}), frozenset()),
    "parses": (frozenset(), frozenset()),
}


@dataclass(frozen=True)
class IntentCheck:
    """One check of a patch's intent. `fields` as in checks.yaml; `where` is `file:line` for messages."""

    slug: str
    kind: str
    file: str
    fields: tuple[tuple[str, object], ...]
    where: str

    def field(self, name: str) -> object:
        """Return the value of a field of checks.yaml, None if it is not given."""
        return dict(self.fields).get(name)


def evaluate(check: IntentCheck, data: bytes | None) -> str:
    """Return '' if the check holds for the content of its file (None: no file), else one sentence that says what is wrong."""
    if data is None:
        return f"{check.file} is not in the tree"
    text = data.decode("utf-8", "replace")
    try:
        return _EVALUATORS[check.kind](check, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deep
        return f"{check.file} does not parse: {error}"


@lru_cache(maxsize=16)
def _statements(text: str) -> tuple[ast.stmt, ...]:
    """Return all statements of Python source, outer ones first. Expressions contain none, and are nine tenths of the nodes."""
    statements: list[ast.stmt] = []
    with warnings.catch_warnings():  # of its escapes, which are upstream's
        warnings.simplefilter("ignore")
        remaining: list[ast.AST] = [ast.parse(text)]
    while remaining:
        inner = [
            node
            for outer in remaining
            for name in ("body", "handlers", "orelse", "finalbody", "cases")
            for node in getattr(outer, name, ())
        ]
        statements += [node for node in inner if isinstance(node, ast.stmt)]
        remaining = inner
    return tuple(statements)


def _contains(check: IntentCheck, text: str) -> str:
    count, wanted = text.count(str(check.field("text"))), check.field("count")
    if wanted is None:
        return "" if count else f"{check.file} does not contain {check.field('text')!r}"
    return "" if count == wanted else f"{check.file} contains {check.field('text')!r} {count} times, not {wanted}"


def _absent(check: IntentCheck, text: str) -> str:
    return f"{check.file} contains {check.field('text')!r}" if str(check.field("text")) in text else ""


def _dict_key(check: IntentCheck, text: str) -> str:
    name, key = check.field("dict"), check.field("key")
    for node in _statements(text):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if not any(isinstance(t, ast.Name) and t.id == name for t in targets):
            continue
        value = getattr(node, "value", None)
        if not isinstance(value, ast.Dict):
            continue
        for k, v in zip(value.keys, value.values, strict=True):
            if isinstance(k, ast.Constant) and k.value == key:
                wanted = check.field("value")
                actual = v.value if isinstance(v, ast.Constant) else ast.unparse(v)
                return "" if wanted is None or actual == wanted else f"{name}[{key!r}] is {actual!r}, not {wanted!r}"
        return f"{name} has no key {key!r}"
    return f"{check.file} has no dict {name}"


def _class_once(check: IntentCheck, text: str) -> str:
    name = check.field("class")
    classes = [n for n in _statements(text) if isinstance(n, ast.ClassDef) and n.name == name]
    if len(classes) != 1:
        return f"{check.file} defines class {name} {len(classes)} times, not once"
    wanted = check.field("attributes") or {}
    if not isinstance(wanted, Mapping):
        return f"`attributes` of the check on class {name} must map names to values"
    actual: dict[str, str] = {}
    for node in classes[0].body:
        if isinstance(node, ast.Assign):
            actual.update({t.id: ast.unparse(node.value) for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            actual[node.target.id] = ast.unparse(node.value)
    for attribute, value in wanted.items():
        if actual.get(attribute) not in (str(value), repr(value)):
            return f"{name}.{attribute} is {actual.get(attribute, 'not set')}, not {value}"
    return ""


_CMAKE_TOKEN = re.compile(
    r"""\#\[(=*)\[.*?\]\1\] | \[(=*)\[.*?\]\2\] | "(?:\\.|[^"\\])*" | (?P<open>\#?\[=*\[|") | \#[^\n]* | [()]
    | (?:\\.|[^\s()"#\\])+""",
    re.VERBOSE | re.DOTALL,
)


def _cmake_tokens(text: str) -> Iterator[str]:
    """Yield what is no comment. Raises ValueError at a quote or bracket that is never closed."""
    for match in _CMAKE_TOKEN.finditer(text):
        if match["open"]:
            raise ValueError(f"{match[0]} is never closed, at line {text.count(chr(10), 0, match.start()) + 1}")
        if not match[0].startswith("#"):
            yield match[0]


def cmake_commands(text: str) -> list[tuple[str, list[str], list[str]]]:
    """Return the commands of a CMake file as (name, arguments, conditions of the if() blocks around it)."""
    tokens = list(_cmake_tokens(text))
    commands: list[tuple[str, list[str], list[str]]] = []
    around: list[str] = []
    at = 0
    while at < len(tokens):
        name = tokens[at].lower()
        if at + 1 >= len(tokens) or tokens[at + 1] != "(":
            raise ValueError(f"`(` expected after {tokens[at]!r}")
        depth, end = 1, at + 2
        while end < len(tokens) and depth:
            depth += {"(": 1, ")": -1}.get(tokens[end], 0)
            end += 1
        if depth:
            raise ValueError(f"{name}( is never closed")
        arguments = tokens[at + 2 : end - 1]
        if name == "if":
            around.append(" ".join(arguments))
        elif name in ("elseif", "else", "endif"):
            if not around:
                raise ValueError(f"{name}() without if()")
            around.pop()
            if name != "endif":
                around.append(" ".join(arguments) if name == "elseif" else "")
        else:
            commands.append((name, arguments, list(around)))
        at = end
    if around:
        raise ValueError("an if() is never closed")
    return commands


def _cmake_condition(check: IntentCheck, text: str) -> str:
    command, first, condition = (str(check.field(k)) for k in ("command", "first", "condition"))
    matches = [around for name, args, around in cmake_commands(text) if name == command.lower() and args[:1] == [first]]
    if not matches:
        return f"{check.file} has no {command}({first} …)"
    bare = sum(not any(re.search(rf"(^|\W){re.escape(condition)}(\W|$)", c) for c in around) for around in matches)
    return f"{check.file}: {command}({first} …) is not inside if({condition})" if bare else ""


def _parses(check: IntentCheck, text: str) -> str:
    if check.file.endswith(".py"):
        _statements(text)
    elif check.file.endswith(".json"):
        json.loads(text)
    elif check.file.endswith((".yaml", ".yml")):
        import yaml  # 40 ms that only this kind of file needs

        try:
            list(yaml.compose_all(text, yaml.SafeLoader))
        except yaml.YAMLError as error:
            raise ValueError(str(error).replace("\n", " ")) from error
    else:
        cmake_commands(text)
    return ""


_EVALUATORS = {
    "contains": _contains,
    "absent": _absent,
    "dict_key": _dict_key,
    "class_once": _class_once,
    "cmake_condition": _cmake_condition,
    "parses": _parses,
}
