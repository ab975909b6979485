"""Native methods and loaded libraries in compiled Java (Java virtual machine specification, chapter 4)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

from kz_build.formats.android_manifest import DamagedError
from kz_build.formats.elf_types import JavaSide, NativeMethod

_NATIVE = 0x0100
_CLASS, _STRING, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 7, 8, 10, 11, 12
# Sizes of the constants that are skipped.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 9: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
# ldc or ldc_w of a constant, then invokestatic: every compiler's form of loadLibrary("name").
# It is tried at every byte, for the operand before it may look like an ldc.
_LOAD = re.compile(rb"(?=(?:\x12(?P<short>.)|\x13(?P<long>..))\xb8(?P<method>..))", re.DOTALL)


def java_side(classes: Iterable[bytes]) -> JavaSide:
    """Return what these .class files require of native code. Raises DamagedError for anything else."""
    methods: list[NativeMethod] = []
    loads: set[str] = set()
    for data in classes:
        try:
            native, loaded = _read(data)
        except (struct.error, KeyError, IndexError) as error:
            raise DamagedError(f"a class file is cut off or damaged: {error!r}") from error
        methods += native
        loads |= loaded
    return JavaSide(tuple(sorted(methods, key=lambda m: (m.java_class, m.name))), frozenset(loads))


def _read(data: bytes) -> tuple[list[NativeMethod], set[str]]:
    magic, _, count = struct.unpack_from(">IIH", data)
    if magic != 0xCAFEBABE:
        raise DamagedError("a class file does not start as one")
    pool, at = _constants(data, count)
    _, this, _, interfaces = struct.unpack_from(">HHHH", data, at)
    at += 8 + 2 * interfaces
    name = _text(pool, pool[this])
    _, at = _members(data, at)
    methods, at = _members(data, at)
    native = [NativeMethod(name, _text(pool, m)) for flags, m, _ in methods if flags & _NATIVE]
    code = [data[a:b] for _, _, attributes in methods for n, a, b in attributes if pool[n] == "Code"]
    return native, {text for body in code for text in _loaded(body, pool)}


def _text(pool: dict[int, Any], index: Any) -> str:
    """Return a constant that must be text: a hostile pool has another kind there."""
    text = pool[index]
    if not isinstance(text, str):
        raise DamagedError(f"constant {index} of a class file is no text")
    return text


def _constants(data: bytes, count: int) -> tuple[dict[int, Any], int]:
    """Return constants by index: texts; for classes and strings the index of the text, for methods of name and type."""
    pool: dict[int, Any] = {}
    at, index = 10, 1
    while index < count:
        kind = data[at]
        if kind == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            # Modified UTF-8: its special forms (NUL, surrogates) are in no name that we look for.
            pool[index] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        elif kind in (_CLASS, _STRING):
            (pool[index],) = struct.unpack_from(">H", data, at + 1)
            at += 3
        elif kind in (_METHOD, _INTERFACE_METHOD):
            pool[index] = struct.unpack_from(">HH", data, at + 1)[1]
            at += 5
        elif kind == _NAME_AND_TYPE:
            (pool[index],) = struct.unpack_from(">H", data, at + 1)
            at += 5
        else:
            at += 1 + _SIZES[kind]
        index += 2 if kind in (5, 6) else 1
    return pool, at


_Member = tuple[int, int, list[tuple[int, int, int]]]


def _members(data: bytes, at: int) -> tuple[list[_Member], int]:
    """Return fields or methods: (flags, index of the name, [(index of the attribute's name, start, end)]), and the next place."""
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    members: list[_Member] = []
    for _ in range(count):
        flags, name, _, attributes = struct.unpack_from(">HHHH", data, at)
        at += 8
        spans = []
        for _ in range(attributes):
            attribute, size = struct.unpack_from(">HI", data, at)
            spans.append((attribute, at + 6, at + 6 + size))
            at += 6 + size
        if at > len(data):
            raise DamagedError("a class file is cut off")
        members.append((flags, name, spans))
    return members, at


def _loaded(code: bytes, pool: dict[int, Any]) -> list[str]:
    names = []
    for match in _LOAD.finditer(code):
        method = pool.get(int.from_bytes(match["method"], "big"))
        text = pool.get(int.from_bytes(match["short"] or match["long"], "big"))
        if isinstance(method, int) and isinstance(text, int) and pool.get(pool.get(method, -1)) == "loadLibrary":
            names.append(_text(pool, text))
    return names
