"""Archives of upstream's: zips (wheels too) and tars. Every member is checked before the first is written or kept."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from kz_build.core.errors import LockError
from kz_build.core.files import disk_errors
from kz_build.core.paths import excluded
from kz_build.core.progress import Event, Watch, quiet
from kz_build.core.rules import unsafe_path
from kz_build.git.object_types import Blob

Member = TypeVar("Member")
SILENT_SECONDS = 1.0
"""What is unpacked sooner shows nothing."""
MOST_MEMBERS = 200_000  # an NDK has 25,000
_MOST_BYTES = 64 << 30
MOST_IN_MEMORY = 1 << 30
SMALL = 64 << 20
_MOST_RATIO = 100  # of what is above SMALL; deflate and xz reach more than 1,000, sources and SDKs 10
_LONGEST_HEADER = 1 << 20  # of a tar: extended headers are read whole
_PIECE = 1 << 20
_MOST_FOR_XZ = 320 << 20  # `xz -9` takes 65 MB
_DO_NOT_TRUST = "the archive is not unpacked; do not trust it"
_BREAKS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
    OverflowError,
)
"""What Python's readers raise for a damaged archive."""


def unpack(archive: Path, folder: Path, root: str = "", only: Sequence[str] = (), watch: Watch = quiet) -> None:
    """Unpack a zip or tar. Raises LockError for a damaged one, one out of bounds, or a member that leaves the folder."""
    with _refusing_damage(archive), disk_errors(folder):
        if is_zip(archive):
            _unpack_zip(archive, folder, root, only, watch)
        else:
            _unpack_tar(archive, folder, root, only, watch)


def wheel_files(path: Path) -> dict[str, Blob]:
    """Return the content of a wheel without its RECORD. Raises LockError like `unpack`."""
    files = {}
    with opened_zip(path, MOST_IN_MEMORY) as zipped:
        for info in zipped.infolist():
            if not info.is_dir() and not re.fullmatch(r"[^/]+\.dist-info/RECORD", info.filename):
                mode = "100755" if (info.external_attr >> 16) & 0o111 else "100644"
                files[info.filename] = Blob(mode, zipped.read(info))
    return files


def wheel_file(path: Path, name: str) -> tuple[bytes | None, tuple[str, ...]]:
    """Return one file of a wheel, None if it is not there, and the names of all. Raises LockError like `unpack`."""
    with opened_zip(path) as zipped:
        infos = {info.filename: info for info in zipped.infolist()}
        if (info := infos.get(name)) and info.file_size > SMALL:
            raise ValueError(f"{name} has {info.file_size:,} bytes")
        return zipped.read(info) if info else None, tuple(infos)


@contextlib.contextmanager
def opened_zip(path: Path, most: int = _MOST_BYTES) -> Iterator[zipfile.ZipFile]:
    """Open a zip whose members are all checked, and unpack to `most` bytes at most. Raises LockError like `unpack`, also in the block."""
    with _refusing_damage(path), zipfile.ZipFile(path) as zipped:
        members = _Members(path, most)
        for info in zipped.infolist():
            members.add_zipped(zipped, info)
        members.finish()
        yield zipped


@contextlib.contextmanager
def _refusing_damage(archive: Path) -> Iterator[None]:
    hint = "is the address right? it may be an error page, or cut off. Nothing of it was used"
    try:
        yield
    except _BREAKS as error:
        raise LockError(
            f"{archive.name} is damaged, or neither zip nor tar: {error or repr(error)}", hint=hint
        ) from error
    except OSError as error:  # gzip and bz2 give theirs no number, and a damaged offset is an invalid argument
        if error.errno not in (None, errno.EINVAL):
            raise
        raise LockError(f"{archive.name} is damaged, or neither zip nor tar: {error}", hint=hint) from error


def is_zip(archive: Path) -> bool:
    """Whether it begins as a zip. `zipfile.is_zipfile` also takes a tar that ends with one."""
    with archive.open("rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")


