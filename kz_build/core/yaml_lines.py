"""YAML that people write, with the line of every value."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kz_build.core.errors import ConfigError, Problem

Place = tuple[str | int, ...]


def parse(data: bytes, shown: str) -> tuple[Any, dict[Place, int]]:
    """Return the value of YAML text and the line (from 1) of each path in it.

    Raises ConfigError if it is not YAML, or a mapping has a key twice.
    """
    import yaml

    try:
        node = yaml.compose(data.decode("utf-8"), yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown} is not UTF-8 text", (Problem(shown, 0, str(error)),)) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigError(f"{shown} is not YAML", (Problem(shown, line, str(error.problem)),)) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{shown} is not YAML", (Problem(shown, 0, str(error)),)) from error
    lines: dict[Place, int] = {}
    repeated: list[Problem] = []
    own_keys: dict[int, set[int]] = {}
    loader = yaml.SafeLoader("")

    def build(node: Any, place: Place) -> Any:
        lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            result: dict[Any, Any] = {}
            # `<<` merges other mappings into the node itself: note its own keys first, once.
            own = own_keys.setdefault(id(node), {id(key_node) for key_node, _ in node.value})
            seen: set[Any] = set()
            loader.flatten_mapping(node)
            for key_node, value_node in node.value:
                key = loader.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable):
                    key = str(key)
                if id(key_node) in own and key in seen:
                    repeated.append(Problem(shown, key_node.start_mark.line + 1, f"{key} is here a second time"))
                if id(key_node) in own:
                    seen.add(key)
                lines[(*place, key)] = key_node.start_mark.line + 1
                result[key] = build(value_node, (*place, key))
            return result
        if isinstance(node, yaml.SequenceNode):
            return [build(item, (*place, i)) for i, item in enumerate(node.value)]
        return loader.construct_object(node, deep=True)

    value = build(node, ()) if node is not None else None
    if repeated:
        raise ConfigError(f"{shown} has keys twice", tuple(repeated))
    return value, lines
