"""YAML that people write, with the line of every value. The text may be anyone's: size, depth and values are bounded.

Values are text, numbers, booleans, null, dates, lists and mappings; anchors, aliases and `<<` work as in YAML 1.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import Any

import yaml

from kz_build.core.errors import ConfigError, Problem

Place = tuple[str | int, ...]
Value = str | int | float | bool | date | list[Any] | dict[Any, Any] | None

MOST_BYTES = 256 << 10  # a real pins.yaml has 16 KB
_MOST_VALUES = 10_000  # with those that aliases repeat; a real pins.yaml has 800
_DEEPEST = 50
_LONGEST_NUMBER = 100
_TAG = "tag:yaml.org,2002:"
_TEXTS = (f"{_TAG}str", f"{_TAG}value")  # a bare `=` is YAML's default value
_MERGE = f"{_TAG}merge"


def parse(data: bytes, shown: str) -> tuple[Any, dict[Place, int]]:
    """Return the value of YAML text and the line (from 1) of each path in it.

    Raises ConfigError if it is not YAML, exceeds the bounds, has a value that is none of the above, or a mapping has a key twice.
    """
    return _Reader(shown).read(data)


class _Loader(yaml.SafeLoader):
    """A parser into nodes that refuses what is too deep or too much before it is read."""

    depth = values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.values += 1
        if self.depth > _DEEPEST or self.values > _MOST_VALUES:
            what = f"levels: at most {_DEEPEST}" if self.depth > _DEEPEST else f"values: at most {_MOST_VALUES:,}"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"it has too many {what} are read", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Reader:
    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.lines: dict[Place, int] = {}
        self.repeated: list[Problem] = []
        self.invalid: list[Problem] = []
        self.values = 0
        self.loader = _Loader("")
        self.around: list[yaml.Node] = []
        """The nodes that are being built, from the root down."""

    def read(self, data: bytes) -> tuple[Any, dict[Place, int]]:
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{self.shown} has {len(data):,} bytes; at most {MOST_BYTES:,} are read")
        node = self._compose(data)
        value = self._build(node, ()) if node is not None else None
        if self.repeated:
            raise ConfigError(f"{self.shown} has keys twice", tuple(self.repeated))
        if self.invalid:
            raise ConfigError(f"{self.shown} has values that kz does not read:", tuple(self.invalid))
        return value, self.lines

    def _compose(self, data: bytes) -> yaml.Node | None:
        text = ""
        try:
            text = data.decode("utf-8")
            node: yaml.Node | None = yaml.compose(text, _Loader)
            return node
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{self.shown} is not UTF-8 text", (self._problem(line, str(error)),)) from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._no_yaml(line, f"{error.reason}: {ascii(chr(error.character))}") from error
        except yaml.MarkedYAMLError as error:
            line, why = error.problem_mark.line + 1 if error.problem_mark else 0, str(error.problem)
            if "'\\t'" in why:
                why += "; YAML is indented with spaces"
            elif error.context and error.context_mark and error.context_mark.line + 1 != line:
                why += f" {error.context}, which begins in line {error.context_mark.line + 1}"
            raise self._no_yaml(line, why) from error
        except (
            yaml.YAMLError,
            ValueError,
            OverflowError,
        ) as error:  # an escape that is no character ends in the latter two
            raise self._no_yaml(0, str(error)) from error

    def _no_yaml(self, line: int, text: str) -> ConfigError:
        return ConfigError(f"{self.shown} is not YAML", (self._problem(line, text),))

    def _problem(self, line: int, text: str) -> Problem:
        return Problem(self.shown, line, text)

    def _build(self, node: yaml.Node, place: Place) -> Value:
        self.lines.setdefault(place, _line(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        is_mapping = isinstance(node, yaml.MappingNode)
        if node.tag != _TAG + ("map" if is_mapping else "seq"):
            return self._refuse(node, f"the tag {_shown_tag(node.tag)} is not supported")
        self._enter(node)
        value = self._mapping(node, place) if is_mapping else self._list(node, place)
        self.around.pop()
        return value

    def _enter(self, node: yaml.Node) -> None:
        """Refuse a value that contains itself, or aliases that repeat too much."""
        if any(node is outer for outer in self.around):
            raise self._no_yaml(_line(node), "this value contains itself")
        self.around.append(node)

    def _count(self, node: yaml.Node) -> None:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise self._no_yaml(
                _line(node), f"its aliases repeat this too often: at most {_MOST_VALUES:,} values are read"
            )

    def _list(self, node: yaml.Node, place: Place) -> Value:
        items: list[Value] = []
        for number, item in enumerate(node.value):
            self._count(item)
            items.append(self._build(item, (*place, number)))
        return items

    def _mapping(self, node: yaml.Node, place: Place) -> Value:
        result: dict[Any, Value] = {}
        own: set[Any] = set()
        for key_node, value_node, merged in self._pairs(node):
            self._count(key_node)
            key = self._key(key_node)
            if not merged and key in own:
                self.repeated.append(self._problem(_line(key_node), f"{key} is here a second time"))
            if not merged:
                own.add(key)
            self.lines[(*place, key)] = _line(key_node)
            result[key] = self._build(value_node, (*place, key))
        return result

    def _key(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        return self._refuse(node, "a key must be text")

    def _pairs(self, node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node, bool]]:
        """Yield (key, value, whether `<<` merged it): what a mapping has of its own comes last, and wins."""
        for key, value in node.value:
            if key.tag == _MERGE:
                for source in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
                    if not isinstance(source, yaml.MappingNode):
                        self._refuse(source, "`<<` takes a mapping, or a list of them")
                        continue
                    self._enter(source)
                    for inner_key, inner_value, _ in self._pairs(source):
                        self._count(inner_key)
                        yield inner_key, inner_value, True
                    self.around.pop()
        yield from ((key, value, False) for key, value in node.value if key.tag != _MERGE)

    def _scalar(self, node: yaml.Node) -> Value:
        text = str(node.value)
        if node.tag in _TEXTS or node.tag == _MERGE:
            if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
                return self._refuse(node, "it has a character that no text may have")
            return text
        # Its own tag, not one that was written before it: `!!int x` is no number.
        if node.tag != self.loader.resolve(yaml.ScalarNode, text, (True, False)):  # type: ignore[no-untyped-call]
            return self._refuse(node, f"the tag {_shown_tag(node.tag)} does not fit: write text in quotes")
        try:
            value: Value = self.loader.construct_object(node) if len(text) <= _LONGEST_NUMBER else math.inf
        except (ValueError, OverflowError) as error:
            return self._refuse(node, f"{text} is not a value: {error}; quote it if it is text")
        if isinstance(value, int) and value.bit_length() > 64 or isinstance(value, float) and not math.isfinite(value):
            return self._refuse(node, f"{text[:_LONGEST_NUMBER]} is too large, or no number; quote it if it is text")
        return value

    def _refuse(self, node: yaml.Node, text: str) -> Value:
        """Note what is wrong with a value; None stands in for it."""
        self.invalid.append(self._problem(_line(node), text))
        return None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shown_tag(tag: str) -> str:
    return ascii(tag.replace(_TAG, "!!")[:_LONGEST_NUMBER])
