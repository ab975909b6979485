"""The pins: what a person chose, for one line and one target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from kz_build.core.errors import ConfigError

KINDS = ("git", "wheel", "archive", "image")
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""A valid name of a line, a source or a target: it becomes a folder."""
NATIVE = "kz"
"""The source of kz's own programs, which a cmake project of a target may name."""
RUN_PLACEHOLDERS = ("model", "tokenizer", "prompt", "tokens", "total", "decoder", "eval_mode", "shared_buffer")
"""Names allowed in braces in the argv of a target's runner."""


class Source(NamedTuple):
    """Something upstream that we build from. `kind` is git, wheel, archive or image; `options` as in pins.yaml."""

    name: str
    kind: str
    location: str
    options: Mapping[str, Any]

    def list(self, key: str) -> tuple[str, ...]:
        """Return a list option as a tuple."""
        return tuple(self.options.get(key) or ())


REPLACING = ("folder", "file", "git", "commit", "index", "sha256")
"""The keys of a source in pins.local.yaml that say where it is on this machine."""


@dataclass(frozen=True)
class Replacement:
    """Where this machine takes a source or a submodule from, by pins.local.yaml: one of folder, file, git and index."""

    folder: str = ""
    file: str = ""
    git: str = ""
    commit: str = ""
    index: str = ""
    sha256: str = ""


class JavaSources(TypedDict):
    """The Java side of a target's library: folders of a source, and classes that the library must register."""

    source: str
    paths: list[str]
    classes: list[str]


class Override(NamedTuple):
    """One value that pins.local.yaml changed, as a dotted path."""

    where: str
    value: str


class Pins(NamedTuple):
    """All of pins.yaml with pins.local.yaml over it, validated. `digest` covers both files."""

    data: Mapping[str, Any]
    overrides: tuple[Override, ...]
    digest: str

    @property
    def default(self) -> str:
        """The name of the default line."""
        return str(self.data["default"])

    @property
    def lines(self) -> tuple[str, ...]:
        """The names of all release lines, in the order of the file."""
        return tuple(self.data["lines"])

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of all targets, in the order of the file; the first is the default."""
        return tuple(self.data["targets"])

    @property
    def first_target(self) -> str:
        """The name of the default target. Raises ConfigError if there are no targets."""
        if not self.targets:
            raise ConfigError(
                "pins.yaml has no targets, so there is nothing to build",
                hint="kz's docs/reference/pins.md describes `targets`",
            )
        return self.targets[0]

    @property
    def builders(self) -> tuple[tuple[str, str], ...]:
        """(identity, issuer) of everybody who may sign what is built."""
        return tuple((one["identity"], one["issuer"]) for one in self.data.get("builders", {}).values())

    def line(self, name: str) -> dict[str, str]:
        """Return source -> version of a line. Raises ConfigError for an unknown one."""
        return dict(pick(self.data["lines"], name, "line"))

    def source(self, name: str) -> Source:
        options = pick(self.data["sources"], name, "source")
        kind = next(k for k in KINDS if k in options)
        return Source(name, kind, options[kind], options)

    def place(self, source: str, sources: Collection[str]) -> str:
        """Return the folder of a source below those of a build with `sources`: its own, or that of the submodule it replaces."""
        submodule = str(self.source(source).options.get("submodule") or "")
        return submodule if submodule.split("/")[0] in sources else source

    def target(self, name: str, line: str) -> dict[str, Any]:
        """Return a target's plain form, with its differences on that line merged in.

        Its sources have those of the line that take the place of a submodule, too, unless the target omits that one: with
        upstream's in its place, a library would be built without the patches that `kz verify` judges.
        """
        target = dict(pick(self.data["targets"], name, "target"))
        merged: dict[str, Any] = merge(target, target.get("when", {}).get(line, {}))
        sources, omit = merged["sources"], tuple(merged["omit"])
        places = {
            source: self.place(source, sources) for source in self.data["lines"].get(line, ()) if source not in sources
        }
        replacing = [source for source, at in places.items() if at != source and not f"{at}/".startswith(omit)]
        return {**merged, "sources": [*sources, *replacing]}

    def can_build(self, line: str, target: str) -> bool:
        """Return whether a line has all sources of a target."""
        return set(self.target(target, line)["sources"]) <= set(self.line(line))

    def matrix(self, lines: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
        """Return each (line, target) that can be built, in the order of the file; on all lines if none is named."""
        return tuple(
            (line, target) for line in lines or self.lines for target in self.targets if self.can_build(line, target)
        )

    @property
    def replacements(self) -> Mapping[str, Mapping[str, str]]:
        """The replacements of pins.local.yaml, by source or SOURCE/PATH of a submodule."""
        own: Mapping[str, Mapping[str, str]] = self.data.get("replacements", {})
        return own

    def replacement(self, name: str) -> Replacement | None:
        """Return where this machine takes a source, or the submodule SOURCE/PATH, from; None if it is as pins.yaml says."""
        own = self.replacements.get(name)
        return Replacement(**own) if own else None

    def replaced_submodules(self, source: str) -> dict[str, Replacement]:
        """Return path -> replacement of a source's submodules, nested ones too."""
        own = {name[len(source) + 1 :]: at for name, at in self.replacements.items() if name.startswith(f"{source}/")}
        return {path: Replacement(**at) for path, at in own.items()}

    def changed(self, line: str, source: str) -> bool:
        """Return whether pins.local.yaml changes a source's version or keys; its replacement aside, and its submodules."""
        keys = set(self.data["sources"][source]) - set(REPLACING)
        return any(
            o.where == f"lines.{line}.{source}"
            or (o.where.startswith(f"sources.{source}.") and o.where[len(f"sources.{source}.") :].split(".")[0] in keys)
            for o in self.overrides
        )


def pick(table: Mapping[str, Any], name: str, what: str) -> Any:
    """Return table[name], or raise a ConfigError that lists the names."""
    if name not in table:
        import difflib

        near = difflib.get_close_matches(name, list(table), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(table)}"
        raise ConfigError(f"no {what} named {name!r} in pins.yaml", hint=hint)
    return table[name]


def merge(base: Any, over: Any) -> Any:
    """Merge `over` into `base`: mappings key by key, everything else replaced."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{key: merge(base.get(key), value) for key, value in over.items()}}
    return over


def digest_of(data: Any) -> str:
    """Return the sha256 of a plain value in canonical JSON."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
