"""Zips from anywhere (APK, AAB, AAR, JAR): checked as a whole before the first byte is unpacked, and read in pieces."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kz_build.core.errors import AuditError
from kz_build.core.files import storage_error
from kz_build.core.rules import outside_path

PIECE = 1 << 20
MOST = 1 << 30
"""The most bytes of one file that are read."""
_MOST_DIRECTORY = 64 << 20
_MOST_RATIO = 100  # deflate reaches 1,032; files of apps reach 20
_SMALL = 64 << 20
_AGAIN = "build, download or copy the file again"
_BREAKS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OSError,
)


@dataclass(frozen=True)
class Entry:
    """A file in a zip: `size` and `packed` in bytes, its data `offset` bytes into the zip."""

    name: str
    size: int
    packed: int
    stored: bool
    offset: int
    info: zipfile.ZipInfo


class Archive:
    """An open zip that Android accepts: `entries` without folders, in the order of its directory."""

    def __init__(self, name: str, zipped: zipfile.ZipFile, entries: tuple[Entry, ...]) -> None:
        self.name, self.entries = name, entries
        self._zipped = zipped

    def pieces(self, entry: Entry, most: int) -> Iterator[bytes]:
        """Yield the content in pieces. Raises AuditError if it is more than `most` bytes, damaged, or a bomb."""
        if entry.size > most:
            raise AuditError(
                f"{self.name}: {entry.name} would unpack to {entry.size:,} bytes; at most {most:,} are read"
            )
        if entry.size > _SMALL and entry.size > _MOST_RATIO * entry.packed:
            raise AuditError(f"{self.name}: {entry.name} blows up {entry.packed:,} bytes to {entry.size:,}: a bomb")
        try:
            with self._zipped.open(entry.info) as stream:
                while piece := stream.read(PIECE):
                    yield piece
        except _BREAKS as error:
            if isinstance(error, OSError) and (problem := storage_error(error)):
                raise problem from error
            raise AuditError(f"{self.name}: {entry.name} is damaged: {error}") from error

    def read(self, entry: Entry, most: int) -> bytes:
        """Return the whole content."""
        return b"".join(self.pieces(entry, most))


@contextlib.contextmanager
def opened(name: str, file: IO[bytes]) -> Iterator[Archive]:
    """Open a zip under its name for messages. Raises AuditError for what Android would not accept either."""
    try:
        end = _end(name, file)
        zipped = zipfile.ZipFile(file)
    except _BREAKS as error:
        raise _damaged(name, f"its directory cannot be read: {error}") from error
    with zipped:
        try:
            entries = _entries(name, file, zipped, *end)
        except _BREAKS as error:
            raise _damaged(name, str(error)) from error
        yield Archive(name, zipped, entries)


def _damaged(name: str, what: str) -> AuditError:
    return AuditError(f"{name} is damaged: {what}", hint=_AGAIN)


def _end(name: str, file: IO[bytes]) -> tuple[int, int]:
    """Return start and number of entries of the central directory.

    It is checked before Python reads all of it: an app's has a limited size.
    """
    size = file.seek(0, 2)
    if not size:
        raise AuditError(f"{name} is empty: a zip of 0 bytes is none", hint=_AGAIN)
    tail_at = max(0, size - 65557 - 20)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < 22:
        text = f"{name} is not a complete zip ({size:,} bytes): the directory at its end is missing"
        raise AuditError(text, hint=_AGAIN)
    _, _, _, _, count, length, start, comment = struct.unpack_from("<IHHHHIIH", tail, at)
    if at + 22 + comment != len(tail) or tail[max(0, at - 20) : at].startswith(b"PK\6\7") or count == 0xFFFF:
        raise AuditError(f"{name} is a zip64 file, or something is appended to it: Android accepts no such app")
    if length > _MOST_DIRECTORY or start + length != tail_at + at:
        raise _damaged(name, f"its directory is not where it says ({length:,} bytes at {start:,})")
    return int(start), int(count)


def _entries(name: str, file: IO[bytes], zipped: zipfile.ZipFile, end: int, count: int) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    seen: set[str] = set()
    infos = sorted(zipped.infolist(), key=lambda i: i.header_offset)
    if len(infos) != count:
        raise _damaged(name, f"its directory has {len(infos):,} entries, and says that they are {count:,}")
    for info, following in zip(infos, [*(i.header_offset for i in infos[1:]), end], strict=True):
        path = info.orig_filename
        if min(path, default=" ") < " ":
            raise _damaged(name, f"its directory has an entry of the name {path[:40]!r}…")
        if outside_path(path[:-1] if path.endswith("/") else path):
            raise AuditError(f"{name}: the entry {path!r} leaves the folder, or is not a path: do not trust this file")
        if path in seen:
            raise AuditError(f"{name}: {path!r} is in it twice: what is checked and what runs could differ")
        seen.add(path)
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise AuditError(f"{name}: {path} is encrypted, or packed in a way that Android does not know")
        offset = _data(file, info)
        if offset + info.compress_size > following:
            raise AuditError(f"{name}: {path} overlaps the next entry: do not trust this file")
        stored = info.compress_type == zipfile.ZIP_STORED
        if stored and info.file_size != info.compress_size:
            sizes = f"{info.compress_size:,} bytes, and its directory says {info.file_size:,}"
            raise _damaged(name, f"{path} is stored in {sizes}")
        if not path.endswith("/"):
            entries.append(Entry(path, info.file_size, info.compress_size, stored, offset, info))
    return tuple(entries)


def _data(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    """Return the start of an entry's data: behind its local header, whose extra field may differ from the directory's."""
    file.seek(info.header_offset)
    header = file.read(30)
    if header[:4] != b"PK\3\4":
        raise zipfile.BadZipFile(f"{info.orig_filename} is not where the directory says")
    name, extra = struct.unpack_from("<HH", header, 26)
    return info.header_offset + 30 + int(name) + int(extra)


def digests_of(path: Path, below: str) -> dict[str, str]:
    """Return the sha256 of each file of a zip whose name starts with `below`, by its name. Raises AuditError."""
    digests = {}
    with path.open("rb") as file, opened(path.name, file) as archive:
        for entry in archive.entries:
            if entry.name.startswith(below):
                digest = hashlib.sha256()
                for piece in archive.pieces(entry, MOST):
                    digest.update(piece)
                digests[entry.name] = digest.hexdigest()
    return digests
