"""A reader of a project's files: pins and lock. It reports all problems at once, each with file and line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kz_build.core.env import cache_root, public_address
from kz_build.core.errors import ConfigError, Problem, similar
from kz_build.core.files import OWN
from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.core.rules import bad_folder
from kz_build.core.transaction import roll_forward
from kz_build.pins.lock_file import Lock, parse_lock
from kz_build.pins.pins import KINDS as SOURCE_KINDS
from kz_build.pins.pins import NATIVE, REPLACING, RUN_PLACEHOLDERS, Override, Pins, merge
from kz_build.pins.project import Project

PINS, LOCAL, LOCK = "pins.yaml", "pins.local.yaml", "pins.lock"
_CODE = [
    Path(__file__).parents[1] / name
    for name in ("pins/load.py", "pins/schema.py", "core/rules.py", "core/validation.py", "core/yaml_lines.py")
]
_STARTED = time.time()
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
Place = tuple[Any, ...]


def load_project(root: Path, *, local: bool = True) -> Project:
    """Read a project, with pins.local.yaml unless `local` is false; an unfinished change of a killed command is finished first.

    Raises ConfigError with every problem of its pins.
    """
    # The name that compilers and getcwd use: a prefix map of another name, with a link or `..`, keeps no path out of a library.
    root = root.resolve()
    if not root.is_dir():
        raise ConfigError(f"there is no folder {root}")
    if not (root / PINS).is_file():
        hint = "`kz -C FOLDER …` names a project; `kz init ADDRESS` starts one here"
        if above := next((folder for folder in root.parents if (folder / PINS).is_file()), None):
            hint = f"a project above it is another user's: `kz -C {shlex.quote(os.path.relpath(above))} …`"
        raise ConfigError(f"{root} is not a kz project: it has no {PINS}", hint=hint)
    roll_forward(root)
    store = cache_root()
    text = (root / PINS).read_bytes()
    over = (root / LOCAL).read_bytes() if local and (root / LOCAL).is_file() else b""
    digest = hashlib.sha256(b"\0".join((_rules(), text, over))).hexdigest()
    cached = store / "validated" / f"{digest}.json"
    plain = read_cached(cached)
    if plain is None:
        plain = _validate(root, local and (root / LOCAL).is_file())
        if _public(plain) == plain and _code_is_as_it_started():  # no file of the store has a password
            write_cached(cached, plain, OWN)
    plain = _public(plain)
    overrides = tuple(Override(**o) for o in plain["overrides"])
    lock_file = root / LOCK
    lock = parse_lock(lock_file.read_bytes(), LOCK) if lock_file.is_file() else Lock({})
    return Project(root, store, Pins(plain["pins"], overrides, digest), lock)


def executorch_of(path: Path) -> str:
    """Return the ExecuTorch version that a `dist/<line>/<target>` of a project was built from: its line's pin; '' elsewhere."""
    for folder in (path.absolute(), *path.absolute().parents):
        line, dist = folder.parent, folder.parent.parent
        if dist.name == "dist" and (dist.parent / PINS).is_file():
            return load_project(dist.parent).pins.line(line.name).get("executorch", "")
    return ""


def _public(value: Any) -> Any:
    """Return plain data with its addresses public: what is known of the pins has no password from here on."""
    if isinstance(value, dict):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_public(item) for item in value]
    return public_address(value) if isinstance(value, str) and "://" in value else value


def _rules() -> bytes:
    """Return what a validation depends on besides the file: the schema, its rules and this code, to the byte."""
    return b"".join(path.read_bytes() for path in _CODE)


def _code_is_as_it_started() -> bool:
    """Return whether the rules' files are what this process runs, or a checkout of another kz came in between."""
    return all(path.stat().st_mtime < _STARTED for path in _CODE)


