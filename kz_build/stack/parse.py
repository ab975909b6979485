"""Reading stacks: patches and checks. All problems at once, each with file and line."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kz_build.core.env import cache_root
from kz_build.core.errors import ConfigError, Problem
from kz_build.core.files import write_atomic
from kz_build.patch.apply import Stack
from kz_build.patch.change import Patch
from kz_build.patch.intent_checks import KINDS, IntentCheck
from kz_build.patch.mail import parse_patch
from kz_build.stack.files import StackFiles, read_files


def load_stack(root: Path, line: str, source: str, folder: str = "") -> Stack | None:
    """Read a stack in patches/LINE/SOURCE, or a quilt stack of others in `folder`; None where there is none."""
    own = f"patches/{line}/{source}"
    found = read_files(root, line, source, folder or own, foreign=folder not in ("", own))
    return parse_stack(found) if found else None


def parse_stack(read: StackFiles) -> Stack:
    """What the files of a stack say. Raises ConfigError naming file and line."""
    problems: list[Problem] = []
    patches = []
    for name, parse in _parsers(read):
        try:
            patches.append(replace(parse(f"{read.folder}/{name}", read.files[name]), name=name))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(
            f"the stack {read.folder} cannot be read:",
            tuple(problems),
            hint="" if read.foreign else "make patch files with `git format-patch --full-index --binary`",
        )
    checks: tuple[IntentCheck, ...] = ()
    if "checks.yaml" in read.files:
        checks = _checks(read.files["checks.yaml"], f"{read.folder}/checks.yaml", {p.slug for p in patches})
    return Stack(read.line, read.source, read.folder, tuple(patches), checks, read.digest)


def _parsers(read: StackFiles) -> Iterator[tuple[str, Callable[[str, bytes], Patch]]]:
    if not read.foreign:
        yield from ((name, parse_patch) for name in read.patches)
        return
    from kz_build.patch.quilt import parse_foreign, read_series

    for entry in read_series(read.files["series"].decode("utf-8", "replace"), f"{read.folder}/series"):
        yield entry.name, partial(parse_foreign, entry)


def _checks(text: bytes, shown: str, slugs: set[str]) -> tuple[IntentCheck, ...]:
    cached = cache_root() / "validated" / f"{hashlib.sha256(_rules() + text + shown.encode()).hexdigest()}.json"
    try:
        rows = json.loads(cached.read_bytes())
    except (FileNotFoundError, ValueError):
        rows = _read_checks(text, shown)
        write_atomic(cached, json.dumps(rows).encode())
    unknown = sorted({row[0] for row in rows} - slugs)
    if unknown:
        raise ConfigError(
            f"{shown} is wrong:", tuple(Problem(shown, 0, f"{slug}: the stack has no such patch") for slug in unknown)
        )
    return tuple(
        IntentCheck(slug, kind, file, tuple(fields.items()), where) for slug, kind, file, fields, where in rows
    )


def _rules() -> bytes:
    """What a reading stands on beside the file: this code, to the byte."""
    return b"".join(
        (Path(__file__).parents[1] / name).read_bytes() for name in ("stack/parse.py", "core/yaml_lines.py")
    )


def _read_checks(text: bytes, shown: str) -> list[list[Any]]:
    from kz_build.core.yaml_lines import parse

    data, lines = parse(text, shown)
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
