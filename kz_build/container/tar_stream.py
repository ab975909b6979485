"""Tar streams to and from a container: without a copy on disk, and the same bytes for the same content anywhere."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from kz_build.core.paths import excluded, refuse

USER = 10001
"""Uid and gid of builds in a container, and of all files sent there."""
_PIECE = 1 << 20
_WILDCARD = re.compile(r"[*?[]")


def archive(source: Path, to: PurePosixPath, only: Sequence[str] = ()) -> Iterator[bytes]:
    """Yield a tar of a folder, or what `only` names in it, or one file, below `to`, in pieces of about 1 MB.

    Owner, times and modes are fixed, but for "executable": only content is sent.
    """
    blocks, size = [], 0
    for piece in _blocks(source, to, only):
        blocks.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(blocks)
            blocks, size = [], 0
    yield b"".join([*blocks, bytes(2 * tarfile.BLOCKSIZE)])


def _blocks(source: Path, to: PurePosixPath, only: Sequence[str]) -> Iterator[bytes]:
    for parent in reversed((to, *to.parents)):
        if parent.name:
            yield _head(str(parent), tarfile.DIRTYPE, executable=True)
    if source.is_file():
        yield from _file(str(to / source.name), source)
        return
    for path, kind in listing(source, only):
        name, full = str(to / path), source / path
        if kind == tarfile.SYMTYPE:
            yield _head(name, kind, link=os.readlink(full))
        elif kind == tarfile.DIRTYPE:
            yield _head(name, kind, executable=True)
        else:
            yield from _file(name, full)


def _file(name: str, path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        yield _head(name, tarfile.REGTYPE, size=status.st_size, executable=bool(status.st_mode & 0o100))
        left = status.st_size
        while left:
            piece = file.read(min(left, _PIECE))
            if not piece:
                raise OSError(f"{path} became shorter while it was read")
            left -= len(piece)
            yield piece
    yield bytes(-status.st_size % tarfile.BLOCKSIZE)


def _head(name: str, kind: bytes, *, size: int = 0, link: str = "", executable: bool = False) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    info.mode, info.mtime, info.uid, info.gid = 0o755 if executable else 0o644, 1, USER, USER
    return info.tobuf(tarfile.PAX_FORMAT)


def listing(folder: Path, only: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield (path, kind of tar member) of all in a folder, by name."""
    for base, folders, files in os.walk(folder, onerror=refuse):
        below = "" if base == str(folder) else f"{Path(base).relative_to(folder).as_posix()}/"
        links = [name for name in folders if os.path.islink(os.path.join(base, name))]
        folders[:] = sorted(name for name in folders if name not in links and _may_contain(f"{below}{name}/", only))
        yield from ((f"{below}{name}", tarfile.DIRTYPE) for name in folders)
        for name in sorted([*files, *links]):
            if not only or excluded(f"{below}{name}", only):
                linked = os.path.islink(os.path.join(base, name))
                yield f"{below}{name}", tarfile.SYMTYPE if linked else tarfile.REGTYPE


def outside_links(folder: Path, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (path, target) of links that break elsewhere: absolute ones, and those that lead out of the folder."""
    for path, kind in listing(folder, only):
        if kind == tarfile.SYMTYPE:
            target = os.readlink(folder / path)
            if (
                os.path.isabs(target)
                or os.path.normpath(f"{os.path.dirname(path) or '.'}/{target}").split("/")[0] == ".."
            ):
                yield path, target


def _may_contain(folder: str, only: Sequence[str]) -> bool:
    """Return whether a folder (`a/b/`) can have files that match, by what is before the first wildcard of each pattern."""
    fixed = (_WILDCARD.split(pattern, maxsplit=1)[0] if "/" in pattern else "" for pattern in only)
    return not only or any(folder.startswith(path) or path.startswith(folder) for path in fixed)


def state_digest(folder: Path, only: Sequence[str] = ()) -> str:
    """Return a digest of a folder of unknown origin as it is now: names, sizes and times of all in it."""
    digest = hashlib.sha256()
    for path, kind in listing(folder, only):
        status = os.lstat(folder / path)
        digest.update(f"{path}\0{kind!r}{status.st_size} {status.st_mode} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class _Reader(io.RawIOBase):
    """A file of pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return 0
        size = min(len(buffer), len(self._rest))
        self.size += size
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def extract(pieces: Iterable[bytes], places: Callable[[str], Path | None]) -> set[str]:
    """Write the regular files of a tar for which `places` returns a path, nothing else; return their names.

    What a container sends is not trusted: links, other names and other kinds of members are ignored. Raises
    tarfile.TarError for what is no tar, or a part of one.
    """
    names = set()
    reader = _Reader(pieces)
    with tarfile.open(fileobj=io.BufferedReader(reader, _PIECE), mode="r|") as tar:
        for member in tar:
            path = places(member.name) if member.isreg() else None
            content = tar.extractfile(member) if path else None
            if path and content:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    while piece := content.read(_PIECE):
                        file.write(piece)
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
                names.add(member.name)
        # Tarfile takes any end between two members for that of the archive.
        if reader.size < tar.offset + tarfile.BLOCKSIZE:
            raise tarfile.ReadError("it has no end")
    return names
