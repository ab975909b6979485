"""Logs of any size, in blocks that end at line ends."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kz_build.core.errors import ConfigError

BLOCK = 1 << 16
"""Bytes that are read at once: they stay in a core's own cache while every text is searched for."""
LONGEST = 1 << 20
"""Bytes of a line without end that are kept together."""
OVERLAP = 4096
"""Bytes of a line without end that are searched twice, so that no text is cut in two."""
PART = 64 << 20
"""Bytes from which on it pays to search a file in several processes."""

_PACKED = {
    b"\x1f\x8b": "gzip -dc",
    b"PK\x03\x04": "unzip -p",
    b"BZh": "bzip2 -dc",
    b"\x28\xb5\x2f\xfd": "zstd -dc",
    b"\xfd7zXZ": "xz -dc",
}
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
Part = tuple[int, int]


def _utf16(start: bytes) -> str:
    """Return the encoding of a log that starts like UTF-16: a byte order mark, and Latin letters among zeros."""
    return _UTF16.get(start[:2], "") if b"\0" in start[2:64] else ""


def parts(log: str) -> tuple[Part, ...]:
    """Return ranges of bytes that can be searched apart, cut at line ends; one (0, 0), for all, if nothing would be gained.

    Raises ConfigError if there is no such file.
    """
    if log == "-":
        return ((0, 0),)
    try:
        with Path(log).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            count = min(os.cpu_count() or 1, size // PART)
            if count < 2 or _utf16(file.read(64)):
                return ((0, 0),)
            cuts = [0]
            for number in range(1, count):
                file.seek(size * number // count)
                file.readline(LONGEST)
                cuts.append(file.tell())
    except OSError as error:
        raise ConfigError(f"{log} cannot be read: {error.strerror}") from error
    return tuple(zip(cuts, [*cuts[1:], size], strict=True))


def blocks(log: str, part: Part = (0, 0)) -> Iterator[bytes]:
    """Yield a log or a part of it; `-` is standard input. UTF-16, as PowerShell writes it, is converted to UTF-8.

    Raises ConfigError if it cannot be read, or is packed.
    """
    if log == "-":
        yield from _blocks(sys.stdin.buffer, "standard input", 0)
        return
    try:
        with Path(log).open("rb", buffering=0) as file:
            file.seek(part[0])
            yield from _blocks(file, log, part[1] - part[0], head=not part[0])
    except OSError as error:
        raise ConfigError(f"{log} cannot be read: {error.strerror}") from error


def _blocks(file: BinaryIO, shown: str, left: int, *, head: bool = True) -> Iterator[bytes]:
    """Yield blocks of the next `left` bytes, or of all if that is 0. The head of a log tells its encoding."""
    read = getattr(file, "read1", file.read)
    bounded = left > 0
    piece = read(min(BLOCK, left) if bounded else BLOCK)
    for magic, unpack in _PACKED.items():
        if head and piece.startswith(magic):
            raise ConfigError(f"{shown} is packed", hint=f"{unpack} {shown} | kz diagnose -")
    encoding = _utf16(piece) if head else ""
    decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
    rest = b""
    while piece:
        left -= len(piece)
        if decoder:
            piece = decoder.decode(piece).lstrip("\ufeff").encode()
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
        if len(rest) > LONGEST:
            yield rest
            rest = rest[-OVERLAP:]
        piece = b"" if bounded and not left else read(min(BLOCK, left) if bounded else BLOCK)
    if rest:
        yield rest
