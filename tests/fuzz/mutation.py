"""Hostile neighbours of a file: seeded, so that a run can be repeated."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

MOST = 1 << 18
"""No neighbour is longer: what only a large file shows has a test of its own."""
_NUMBERS = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)


def mutated(data: bytes, others: Sequence[bytes], tokens: Sequence[bytes], chance: random.Random) -> bytes:
    """Return a neighbour of `data`: with one to sixteen changes, some of them parts of `others` or one of `tokens`."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        _change(changed, others, tokens, chance)
    return bytes(changed[:MOST])


def _change(data: bytearray, others: Sequence[bytes], tokens: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    match chance.randrange(12):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(data):
            data[at] = chance.randrange(256)
        case 2 | 3:
            _number(data, at, chance)
        case 4:
            size = chance.randrange(1, 64)
            to = chance.randrange(len(data) + 1)
            data[to : to + size] = data[at : at + size]
        case 5:
            del data[at : at + chance.randrange(1, 64)]
        case 6 if chance.randrange(4) == 0:
            del data[at:]
        case 7:
            part = bytes(data[at : at + chance.choice((1, 2, 8, 64))])
            data[at:at] = part * chance.choice((1, 2, 16, 300))
        case 8:
            other = chance.choice(others)
            start = chance.randrange(len(other) + 1)
            data[at:at] = other[start : start + chance.randrange(1, 400)]
        case 9:
            _lines(data, chance)
        case _ if tokens:
            token = chance.choice(tokens)
            data[at : at + chance.choice((0, 0, len(token)))] = token


def _number(data: bytearray, at: int, chance: random.Random) -> None:
    layout = struct.Struct(chance.choice(("<H", "<I", "<Q", ">H", ">I", "B")))
    at -= at % chance.choice((1, layout.size))
    if at + layout.size > len(data):
        return
    (old,) = layout.unpack_from(data, at)
    new = chance.choice((*_NUMBERS, len(data), old + 1, old - 1, old + 8, old * 2, chance.randrange(len(data))))
    layout.pack_into(data, at, new % (1 << 8 * layout.size))


def _lines(data: bytearray, chance: random.Random) -> None:
    """Repeat, delete or move a line."""
    lines = bytes(data).splitlines(keepends=True)
    if not lines:
        return
    line = lines.pop(chance.randrange(len(lines)))
    for _ in range(chance.randrange(3)):
        lines.insert(chance.randrange(len(lines) + 1), line)
    data[:] = b"".join(lines)