class _Members:
    """The members that were seen so far, each checked by itself, and at the end against all others."""

    def __init__(self, archive: Path, most: int = _MOST_BYTES) -> None:
        self.archive = archive
        self.most = min(most, max(SMALL, _MOST_RATIO * archive.stat().st_size))
        self.bytes = self.count = 0
        self.links: set[str] = set()
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def add(self, name: str, size: int, target: str | None = None, *, folder: bool = False) -> None:
        """Check a member: a file, a folder, or a symbolic link to `target`."""
        path = self.refuse_unsafe(name)
        self.bytes += size
        self.count += 1
        if self.bytes > self.most or self.count > MOST_MEMBERS:
            what = f"{self.bytes:,} bytes" if self.bytes > self.most else f"{self.count:,} members"
            raise self.refused(f"it would unpack to {what} or more, from {self.archive.stat().st_size:,} bytes")
        if folder:
            self.folders.add(path)
            return
        if path in self.files:
            raise self.refused(f"member {name!r} is in it twice")
        self.files.add(path)
        if target is not None:
            self.links.add(path)
            self._refuse_link(name, target)

    def add_zipped(self, zipped: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        """Check a member of a zip."""
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self.refused(f"member {info.filename!r} is encrypted, or not packed by deflate")
        target = None
        if _is_link(info):
            if info.file_size > tarfile.BLOCKSIZE:
                raise self.refused(f"link {info.filename!r} has a target of {info.file_size:,} bytes")
            target = zipped.read(info).decode("utf-8", "replace")
        self.add(info.filename, info.file_size, target, folder=info.filename.endswith("/"))

    def finish(self) -> None:
        """Refuse a member below a link, whose name does not say where it would be written, or below a file."""
        for path in (*self.files, *self.folders):
            parts = path.split("/")
            for above in ("/".join(parts[:at]) for at in range(1, len(parts))):
                if above in self.files:
                    what = "goes through a link" if above in self.links else f"is below the file {above!r}"
                    raise self.refused(f"member {path!r} {what}")
        if both := sorted(self.files & self.folders):
            raise self.refused(f"member {both[0]!r} is a file and a folder")

    def refuse_unsafe(self, name: str) -> str:
        """Return the path of a member without `./` and `/` around it."""
        path = name.removeprefix("./").rstrip("/")
        if path in ("", ".") and name.startswith("."):
            return "."
        wrong = unsafe_path(path)
        if name.startswith("/") or wrong.startswith(("is not", "climbs")):
            raise self.refused(f"member {name!r} leaves the folder")
        if wrong.startswith("is longer"):
            raise self.refused(f"member {name[:80]!r}… {wrong}")
        return path

    def _refuse_link(self, name: str, target: str) -> None:
        """Refuse a link that leaves the folder. `..` may only lead: after another link it could mean any place."""
        parts = PurePosixPath(target).parts
        up = sum(part == ".." for part in parts)
        depth = len(PurePosixPath(name).parent.parts)
        if not target or "\0" in target or target.startswith("/") or ".." in parts[up:] or up > depth:
            raise self.refused(f"link {name!r} -> {target[:200]!r} leaves the folder")

    def refused(self, problem: str) -> LockError:
        """Return the error for an archive that is whole, but must not be unpacked."""
        return LockError(f"{self.archive.name}: {problem}", hint=_DO_NOT_TRUST)


def _wanted(name: str, root: str, only: Sequence[str]) -> str:
    """Return a member's path below root, '' if it is not wanted."""
    path = name.removeprefix("./").rstrip("/")
    if root:
        if not path.startswith(root + "/"):
            return ""
        path = path[len(root) + 1 :]
    return path if not only or excluded(path, only) else ""


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


def _watched(members: Sequence[Member], watch: Watch) -> Iterator[Member]:
    """Yield members that are unpacked; show how many are, once that takes long."""
    started = time.monotonic()
    for at, member in enumerate(members):
        if time.monotonic() - started > SILENT_SECONDS:
            watch(Event("unpacking", at, len(members)))
        yield member


def _unpack_zip(archive: Path, folder: Path, root: str, only: Sequence[str], watch: Watch) -> None:
    with opened_zip(archive) as zipped:
        # Links come last: nothing is written through one.
        for info in _watched(sorted(zipped.infolist(), key=_is_link), watch):
            path = _wanted(info.filename, root, only)
            if not path:
                continue
            place = folder / path
            if info.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if _is_link(info):
                place.symlink_to(zipped.read(info).decode("utf-8", "replace"))
                continue
            with zipped.open(info) as source, place.open("wb") as file:
                while piece := source.read(_PIECE):
                    file.write(piece)
            place.chmod(0o755 if (info.external_attr >> 16) & 0o111 else 0o644)


class Xz(io.RawIOBase):
    """An xz or lzma file, whose streams and blocks each take bounded memory: lzma.open has no limit."""

    def __init__(self, archive: Path) -> None:
        self._file = archive.open("rb")
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._at = 0
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_AUTO, _MOST_FOR_XZ)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = b""
        while not piece and (data := self._input()) is not None:
            piece = self._stream.decompress(data, len(buffer))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _input(self) -> bytes | None:
        """Return what the decompressor lacks, None at the end."""
        if self._stream.eof:
            if not (rest := self._stream.unused_data.lstrip(b"\0") or self._file.read(_PIECE).lstrip(b"\0")):
                return None
            self._stream = lzma.LZMADecompressor(lzma.FORMAT_AUTO, _MOST_FOR_XZ)
            return rest
        data = self._file.read(_PIECE) if self._stream.needs_input else b""
        if not data and self._stream.needs_input:
            raise EOFError("it is cut off")
        return data

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        place += self._at if whence == io.SEEK_CUR else 0
        if place < self._at:
            self._begin()
        while self._at < place and self.read(min(_PIECE, place - self._at)):
            pass
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()


class _Plain:
    """The bytes of a tar, unpacked; a header that is read whole must be short."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._file.read(size)


def _opened(archive: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a tar, by what it begins with."""
    with archive.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(archive)
    if start.startswith(b"BZh"):
        return bz2.open(archive)
    return io.BufferedReader(Xz(archive)) if start == b"\xfd7zXZ\0" else archive.open("rb")


def _unpack_tar(archive: Path, folder: Path, root: str, only: Sequence[str], watch: Watch) -> None:
    members = _Members(archive)
    wanted = []
    with _opened(archive) as file, tarfile.open(fileobj=_Plain(file), mode="r:") as tar:  # type: ignore[call-overload]
        for member in tar:
            target = member.linkname if member.issym() else None
            members.add(member.name, member.size, target, folder=member.isdir())
            if member.islnk():
                members.refuse_unsafe(member.linkname)
            elif not (member.isfile() or member.isdir() or member.issym()):
                raise members.refused(f"member {member.name!r} is a device or pipe")
            if path := _wanted(member.name, root, only):
                member.name = path
                wanted.append(member)
        members.finish()
        # Also Python's own guard, if this Python (3.10.12, 3.11.4 and newer) has one.
        guard: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, _watched(wanted, watch), **guard)
