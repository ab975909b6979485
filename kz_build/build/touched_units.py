"""Which translation units of a build a change touches: its own source files, and those that include its headers."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from kz_build.core.errors import CommandError

SOURCES = frozenset((".c", ".cc", ".cpp", ".cxx", ".m", ".mm", ".s", ".S", ".asm"))
HEADERS = frozenset((".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp"))
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|import)[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def has_code(path: str) -> bool:
    """Return whether the name of a file is that of C, C++, Objective-C or assembler."""
    return PurePosixPath(path).suffix in SOURCES | HEADERS


def touched(changed: Collection[str], files: Mapping[str, bytes]) -> frozenset[str]:
    """Return the changed files and all that include one of them, also through others. `files` is path -> content.

    Include paths are not known before CMake has run, so that a header counts as included if its path ends with the name
    between the quotes or brackets: too many units are compiled rather than too few.
    """
    includers: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
    for path, content in files.items():
        for match in _INCLUDE.finditer(content):
            parts = tuple(p for p in match[1].decode("utf-8", "replace").split("/") if p not in (".", "..", ""))
            if parts:
                includers[parts[-1]].append((parts, path))
    result, todo = set(changed), list(changed)
    while todo:
        parts = tuple(todo.pop().split("/"))
        for name, includer in includers[parts[-1]]:
            if includer not in result and parts[-len(name) :] == name:
                result.add(includer)
                todo.append(includer)
    return frozenset(result)


def outputs(compdb: str, paths: Iterable[str]) -> Sequence[str]:
    """Return the objects that ninja makes of these absolute paths, by `ninja -t compdb`. Raises CommandError if that is not JSON."""
    wanted = set(paths)
    try:
        entries = json.loads(compdb)
        named = ((str(PurePosixPath(e["directory"], e["file"])), str(e["output"])) for e in entries)
        return tuple(dict.fromkeys(output for file, output in named if file in wanted))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"what `ninja -t compdb` printed cannot be read: {error}") from None
