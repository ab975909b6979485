"""Reading a project's files: pins, lock, stacks. All problems at once, each with file and line."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kz_build.adapters.environment import cache_root
from kz_build.adapters.files import write_atomic
from kz_build.adapters.record import roll_forward
from kz_build.model.errors import ConfigError, Problem
from kz_build.model.intent import KINDS, Check
from kz_build.model.lock import Lock, parse_lock
from kz_build.model.mail import parse_patch
from kz_build.model.patch import Patch
from kz_build.model.pins import KINDS as SOURCE_KINDS
from kz_build.model.pins import Override, Pins, merge
from kz_build.model.project import Project
from kz_build.model.stack import Stack, stack_digest

PINS, LOCAL, LOCK = "pins.yaml", "pins.local.yaml", "pins.lock"
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
Place = tuple[Any, ...]


def load_project(root: Path, *, local: bool = True) -> Project:
    """Read a project, with pins.local.yaml unless `local` is false; what a killed command left unfinished is finished first.

    Raises ConfigError with every problem of its pins.
    """
    root = root.absolute()
    if not (root / PINS).is_file():
        raise ConfigError(f"{root} is not a kz project: it has no {PINS}", hint="name one with -C FOLDER")
    roll_forward(root)
    store = cache_root()
    text = (root / PINS).read_bytes()
    over = (root / LOCAL).read_bytes() if local and (root / LOCAL).is_file() else b""
    digest = hashlib.sha256(b"\0".join((_rules(), text, over))).hexdigest()
    cached = store / "validated" / f"{digest}.json"
    try:
        plain = json.loads(cached.read_bytes())
    except (FileNotFoundError, ValueError):
        plain = _validate(root, local and (root / LOCAL).is_file())
        write_atomic(cached, json.dumps(plain).encode())
    overrides = tuple(Override(**o) for o in plain["overrides"])
    lock_file = root / LOCK
    lock = parse_lock(lock_file.read_text(), LOCK) if lock_file.is_file() else Lock({})
    return Project(root, store, Pins(plain["pins"], overrides, digest), lock)


def _rules() -> bytes:
    """What a validation stands on beside the file: the schema and this code, to the byte."""
    return (
        Path(__file__).read_bytes()
        + Path(__file__).with_name("yamlfile.py").read_bytes()
        + (Path(__file__).parents[1] / "model" / "schema.py").read_bytes()
    )


def _validate(root: Path, local: bool) -> dict[str, Any]:
    from kz_build.adapters.yamlfile import load
    from kz_build.model.schema import FIELDS, validate

    data, lines = load(root / PINS, PINS)
    where: dict[Place, tuple[str, int]] = {place: (PINS, line) for place, line in lines.items()}
    overrides: list[Override] = []
    problems: list[Problem] = []
    if isinstance(data, dict):
        problems += _local_only(data, where)
    if local:
        over, over_lines = load(root / LOCAL, LOCAL)
        where.update({place: (LOCAL, line) for place, line in over_lines.items()})
        if over is not None and not isinstance(over, dict):
            raise ConfigError(f"{LOCAL} is wrong", (Problem(LOCAL, 1, "must be a mapping"),))
        overrides = [Override(path, value) for path, value in _leaves(over or {})]
        data = _override(data, over or {})
    plain, found = validate(data)
    problems += [_problem(place, text, bad, where, FIELDS) for place, text, bad in found]
    if plain is not None:
        problems += _cross_check(plain, where)
    if problems:
        raise ConfigError(
            "the pins are wrong:",
            tuple(sorted(set(problems), key=lambda p: (p.file, p.line))),
            hint="docs/pins.md describes every key; `kz schema` prints the schema for your editor",
        )
    return {"pins": plain, "overrides": [o.__dict__ for o in overrides]}


def _local_only(data: dict[str, Any], where: dict[Place, tuple[str, int]]) -> list[Problem]:
    found = [Problem(*where[("submodules",)], f"`submodules` belongs into {LOCAL}")] if "submodules" in data else []
    sources = data.get("sources")
    for name, source in sources.items() if isinstance(sources, dict) else ():
        if isinstance(source, dict) and "folder" in source:
            found.append(Problem(*where[("sources", name, "folder")], f"a folder of one machine belongs into {LOCAL}"))
    return found


def _override(data: Any, over: Any) -> Any:
    """Local values over the pins; a source that names another kind of place is replaced whole."""
    merged = merge(data, over)
    for name, source in (over.get("sources") or {}).items():
        if isinstance(source, dict) and "folder" in source:
            merged["sources"][name] = source
        elif isinstance(source, dict) and any(kind in source for kind in SOURCE_KINDS):
            kept = {k: v for k, v in merged["sources"][name].items() if k not in SOURCE_KINDS or k in source}
            merged["sources"][name] = kept
    return merged


def _leaves(data: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(data, dict):
        return [leaf for key, value in data.items() for leaf in _leaves(value, f"{path}.{key}" if path else str(key))]
    return [(path, data if isinstance(data, str) else json.dumps(data))]


def _problem(
    place: Place, text: str, bad: str, where: dict[Place, tuple[str, int]], fields: dict[str, list[str]]
) -> Problem:
    known: Place = place
    while known and known not in where:
        known = known[:-1]
    file, line = where.get(known, (PINS, 0))
    name = ".".join(map(str, place))
    if bad:
        near = difflib.get_close_matches(bad, sorted({f for names in fields.values() for f in names}), 1, 0.6)
        text += f"; did you mean {near[0]}?" if near else ""
    return Problem(file, line, f"{name}: {text}")


def _cross_check(plain: dict[str, Any], where: dict[Place, tuple[str, int]]) -> list[Problem]:
    """References between the parts, which a schema cannot hold."""
    found: list[Problem] = []

    def need(name: str, there: Any, what: str, place: Place) -> None:
        if name in there:
            return
        known = place
        while known and known not in where:
            known = known[:-1]
        near = difflib.get_close_matches(name, list(there), 1)
        file, line = where.get(known, (PINS, 0))
        found.append(
            Problem(
                file,
                line,
                f"{'.'.join(map(str, place))}: there is no {what} {name!r}"
                + (f"; did you mean {near[0]}?" if near else ""),
            )
        )

    need(plain["default"], plain["lines"], "line", ("default",))
    for line, pins in plain["lines"].items():
        for source in pins:
            need(source, plain["sources"], "source", ("lines", line, source))
    for name, target in plain["targets"].items():
        place = ("targets", name)
        for i, source in enumerate(target["sources"]):
            need(source, plain["sources"], "source", (*place, "sources", i))
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
        for leaf, text in _leaves({k: v for k, v in target.items() if k not in ("when", "audit", "needs")}):
            for used in PLACEHOLDER.findall(text):
                need(used, allowed, "placeholder", (*place, *leaf.split(".")))
        for project, cmake in target["cmake"].items():
            need(
                cmake["source"].split("/")[0],
                target["sources"],
                "source of this target",
                (*place, "cmake", project, "source"),
            )
    return found


# --- stacks ------------------------------------------------------------------------------------------------------


def stack_sources(root: Path, line: str) -> tuple[str, ...]:
    """Names of the sources that have a stack on this line."""
    folder = root / "patches" / line
    return tuple(sorted(p.parent.name for p in folder.glob("*/series"))) if folder.is_dir() else ()


def load_stack(root: Path, line: str, source: str, folder: str = "") -> Stack | None:
    """Read the stack of a source, None where it has none. Raises ConfigError naming file and line.

    `folder` is a quilt stack that is not ours, by its path in the project: any names, -pN and -R, and patches read and
    applied as GNU patch does it.
    """
    path = root / (folder or f"patches/{line}/{source}")
    if not (path / "series").is_file():
        return None
    shown = path.relative_to(root).as_posix()
    files = {"series": (path / "series").read_bytes()}
    problems: list[Problem] = []
    patches = []
    for name, read in _foreign(path, shown) if folder else ((name, parse_patch) for name in _series(path, shown)):
        try:
            files[name] = _patch_file(path / name, f"{shown}/series")
            patches.append(replace(read(f"{shown}/{name}", files[name]), name=name))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(
            f"the stack {shown} cannot be read:",
            tuple(problems),
            hint="" if folder else "make patch files with `git format-patch --full-index --binary`",
        )
    checks: tuple[Check, ...] = ()
    if (path / "checks.yaml").is_file():
        files["checks.yaml"] = (path / "checks.yaml").read_bytes()
        slugs = {p.slug for p in patches}
        checks = _checks(path / "checks.yaml", f"{shown}/checks.yaml", files["checks.yaml"], slugs)
    return Stack(line, source, shown, tuple(patches), checks, stack_digest(files))


def _foreign(folder: Path, shown: str) -> Iterator[tuple[str, Callable[[str, bytes], Patch]]]:
    from kz_build.model.quilt import parse_foreign, read_series

    for entry in read_series((folder / "series").read_text(errors="replace"), f"{shown}/series"):
        yield entry.name, partial(parse_foreign, entry)


def _patch_file(path: Path, series: str) -> bytes:
    """A patch file's bytes, unpacked where quilt unpacks it."""
    if not path.is_file():
        raise ConfigError("", (Problem(series, 0, f"{path.name}: there is no such file"),))
    data = path.read_bytes()
    if path.suffix in (".gz", ".bz2", ".xz"):
        import importlib

        name = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}[path.suffix]
        data = importlib.import_module(name).decompress(data)
    return data


