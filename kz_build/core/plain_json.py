"""Results as JSON for programs: dataclasses, tuples and enums as plain values; and anyone's JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

DEEPEST = 60
"""Levels of a document of somebody else's; kz's have ten. Those that check, compare or write deeper ones end with a RecursionError."""


def plain(value: object) -> Any:
    """Convert dataclasses, paths and enums to plain values, a value with `as_json` (a check) by that."""
    if as_json := getattr(value, "as_json", None):
        return plain(as_json())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a NamedTuple
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def text(value: object) -> str:
    """Return any result as indented JSON with sorted keys."""
    return json.dumps(plain(value), indent=1, sort_keys=True)


def parsed(data: bytes) -> Any:
    """Return anyone's JSON. Raises ValueError for what is none, or is nested deeper than DEEPEST."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("is nested too deep") from error
    level = [value]
    for _ in range(DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [one for values in inner for one in values]
        if not level:
            return value
    raise ValueError("is nested too deep")


def read(path: Path, most: int) -> Any:
    """Return the JSON of a file that anyone may have written. Raises ValueError for what is none, is longer than `most` bytes or nested deeper than DEEPEST, and OSError."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is larger than {most >> 20} MB")
    return parsed(data)
