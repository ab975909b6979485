"""A reader of stacks: patches and checks. It reports all problems at once, each with file and line."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kz_build.core.env import cache_root
from kz_build.core.errors import ConfigError, Problem, similar
from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.patch.apply import Stack
from kz_build.patch.change import Patch
from kz_build.patch.intent_checks import KINDS, IntentCheck
from kz_build.patch.mail import parse_patch
from kz_build.stack.files import StackFiles, foreign_hint, rules_name

CACHE_EPOCH = 1
"""Raise it if a checks.yaml is read in another way."""


def parse_stack(files: StackFiles) -> Stack:
    """Parse the files of a stack. Raises ConfigError with file and line."""
    problems: list[Problem] = []
    patches = []
    for name, parse in _parsers(files):
        try:
            patch = replace(parse(f"{files.folder}/{name}", files.files[name]), name=name)
            patches.append(_with_rules(patch, files) if rules_name(name) in files.files else patch)
        except ConfigError as error:
            problems += error.problems or (Problem(files.folder, 0, f"{name}: {error}"),)
    if problems:
        raise ConfigError(
            f"the stack {files.folder} cannot be read:",
            tuple(problems),
            hint="" if files.foreign else f"{_remake_hint(files)}; {foreign_hint(files.source)}",
        )
    checks: tuple[IntentCheck, ...] = ()
    if "checks.yaml" in files.files:
        checks = parse_checks(files.files["checks.yaml"], f"{files.folder}/checks.yaml", {p.slug for p in patches})
    return Stack(files.line, files.source, files.folder, tuple(patches), checks, files.digest)


def _remake_hint(files: StackFiles) -> str:
    """Say how a diff without a mail's header, or one that was edited by hand, becomes a patch."""
    words = f"{files.source} --line {files.line}"
    return (
        f"move such a file out of the folder and of series, then kz edit {words}, there `git apply --recount FILE` and "
        f"git commit, then kz refresh {words}"
    )


def _with_rules(patch: Patch, files: StackFiles) -> Patch:
    name = rules_name(patch.name)
    return with_edited_rules(patch, files.files[name], f"{files.folder}/{name}", {})[0]


def with_edited_rules(
    patch: Patch, data: bytes, shown: str, renames: Mapping[str, str]
) -> tuple[Patch, dict[str, str]]:
    """Return a patch with these rules beside it. Its files that upstream renamed, and that the rules name by the new name, are
    changed there; the other renames of files that the rules name are returned."""
    from kz_build.rewrite.ast_grep import search
    from kz_build.rewrite.rules_file import read_rewrite

    in_place = {c.path for c in patch.files if c.hunks and not (c.creates or c.deletes or c.source)}
    renamed = {old: new for old, new in renames.items() if old in in_place}
    rewrite = read_rewrite(data, shown, in_place.union(renamed.values()), search)
    named = {old: new for old, new in renamed.items() if new in rewrite.paths}
    changes = tuple(replace(change, path=named.get(change.path, change.path)) for change in patch.files)
    left = {old: new for old, new in renamed.items() if old in rewrite.paths}
    return replace(patch, files=changes, rewrite=rewrite), left


def _parsers(files: StackFiles) -> Iterator[tuple[str, Callable[[str, bytes], Patch]]]:
    if not files.foreign:
        yield from ((name, parse_patch) for name in files.patches)
        return
    from kz_build.patch.quilt import parse_foreign, read_series

    for entry in read_series(files.files["series"].decode("utf-8", "replace"), f"{files.folder}/series"):
        yield entry.name, partial(parse_foreign, entry)


def parse_checks(text: bytes, shown: str, slugs: set[str]) -> tuple[IntentCheck, ...]:
    key = hashlib.sha256(f"{CACHE_EPOCH} {shown}\0".encode() + text).hexdigest()
    cached = cache_root() / "validated" / f"{key}.json"
    rows = read_cached(cached)
    if rows is None:
        rows = _read_checks(text, shown)
        write_cached(cached, rows)
    unknown = sorted({row[0] for row in rows} - slugs)
    if unknown:
        raise ConfigError(
            f"{shown} is wrong:", tuple(Problem(shown, 0, f"{slug}: the stack has no such patch") for slug in unknown)
        )
    return tuple(
        IntentCheck(slug, kind, file, tuple(fields.items()), where) for slug, kind, file, fields, where in rows
    )


def _read_checks(text: bytes, shown: str) -> list[list[Any]]:
    from kz_build.core.yaml_lines import parse

    data, lines = parse(text, shown)
    rows: list[list[Any]] = []
    problems: list[Problem] = []
    if not isinstance(data, dict):
        data, problems = {}, [Problem(shown, 0, "must map each patch's name to a list of checks")]
    for slug, items in data.items():
        if not (isinstance(slug, str) and isinstance(items, list | type(None))):
            line = lines.get((slug,), 0)
            problems.append(Problem(shown, line, f"{slug}: must be a patch's name and a list of checks"))
            continue
        for i, item in enumerate(items or ()):
            line = lines.get((slug, i), 0)
            if wrong := [*_wrong(item)]:
                problems += [Problem(shown, line, text) for text in wrong]
                continue
            kind, fields = next(iter(item.items()))
            more = {name: value for name, value in fields.items() if name != "file"}
            rows.append([slug, kind, fields["file"], more, f"{shown}:{line}"])
    if problems:
        raise ConfigError(
            f"{shown} is wrong:", tuple(problems), hint="kz's docs/reference/patches.md lists the six kinds"
        )
    return rows


def _wrong(item: Any) -> Iterator[str]:
    """Say what is wrong with a check."""
    if not (isinstance(item, dict) and len(item) == 1 and isinstance(next(iter(item.values())), dict)):
        yield "a check is one kind with its fields: `- contains: {file: …, text: …}`"
        return
    kind, fields = next(iter(item.items()))
    if kind not in KINDS:
        yield f"unknown kind {kind!r}{similar(str(kind), KINDS)}"
        return
    needed, optional = KINDS[kind]
    needed |= {"file"}
    yield from (f"{kind}: `{f}` is missing" for f in sorted(needed - set(fields)))
    yield from (f"{kind}: unknown field {f!r}" for f in fields if f not in needed | optional)
    yield from (
        f"{kind}: the value of {f!r} is not text, or what that field takes"
        for f, v in fields.items()
        if not _fits(f, v)
    )


def _fits(field: object, value: object) -> bool:
    """Whether a value is of a type that a field of a check may have."""
    if field == "attributes":
        return isinstance(value, dict) and all(isinstance(k, str) and _fits("", v) for k, v in value.items())
    return isinstance(value, str if field == "file" else str | int | float)