def _series(folder: Path, shown: str) -> list[str]:
    names: list[str] = []
    problems: list[Problem] = []
    for number, raw in enumerate((folder / "series").read_text().splitlines(), 1):
        words = raw.split("#", 1)[0].split()
        if not words:
            continue
        name = words[0]
        if len(words) > 1:
            problems.append(
                Problem(
                    f"{shown}/series", number, f"{name}: options ({' '.join(words[1:])}) are not taken; patches are -p1"
                )
            )
        elif "/" in name or name in names:
            problems.append(
                Problem(
                    f"{shown}/series", number, f"{name}: {'stands twice' if name in names else 'is not a file name'}"
                )
            )
        elif not (folder / name).is_file():
            problems.append(Problem(f"{shown}/series", number, f"{name}: there is no such file"))
        names.append(name)
    left = sorted(p.name for p in folder.glob("*.patch") if p.name not in names)
    problems += [Problem(f"{shown}/series", 0, f"{name} lies in the folder but is not in the series") for name in left]
    if names != sorted(names):
        problems.append(
            Problem(
                f"{shown}/series", 0, "the order differs from the order of the file names, which `git am *.patch` takes"
            )
        )
    if problems:
        raise ConfigError(f"the series of {shown} is wrong:", tuple(problems))
    return names