def _validate(root: Path, local: bool) -> dict[str, Any]:
    from kz_build.core.validation import fields
    from kz_build.core.yaml_lines import parse
    from kz_build.pins.schema import Pins as Schema
    from kz_build.pins.schema import validate

    data, lines = parse((root / PINS).read_bytes(), PINS)
    where: dict[Place, tuple[str, int]] = {place: (PINS, line) for place, line in lines.items()}
    overrides: list[Override] = []
    replacements: dict[str, Any] = {}
    problems: list[Problem] = []
    if isinstance(data, dict):
        problems += _local_only(data, where)
    if local:
        over, over_lines = parse((root / LOCAL).read_bytes(), LOCAL)
        where.update({place: (LOCAL, line) for place, line in over_lines.items()})
        if over is not None and not isinstance(over, dict):
            raise ConfigError(f"{LOCAL} is wrong", (Problem(LOCAL, 1, "must be a mapping"),))
        overrides = [Override(path, value) for path, value in _leaves(over or {})]
        if isinstance(data, dict):
            problems += _other_kinds(data, over or {}, where)
            data, replacements = _override(data, over or {})
    plain, invalid = validate(data, replacements)
    keys = sorted(fields(Schema)) if invalid else ()
    problems += [_problem(place, text, bad, where, keys) for place, text, bad in invalid]
    if plain is not None:
        problems += _cross_check(plain, where)
    if problems:
        raise ConfigError(
            "the pins are wrong:",
            tuple(sorted(set(problems))),
            hint="kz's docs/reference/pins.md describes every key; `kz schema` prints the schema for your editor",
        )
    return {"pins": plain, "overrides": [o._asdict() for o in overrides]}


def _local_only(data: dict[str, Any], where: dict[Place, tuple[str, int]]) -> list[Problem]:
    return [
        Problem(*where[("sources", name, key)], f"`{key}` is of one machine and belongs in {LOCAL}")
        for name, source in _mappings(data.get("sources"))
        for key in ("folder", "file", "commit", "sha256")
        if key in source
    ]


def _other_kinds(data: dict[str, Any], over: dict[str, Any], where: dict[Place, tuple[str, int]]) -> Iterator[Problem]:
    pinned = dict(_mappings(data.get("sources")))
    for name, source in _mappings(over.get("sources")):
        for kind in set(SOURCE_KINDS) - set(REPLACING) - set(pinned.get(name, SOURCE_KINDS)):
            if kind in source:
                text = f"{PINS} has {name} as another kind: `folder`, `file`, `git` and `index` say where it is here"
                yield _problem(("sources", name, kind), text, "", where)


