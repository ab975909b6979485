"""Android's compiled XML, in both forms that apps use: binary chunks (APK) and protocol buffers (app bundle).

The layouts are those of AOSP's ResourceTypes.h and aapt2's Resources.proto. Both readers are strict: every size and
offset is checked against the data, so that damaged or hostile data ends in DamagedError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kz_build.formats.android_manifest import ANDROID, DEEPEST, DamagedError, Element, Value
from kz_build.formats.protobuf import contents, fields

# Android knows an attribute by its id; its name in the file may be anything. From AOSP's public.xml.
_ATTRIBUTES = {
    0x01010003: "android:name",
    0x0101020C: "android:minSdkVersion",
    0x0101028E: "android:required",
    0x01010270: "android:targetSdkVersion",
    0x010104EA: "android:extractNativeLibs",
}
_XML, _POOL, _RESOURCE_MAP, _START, _END = 0x0003, 0x0001, 0x0180, 0x0102, 0x0103
_UTF8 = 0x100
_NONE = 0xFFFFFFFF
_REFERENCE, _STRING, _DECIMAL, _HEX, _BOOLEAN = 0x01, 0x03, 0x10, 0x11, 0x12


def read_axml(data: bytes) -> tuple[Element, ...]:
    """Parse a compiled manifest, binary or protocol buffer. Raises DamagedError."""
    try:
        if data[:2] == b"\x03\x00":
            return tuple(_binary(data))
        return tuple(_node(data, ()))
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise DamagedError(f"it is cut off or damaged: {error}") from error


def _chunks(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (type, start, size of its header, end) of each chunk."""
    while at < end:
        kind, header, size = struct.unpack_from("<HHI", data, at)
        if header < 8 or size < header or at + size > end:
            raise DamagedError(f"the chunk at {at} is larger than its container")
        yield kind, at, header, at + size
        at += size


def _binary(data: bytes) -> Iterator[Element]:
    kind, _, header, end = next(_chunks(data, 0, len(data)))
    strings: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    path: list[str] = []
    for kind, at, inner, stop in _chunks(data, header, end):
        if kind == _POOL:
            strings = _strings(data[at:stop])
        elif kind == _RESOURCE_MAP:
            ids = struct.unpack_from(f"<{(stop - at - inner) // 4}I", data, at + inner)
        elif kind == _START:
            name, attributes = _start(data[at + inner : stop], strings, ids)
            path.append(name)
            if len(path) > DEEPEST:
                raise DamagedError(f"elements are nested deeper than {DEEPEST}")
            yield Element(tuple(path), attributes)
        elif kind == _END:
            if not path:
                raise DamagedError("an element ends that did not begin")
            path.pop()


def _start(body: bytes, strings: tuple[str, ...], ids: tuple[int, ...]) -> tuple[str, dict[str, Value]]:
    _, name, first, size, count = struct.unpack_from("<IIHHH", body)
    if count and size < 20:
        raise DamagedError("an attribute is smaller than its fields")
    attributes: dict[str, Value] = {}
    for number in range(count):
        space, key, raw, _, _, kind, value = struct.unpack_from("<IIIHBBI", body, first + number * size)
        if key < len(ids) and ids[key] in _ATTRIBUTES:
            full = _ATTRIBUTES[ids[key]]
        else:
            full = ("android:" if space != _NONE and strings[space] == ANDROID else "") + strings[key]
        attributes.setdefault(full, _value(kind, value, raw, strings))
    return strings[name], attributes


def _value(kind: int, value: int, raw: int, strings: tuple[str, ...]) -> Value:
    if kind == _STRING:
        return strings[value]
    if kind == _BOOLEAN:
        return value != 0
    if kind in (_DECIMAL, _HEX):
        return value
    if raw != _NONE:
        return strings[raw]
    return f"@0x{value:08x}" if kind == _REFERENCE else f"type {kind}"


def _strings(chunk: bytes) -> tuple[str, ...]:
    count, _, flags, start = struct.unpack_from("<IIII", chunk, 8)
    if count > len(chunk) // 4:
        raise DamagedError("there are more strings than there is room for")
    offsets = struct.unpack_from(f"<{count}I", chunk, 28)
    read = _utf8 if flags & _UTF8 else _utf16
    # Offsets may all point into one long string: the read size is bounded by the file, not by their product.
    known: dict[int, str] = {}
    room = 4 * len(chunk)
    for offset in offsets:
        if offset not in known:
            known[offset] = read(chunk, start + offset)
            room -= len(known[offset])
            if room < 0:
                raise DamagedError("its strings overlap")
    return tuple(known[offset] for offset in offsets)


def _utf16(chunk: bytes, at: int) -> str:
    (length,) = struct.unpack_from("<H", chunk, at)
    at += 2
    if length & 0x8000:
        length = (length & 0x7FFF) << 16 | struct.unpack_from("<H", chunk, at)[0]
        at += 2
    return _whole(chunk, at, length * 2).decode("utf-16-le", "replace")


def _utf8(chunk: bytes, at: int) -> str:
    _, at = _length8(chunk, at)  # in UTF-16 units
    length, at = _length8(chunk, at)
    return _whole(chunk, at, length).decode("utf-8", "replace")


def _length8(chunk: bytes, at: int) -> tuple[int, int]:
    first = chunk[at]
    return ((first & 0x7F) << 8 | chunk[at + 1], at + 2) if first & 0x80 else (first, at + 1)


def _whole(chunk: bytes, at: int, size: int) -> bytes:
    if at + size > len(chunk):
        raise DamagedError("a string is longer than the strings")
    return chunk[at : at + size]


def _node(data: bytes, path: tuple[str, ...]) -> Iterator[Element]:
    """XmlNode: 1 is its element. XmlElement: 3 name, 4 attributes, 5 children."""
    for number, element in contents(data):
        if number != 1:
            continue
        if len(path) >= DEEPEST:
            raise DamagedError(f"elements are nested deeper than {DEEPEST}")
        parts = list(contents(element))
        here = (*path, b"".join(v for n, v in parts if n == 3).decode())
        yield Element(here, dict(_attribute(v) for n, v in parts if n == 4))
        for number, child in parts:
            if number == 5:
                yield from _node(child, here)


def _attribute(data: bytes) -> tuple[str, Value]:
    """XmlAttribute: 1 namespace, 2 name, 3 value as it was written, 5 its id."""
    given = dict(fields(data))
    space, name, value = (v.decode() if isinstance(v := given.get(n), bytes) else "" for n in (1, 2, 3))
    known = _ATTRIBUTES.get(v) if isinstance(v := given.get(5), int) else None
    return known or ("android:" if space == ANDROID else "") + name, value
