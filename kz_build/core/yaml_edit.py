"""Edits of one place in a YAML file that people write: all other bytes stay, comments included."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kz_build.core.errors import ConfigError


def with_value(text: str, place: tuple[str, ...], value: str) -> str:
    """Return `text` with the scalar at `place` set. Raises ConfigError if there is no plain value to set."""
    _, node = _find(text, place)
    changed = text[: node.start_mark.index] + _scalar(value) + text[node.end_mark.index :]
    return _verified(text, changed, place, lambda data: _set(data, place, value))


def with_copy(text: str, place: tuple[str, ...], name: str, **values: str) -> str:
    """Return `text` with a copy of the mapping at `place` beside it, under another name, with `values` set in it."""
    key, node = _find(text, place)
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    block = _block(text, start, node.end_mark.index, key.start_mark.column)
    at = key.start_mark.index - start
    copy = block[:at] + _scalar(name) + _without_anchors(block[at + key.end_mark.index - key.start_mark.index :])
    glue = "" if block.endswith("\n") else "\n"
    changed = text[: start + len(block)] + glue + copy + text[start + len(block) :]
    own = (*place[:-1], name)

    def expected(data: Any) -> None:
        above = _at(data, place[:-1])
        above[name] = dict(above[place[-1]])

    changed = _verified(text, changed, own, expected)
    for field, value in values.items():
        changed = with_value(changed, (*own, field), value)
    return changed


def without_keys(text: str, keep: Collection[str]) -> tuple[str, list[str]]:
    """Return `text`, a mapping, without the keys not in `keep`, and those keys; the comment lines above them stay."""
    import yaml

    node = yaml.compose(text, _loader())
    removed: list[str] = []
    for key, value in reversed(node.value if isinstance(node, yaml.MappingNode) else []):
        if key.value not in keep:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            block = _block(text, start, value.end_mark.index, key.start_mark.column)
            text = text[:start] + text[start + len(block) :]
            removed.insert(0, key.value)
    return text, removed


def _loader() -> Any:
    """Return libyaml's loader if PyYAML has it: a file is parsed several times, and the Python loader takes 15 times as long."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _find(text: str, place: tuple[str, ...]) -> tuple[Any, Any]:
    """Return (key node, value node) of a path of keys."""
    import yaml

    key, node = None, yaml.compose(text, _loader())
    for name in place:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        key, node = next(((k, v) for k, v in pairs if k.value == name), (None, None))
        if node is None:
            raise ConfigError(f"pins.yaml: {'.'.join(place)} has no entry of its own", hint="edit it by hand")
    return key, node


def _block(text: str, start: int, end: int, column: int) -> str:
    """Return the whole lines of an entry, without what follows it, such as its neighbour's comments."""
    begun = text.rfind("\n", 0, end) + 1
    stop = (text.find("\n", end) + 1 or len(text)) if text[begun:end].strip() else begun
    lines = text[start:stop].splitlines(keepends=True)
    while len(lines) > 1:
        last = lines[-1]
        if last.strip() and not (last.lstrip().startswith("#") and len(last) - len(last.lstrip()) <= column):
            break
        lines.pop()
    return "".join(lines)


def _without_anchors(text: str) -> str:
    import yaml

    # The key was cut off the front; `x` stands in for it, so that the scanner sees a mapping.
    spots = [t for t in yaml.scan("x" + text, _loader()) if isinstance(t, yaml.AnchorToken)]
    for token in reversed(spots):
        # With the blank before it: the anchor may end its line.
        text = text[: token.start_mark.index - 1].rstrip(" ") + text[token.end_mark.index - 1 :]
    return text


def _scalar(value: str) -> str:
    import yaml

    return str(yaml.safe_dump(value, width=1000)).split("\n...", 1)[0].strip()


def _at(data: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        data = data[name]
    return data


def _set(data: Any, place: tuple[str, ...], value: str) -> None:
    _at(data, place[:-1])[place[-1]] = value


def _unshared(data: Any) -> Any:
    """Return a copy in which aliases share nothing: a change at one place must not change the other."""
    if isinstance(data, dict):
        return {key: _unshared(value) for key, value in data.items()}
    return [_unshared(value) for value in data] if isinstance(data, list) else data


def _verified(before: str, after: str, place: tuple[str, ...], change: Any) -> str:
    """Return the edited text, if it has exactly the expected values."""
    import yaml

    expected = _unshared(yaml.load(before, _loader()))
    change(expected)
    try:
        actual = yaml.load(after, _loader())
    except yaml.YAMLError:
        actual = None
    if actual != expected:
        raise ConfigError(f"pins.yaml: {'.'.join(place)} has a form that kz cannot edit", hint="edit it by hand")
    return after
