"""Native methods and loaded libraries in Java and Kotlin sources."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kz_build.formats.elf_types import JavaSide, NativeMethod

_CHARACTER = r"'(?:\\[^\n]|[^'\\\n])[0-9a-fA-F]{0,4}'"
_COMMENT = re.compile(rf'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|{_CHARACTER})', re.DOTALL)
_STRING = re.compile(rf'"(?:\\.|[^"\\\n])*"|{_CHARACTER}')
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)", re.MULTILINE)
_LOAD = re.compile(r'\bloadLibrary\s*\(\s*"([^"]+)"')
_TOKEN = re.compile(
    r"\b(?:class|interface|object|enum)\s+(?P<type>\w+)|(?P<companion>\bcompanion\s+object\b)|(?P<open>\{)|(?P<close>\})"
    r"|\bnative\s+[^;={}]*?(?P<java>\w+)\s*\([^;{}]*\)\s*(?:throws[^;]*)?;|(?P<static>@JvmStatic\s+)?(?:\b(?:private|internal|public|protected)\s+)*\bexternal\s+fun\s+(?P<kotlin>\w+)"
)


def java_side(sources: Mapping[str, bytes]) -> JavaSide:
    """Return the native methods and loaded libraries of .java and .kt files, from path -> content."""
    methods: list[NativeMethod] = []
    loads: set[str] = set()
    for path in sorted(sources):
        text = _COMMENT.sub(lambda m: m[1] or " ", sources[path].decode("utf-8", "replace"))
        loads |= set(_LOAD.findall(text))
        package = _PACKAGE.search(text)
        prefix = package[1].replace(".", "/") + "/" if package else ""
        methods += [NativeMethod(prefix + name, method) for name, method in _methods(_STRING.sub('""', text))]
    return JavaSide(tuple(methods), frozenset(loads))


def _methods(text: str) -> list[tuple[str, str]]:
    """Return (class within its file as Outer$Inner, method). A companion's functions belong to its class, but for @JvmStatic ones."""
    methods: list[tuple[str, str]] = []
    around: list[str | None] = []
    pending: str | None = None
    for token in _TOKEN.finditer(text):
        if token["companion"]:
            pending = "Companion"
        elif token["type"]:
            pending = token["type"]
        elif token["open"]:
            around.append(pending)
            pending = None
        elif token["close"]:
            if around:
                around.pop()
        elif name := token["java"] or token["kotlin"]:
            classes = [n for n in around if n]
            if token["static"] and classes[-1:] == ["Companion"]:
                classes.pop()
            methods.append(("$".join(classes), name))
    return methods
