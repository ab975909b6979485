"""Binary changes: `GIT binary patch` with its base85 lines, whole files and deltas."""

from __future__ import annotations

import base64
import re
import zlib
from dataclasses import dataclass, replace

from kz_build.git.object_types import blob_id

_METHOD = re.compile(rb"(literal|delta) (\d{1,12})\n")
_ID = re.compile(r"[0-9a-f]{40}")
_NULL = "0" * 40


class BinaryError(ValueError):
    """Damaged data of a binary change; `args[0]` says how."""


@dataclass(frozen=True)
class BinaryData:
    """One direction: a whole file, or with `delta` git's instructions to make it from the other side."""

    delta: bool
    data: bytes


@dataclass(frozen=True)
class Binary:
    """A binary change: the blob ids before and after, and the data of both directions (None if the patch has none)."""

    old: str
    new: str
    forward: BinaryData | None
    backward: BinaryData | None

    def reverse(self) -> Binary:
        """Return the change that reverts this one."""
        return replace(self, old=self.new, new=self.old, forward=self.backward, backward=self.forward)

    def apply(self, data: bytes | None) -> bytes | str:
        """Return the new content of a file (None: it is created), or why there is none. The blob ids must match the patch's."""
        if not (_ID.fullmatch(self.old) and _ID.fullmatch(self.new)):
            return "the patch does not name the binaries' ids in full"
        if data is not None and blob_id(data) != self.old:
            return "it is not the binary that the patch was made for"
        if self.new == _NULL:
            return b""
        if self.forward is None:
            return "the patch names a binary change, but does not contain it"
        after = _patched(data or b"", self.forward.data) if self.forward.delta else self.forward.data
        if after is None or blob_id(after) != self.new:
            return "the binary data does not produce the blob that the patch's index line names"
        return after


def read_binary(lines: list[bytes], at: int) -> tuple[BinaryData | None, int]:
    """Read one direction from line `at` on; return it, or None if none begins there, and the next line. Raises BinaryError."""
    method = _METHOD.fullmatch(lines[at]) if at < len(lines) else None
    if not method:
        return None, at
    packed: list[bytes] = []
    for number in range(at + 1, len(lines)):
        if lines[number] == b"\n":
            data = _inflated(b"".join(packed), int(method[2]))
            return BinaryData(method[1] == b"delta", data), number + 1
        packed.append(_decoded(lines[number]))
    raise BinaryError("the binary data does not end in an empty line")


def _decoded(line: bytes) -> bytes:
    """Decode a line: how many bytes it holds (A-Z 1 to 26, a-z 27 to 52), then base85."""
    code, coded = line[0], line[1:-1]
    count = code - 64 if 65 <= code <= 90 else code - 70 if 97 <= code <= 122 else 0
    room = len(coded) // 5 * 4
    try:
        if line.endswith(b"\n") and len(coded) % 5 == 0 and max(room - 4, 0) < count <= room:
            return base64.b85decode(coded)[:count]
    except ValueError:
        pass
    raise BinaryError("a line of the binary data is damaged")


def _inflated(packed: bytes, size: int) -> bytes:
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(packed, size + 1)
    except zlib.error:
        data = b""
    if len(data) != size or not unpack.eof:
        raise BinaryError("the binary data does not unpack to the size that it names")
    return data


def _patched(base: bytes, delta: bytes) -> bytes | None:
    """Apply git's delta: sizes of both sides, then pieces to copy from the base or to insert. None if it does not fit."""
    rest = iter(delta)

    def number() -> int:
        value = shift = 0
        for byte in rest:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        return value

    def little_endian(size: int, present: int) -> int:
        return sum(next(rest) << 8 * i for i in range(size) if present >> i & 1)

    out = []
    wanted, size = number(), number()
    try:
        for code in rest:
            if code & 0x80:
                start, count = little_endian(4, code), little_endian(3, code >> 4) or 0x10000
                piece = base[start : start + count]
            else:
                count = code
                piece = bytes(next(rest) for _ in range(count))
            if not count or len(piece) != count:
                return None
            out.append(piece)
    except (StopIteration, RuntimeError):  # a generator turns the first into the second
        return None
    result = b"".join(out)
    return result if (wanted, size) == (len(base), len(result)) else None