def _override(data: dict[str, Any], over: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pins with local values merged over them, and what says where a source of theirs, or a submodule, is here."""
    pinned = dict(_mappings(data.get("sources")))
    replacements: dict[str, Any] = {}
    sources: Any = over.get("sources")
    for name, source in _mappings(sources):
        if "/" in name or name in pinned:
            here = {key: value for key, value in source.items() if "/" in name or key in REPLACING}
            if here or "/" in name:
                replacements[name] = here
                sources = {**sources, name: {key: value for key, value in source.items() if key not in here}}
    if replacements:
        over = {**over, "sources": {n: s for n, s in sources.items() if s != {} or n not in replacements}}
    return merge(data, over), replacements


def _mappings(data: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names with a mapping in what may be no mapping itself."""
    for name, value in data.items() if isinstance(data, dict) else ():
        if isinstance(name, str) and isinstance(value, dict):
            yield name, value


def _leaves(data: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(data, dict):
        return [leaf for key, value in data.items() for leaf in _leaves(value, f"{path}.{key}" if path else str(key))]
    return [(path, data if isinstance(data, str) else json.dumps(data, default=str))]


def _problem(
    place: Place, text: str, bad: str, where: dict[Place, tuple[str, int]], known: Iterable[str] = ()
) -> Problem:
    """Return a problem at the nearest known place, with the known word that `bad` is nearly."""
    at: Place = place
    while at and at not in where:
        at = at[:-1]
    text += similar(bad, [word for word in known if word != bad])
    return Problem(*where.get(at, (PINS, 0)), f"{'.'.join(map(str, place)) or 'file'}: {text}")


def _cross_check(plain: dict[str, Any], where: dict[Place, tuple[str, int]]) -> list[Problem]:
    """Check references between the parts, which a schema cannot."""
    problems: list[Problem] = []

    def need(name: str, there: Iterable[str], what: str, place: Place) -> None:
        if name not in there:
            problems.append(_problem(place, f"there is no {what} {name!r}", name, where, there))

    need(plain["default"], plain["lines"], "line", ("default",))
    for line, pins in plain["lines"].items():
        for source in pins:
            need(source, plain["sources"], "source", ("lines", line, source))
    for name, source in plain["sources"].items():
        if submodule := source.get("submodule"):
            parent, _, path = submodule.partition("/")
            need(parent, plain["sources"], "source", ("sources", name, "submodule"))
            listed = plain["sources"].get(parent, {}).get("submodules") or ()
            if parent in plain["sources"] and not any(f"{path}/".startswith(f"{one}/") for one in listed):
                text = f"{path!r} is none of the `submodules` of {parent}, nor nested in one"
                problems.append(_problem(("sources", name, "submodule"), text, path, where, listed))
    problems += _bad_replacements(plain, where)
    for name, target in plain["targets"].items():
        place = ("targets", name)
        for i, source in enumerate(target["sources"]):
            need(source, plain["sources"], "source", (*place, "sources", i))
        if target["container"] and (base := target["container"]["base"]):
            need(base, plain["sources"], "source", (*place, "container", "base"))
        if target["package"]:
            need(target["package"]["aar"], plain["sources"], "source", (*place, "package", "aar"))
        for line in target["when"]:
            need(line, plain["lines"], "line", (*place, "when", line))
        allowed = {
            *target["sources"],
            "jobs",
            "arch",
            "ARCH",
            "python",
            "project",
            "cache",
            *(f"{s}.file" for s in target["sources"]),
            *(f"{folder}.{p}" for folder in ("build", "install") for p in target["cmake"]),
        }
        for leaf, text in _leaves(
            {k: v for k, v in target.items() if k not in ("when", "audit", "needs", "package", "device")}
        ):
            for used in PLACEHOLDER.findall(text):
                need(used, allowed, "placeholder", (*place, *leaf.split(".")))
        for i, word in enumerate(target["device"]["run"] if target["device"] else ()):
            for used in PLACEHOLDER.findall(word):
                need(used, RUN_PLACEHOLDERS, "placeholder", (*place, "device", "run", i))
        for project, cmake in target["cmake"].items():
            need(
                cmake["source"].split("/")[0],
                (*target["sources"], NATIVE),
                "source of this target",
                (*place, "cmake", project, "source"),
            )
    return problems


def _bad_replacements(plain: dict[str, Any], where: dict[Place, tuple[str, int]]) -> Iterator[Problem]:
    """Yield a problem for each replacement that its source, or submodule, cannot have."""
    for name, own in plain["replacements"].items():
        source, _, path = name.partition("/")
        pinned = plain["sources"].get(source)
        kind = next((kind for kind in SOURCE_KINDS if pinned and kind in pinned), "")
        wrong, word = "", ""
        known: Iterable[str] = ()
        if path and (bad := bad_folder(path)):
            wrong = f"as a path, {path} {bad}"
        elif path and kind != "git":
            wrong = f"there is no git source {source!r}, so no submodule of it"
            word, known = source, [n for n, s in plain["sources"].items() if "git" in s]
        elif path and not any(f"{path}/".startswith(f"{one}/") for one in pinned["submodules"]):
            wrong = f"{source} takes no submodule {path}: it is not in `submodules` of pins.yaml, nor below one of them"
            word, known = path, pinned["submodules"]
        elif kind == "image":
            wrong = "an image has no place in pins.local.yaml: BASE_IMAGE=NAME takes one that the daemon has"
        elif own["index"] and kind != "wheel":
            wrong = f"an index is for wheels, and this is {'a submodule' if path else f'of kind {kind}'}"
        elif own["git"] and kind != "git" and not own["commit"]:
            wrong = f"{name} from git needs `commit` too: its pin is no commit"
        if wrong:
            yield _problem(("sources", name), wrong, word, where, known)
