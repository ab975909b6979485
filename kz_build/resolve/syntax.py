"""Whether a result still parses where the files that it was made from do, and the names in it."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import PurePosixPath

LARGEST = 150_000
"""Bytes beyond which a Python file is not parsed."""
_C = {
    ".c",
    ".cc",
    ".cpp",
    ".cu",
    ".cxx",
    ".h",
    ".hh",
    ".hpp",
    ".inc",
    ".java",
    ".js",
    ".kt",
    ".kts",
    ".m",
    ".mm",
    ".ts",
}
# What is not closed ends with the line, or the file: so each expression takes linear time.
_C_SILENT = re.compile(
    rb"//[^\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL
)
_CMAKE_SILENT = re.compile(rb"\\.|#[^\n]*|\"(?:\\.|[^\"\\])*\"?", re.DOTALL)
_CONDITIONAL = re.compile(rb"^[ \t]*#[ \t]*(if|endif)", re.MULTILINE)
_EMPTY = re.compile(rb"^[ \t]*#[ \t]*if[^\n]*\n\s*#[ \t]*endif", re.MULTILINE)
_NAME = re.compile(rb"[A-Za-z_]\w\w+")
_PAIRS = (b"()", b"{}", b"[]")


def faults(path: str, data: bytes) -> tuple[int, ...]:
    """Count what keeps a file from parsing, by kind; nothing for what kz cannot read.

    Python is parsed. Of C, what looks like it, and CMake, it is what is opened and not closed: brackets and conditionals.
    """
    name = PurePosixPath(path)
    if name.suffix in {".py", ".pyi"}:
        return (int(len(data) <= LARGEST and not _is_python(data)),)
    cmake = name.suffix == ".cmake" or name.name == "CMakeLists.txt"
    silent = _CMAKE_SILENT if cmake else _C_SILENT if name.suffix in _C else None
    if silent is None:
        return ()
    code = silent.sub(b"", data)
    words = _CONDITIONAL.findall(code)
    opened = (code.count(pair[:1]) - code.count(pair[1:]) for pair in _PAIRS)
    return (*opened, words.count(b"if") - words.count(b"endif"), len(_EMPTY.findall(code)))


def names(data: bytes) -> set[bytes]:
    """Return the names in a file, and the words of its comments; not the shortest."""
    return set(_NAME.findall(data))


def allowed(path: str, base: bytes, ours: bytes, theirs: bytes) -> set[tuple[int, ...]]:
    """Return the faults that a result may have: none, those of upstream's file, and with them those that the patch adds."""
    was, now, patched = (faults(path, data) for data in (base, ours, theirs))
    return {tuple(0 for _ in now), now, tuple(n + p - w for n, p, w in zip(now, patched, was, strict=True))}


def _is_python(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
