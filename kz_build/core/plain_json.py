"""Results as JSON for programs: dataclasses, tuples and enums as plain values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any


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