def _checks(path: Path, shown: str, text: bytes, slugs: set[str]) -> tuple[Check, ...]:
    cached = cache_root() / "validated" / f"{hashlib.sha256(_rules() + text + shown.encode()).hexdigest()}.json"
    try:
        rows = json.loads(cached.read_bytes())
    except (FileNotFoundError, ValueError):
        rows = _read_checks(path, shown)
        write_atomic(cached, json.dumps(rows).encode())
    unknown = sorted({row[0] for row in rows} - slugs)
    if unknown:
        raise ConfigError(
            f"{shown} is wrong:", tuple(Problem(shown, 0, f"{slug}: the stack has no such patch") for slug in unknown)
        )
    return tuple(Check(slug, kind, file, tuple(fields.items()), where) for slug, kind, file, fields, where in rows)


def _read_checks(path: Path, shown: str) -> list[list[Any]]:
    from kz_build.adapters.yamlfile import load

    data, lines = load(path, shown)
    rows: list[list[Any]] = []
    problems: list[Problem] = []
    for slug, items in data.items() if isinstance(data, dict) else ():
        for i, item in enumerate(items if isinstance(items, list) else ()):
            line = lines.get((slug, i), 0)
            if not (isinstance(item, dict) and len(item) == 1 and isinstance(next(iter(item.values())), dict)):
                problems.append(
                    Problem(shown, line, "a check is one kind with its fields: `- contains: {file: …, text: …}`")
                )
                continue
            kind, fields = next(iter(item.items()))
            if kind not in KINDS:
                near = difflib.get_close_matches(str(kind), list(KINDS), 1)
                problems.append(
                    Problem(shown, line, f"unknown kind {kind!r}" + (f"; did you mean {near[0]}?" if near else ""))
                )
                continue
            needed, optional = KINDS[kind]
            problems += [
                Problem(shown, line, f"{kind}: `{f}` is missing") for f in sorted(({"file"} | needed) - set(fields))
            ]
            problems += [
                Problem(shown, line, f"{kind}: unknown field {f!r}")
                for f in fields
                if f not in {"file"} | needed | optional
            ]
            rows.append(
                [
                    slug,
                    kind,
                    fields.get("file", ""),
                    {k: v for k, v in fields.items() if k != "file"},
                    f"{shown}:{line}",
                ]
            )
    if not isinstance(data, dict):
        problems.append(Problem(shown, 0, "must map each patch's name to a list of checks"))
    if problems:
        raise ConfigError(f"{shown} is wrong:", tuple(problems), hint="docs/patches.md lists the six kinds")
    return rows
