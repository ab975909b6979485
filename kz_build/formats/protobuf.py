"""Messages of protocol buffers (https://protobuf.dev/programming-guides/encoding), read with bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kz_build.formats.android_manifest import DamagedError

MOST_FIELDS = 4_000_000
"""Of one message: a public tokenizer has 256,000."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field, value) of a message. Raises DamagedError."""
    at = count = 0
    while at < len(data):
        count += 1
        if count > MOST_FIELDS:
            raise DamagedError(f"it has more than {MOST_FIELDS:,} values")
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise DamagedError(f"wire type {kind} at byte {at} is none of protocol buffers")
        if at + size > len(data):
            raise DamagedError(f"a field of {size:,} bytes does not fit at byte {at:,}: it is cut off")
        yield tag >> 3, data[at : at + size]
        at += size


def contents(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that are texts or messages."""
    return ((field, value) for field, value in fields(data) if isinstance(value, bytes))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise DamagedError("it is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise DamagedError(f"a number at byte {at:,} has no end")
