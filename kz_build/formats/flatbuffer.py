"""Flatbuffers, read in place. The bytes may be anyone's: every offset is checked against the bounds, and work is counted.

Format: flatbuffers' own "Internals" page (a table points back to its vtable; vectors and strings carry their length).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from struct import Struct
from typing import Any

U8, I8, BOOL = Struct("<B"), Struct("<b"), Struct("<?")
U16, I32, U32 = Struct("<H"), Struct("<i"), Struct("<I")
I64, U64, F64 = Struct("<q"), Struct("<Q"), Struct("<d")
# What one file may cost. The programs of a 4B model have about ten thousand parts; offsets that point at each other could make it endless.
MOST_STEPS = 500_000
_BYTES_A_STEP = 64


class Damage(ValueError):
    """The bytes are not a flatbuffer of that schema."""


class Buffer:
    """One flatbuffer within `start` and `end` of a larger file. Buffers of one file share a count of steps."""

    def __init__(self, data: mmap.mmap | bytes, start: int, end: int, steps: list[int] | None = None) -> None:
        if not 0 <= start <= end <= len(data):
            raise Damage(f"a part from byte {start} to {end} is outside the file of {len(data)} bytes")
        self.data, self.start, self.end = data, start, end
        self._steps = steps if steps is not None else [MOST_STEPS]

    def within(self, start: int, end: int) -> Buffer:
        """Return another flatbuffer of the same file, with offsets from the file's start."""
        return Buffer(self.data, start, end, self._steps)

    def step(self, count: int = 1) -> None:
        """Count work. Raises Damage for a file that requires more than any real one."""
        self._steps[0] -= count
        if self._steps[0] < 0:
            raise Damage("it has more parts than any real program")

    def number(self, layout: Struct, at: int) -> Any:
        """Read one value."""
        if at < self.start or at + layout.size > self.end:
            raise Damage(f"an offset points to byte {at}, outside of {self.start} to {self.end}")
        return layout.unpack_from(self.data, at)[0]

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Return (place of the first element, number of elements) of the vector that the offset at `at` points to."""
        place = at + self.number(U32, at)
        count = self.number(U32, place)
        if place + 4 + count * width > self.end:
            raise Damage(f"a list of {count} at byte {place} goes beyond byte {self.end}")
        return place + 4, count

    def bytes_at(self, start: int, end: int) -> bytes:
        """Copy some of the bytes; their number counts as work."""
        self.step(max(end - start, 0) // _BYTES_A_STEP)
        return self.data[start:end]

    def text(self, at: int) -> str:
        """Return the string that the offset at `at` points to."""
        place, count = self.vector(at, 1)
        return self.bytes_at(place, place + count).decode("utf-8", "backslashreplace")

    @property
    def root(self) -> Table:
        """The table that the first offset points to."""
        return Table(self, self.start + self.number(U32, self.start))


class Table:
    """A table; fields are read by their number in the schema, from 0. Absent ones give their default."""

    __slots__ = ("_buffer", "_at", "_vtable", "_fields")

    def __init__(self, buffer: Buffer, at: int) -> None:
        buffer.step()
        self._buffer, self._at = buffer, at
        self._vtable = at - buffer.number(I32, at)
        size = buffer.number(U16, self._vtable)
        if size < 4:
            raise Damage(f"the table at byte {at} has a description of {size} bytes")
        self._fields = (size - 4) // 2

    def _place(self, field: int) -> int:
        if field >= self._fields:
            return 0
        offset: int = self._buffer.number(U16, self._vtable + 4 + 2 * field)
        return self._at + offset if offset else 0

    def number(self, field: int, layout: Struct, default: Any = 0) -> Any:
        """Read a scalar."""
        place = self._place(field)
        return self._buffer.number(layout, place) if place else default

    def text(self, field: int) -> str:
        """Read a string."""
        place = self._place(field)
        return self._buffer.text(place) if place else ""

    def table(self, field: int) -> Table | None:
        """Read a table, or the member of a union (its type is the field before)."""
        place = self._place(field)
        return Table(self._buffer, place + self._buffer.number(U32, place)) if place else None

    def span(self, field: int, width: int = 1) -> tuple[int, int]:
        """Return (place, number of elements) of a vector; (0, 0) if it is absent."""
        place = self._place(field)
        return self._buffer.vector(place, width) if place else (0, 0)

    def tables(self, field: int) -> Iterator[Table]:
        """Yield the tables of a vector."""
        start, count = self.span(field, 4)
        for place in range(start, start + 4 * count, 4):
            yield Table(self._buffer, place + self._buffer.number(U32, place))

    def item(self, field: int, index: int) -> Table:
        """Return one table of a vector. Raises Damage if the vector is shorter."""
        start, count = self.span(field, 4)
        if not 0 <= index < count:
            raise Damage(f"number {index} of a list of {count} is asked for")
        place = start + 4 * index
        return Table(self._buffer, place + self._buffer.number(U32, place))

    def numbers(self, field: int, code: str) -> tuple[Any, ...]:
        """Read a vector of scalars; `code` as in struct: i, q, I, Q."""
        width = Struct("<" + code).size
        start, count = self.span(field, width)
        if not count:
            return ()
        self._buffer.step(count // 4)
        return Struct(f"<{count}{code}").unpack_from(self._buffer.data, start)

    def texts(self, field: int) -> tuple[str, ...]:
        """Read a vector of strings."""
        start, count = self.span(field, 4)
        self._buffer.step(count)
        return tuple(self._buffer.text(place) for place in range(start, start + 4 * count, 4))
