"""The record that a stage leaves, last: the key of its inputs, the inputs, the files that it made, and other facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kz_build.core import plain_json
from kz_build.core.errors import LockError
from kz_build.core.escape import without_secrets
from kz_build.core.files import sha256_file, write_atomic
from kz_build.core.rules import unsafe_path

MOST_BYTES = 16 << 20
"""A longer file is no record: the largest, of an export, has some hundred kilobytes."""
_INPUTS = frozenset(("aar", "canonical", "contract", "engine_why", "overrides", "recipe", "sources", "stacks"))
"""The names of a record's inputs; the file has them beside all else."""
_KINDS = (str, int | None, str, str | None)
_Kind = TypeVar("_Kind")


class Output(NamedTuple):
    """A file that a stage made. `profile` says how it is audited; `size` and `build_id` are None if not recorded."""

    sha256: str
    size: int | None = None
    profile: str = ""
    build_id: str | None = None


@dataclass(frozen=True)
class StageRecord:
    """`key` is the digest of all that can change the outputs. A stage whose own code can change them has a CACHE_EPOCH
    in its key: a number to raise with such a change.

    `outputs` are by their path in the stage's folder; the path of a stage's only file is ''.
    """

    path: Path
    key: str
    inputs: Mapping[str, object] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    def get(self, name: str, kind: type[_Kind]) -> _Kind:
        """Return an input or a fact. Raises LockError if there is none of that type."""
        value = self.inputs.get(name, self.facts.get(name))
        if not isinstance(value, kind):
            raise LockError(f"{self.path} was not written by kz: {name} is no {kind.__name__}", hint="remove that file")
        return value

    def plain(self) -> dict[str, Any]:
        """Return the record as plain values for JSON."""
        known = {name: _without_defaults(output) for name, output in self.outputs.items()}
        only = known.pop("", {})
        files = {name: facts if len(facts) > 1 else facts["sha256"] for name, facts in known.items()}
        return {**self.facts, **self.inputs, **({"files": files} if files else {}), **only, "key": self.key}

    def save(self) -> None:
        """Write the record atomically; the caller has written all that it lists."""
        text = json.dumps(self.plain(), indent=1, sort_keys=True)
        write_atomic(self.path, without_secrets(text).encode() + b"\n")


def load(path: Path, key: str) -> StageRecord | None:
    """Read a record; return None if it is absent, damaged, too large, or has another key."""
    record = load_any(path)
    return record if record and record.key == key else None


def load_any(path: Path) -> StageRecord | None:
    """Read a record with any key; return None if it is absent, damaged or too large. Raises OSError if the disk does not give it."""
    try:
        return _record(path, plain_json.read(path, MOST_BYTES))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def beside(file: Path) -> Path:
    """Return the path of the record of a single file."""
    return file.with_name(f"{file.name}.json")


def changed(folder: Path, outputs: Mapping[str, Output], digest: Callable[[Path], str] = sha256_file) -> Path | None:
    """Return the first file in `folder` that is not what a stage made; None if all are."""
    for name, output in outputs.items():
        path = folder / name
        try:
            same = output.size in (None, path.stat().st_size) and path.is_file() and digest(path) == output.sha256
        except (FileNotFoundError, NotADirectoryError):  # another kz may be replacing the folder
            same = False
        if not same:
            return path
    return None


def _record(path: Path, data: dict[str, Any]) -> StageRecord:
    key = data.pop("key")
    outputs = {name: _output(facts) for name, facts in data.pop("files", {}).items()}
    if not isinstance(key, str) or any(map(unsafe_path, outputs)):
        raise ValueError(path)
    if "sha256" in data:
        outputs[""] = _output({"sha256": data.pop("sha256"), "size": data.pop("size", None)})
    inputs = {name: data.pop(name) for name in _INPUTS & data.keys()}
    return StageRecord(path, key, inputs, outputs, data)


def _output(facts: Any) -> Output:
    output = Output(facts) if isinstance(facts, str) else Output(**facts)
    if not all(isinstance(value, kind) for value, kind in zip(output, _KINDS, strict=True)):
        raise TypeError(facts)
    return output


def _without_defaults(output: Output) -> dict[str, object]:
    return {name: value for name, value in output._asdict().items() if value != Output._field_defaults.get(name)}
