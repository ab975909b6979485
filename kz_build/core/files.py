"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from kz_build.core.errors import StorageError


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a missing write permission into a StorageError that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                f"the disk of {path} is full", hint="free space there, or move the store: KZ_CACHE=/other/disk"
            ) from error
        # ENOLCK: a file system without locks, such as NFS whose lock service is down.
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV, errno.ENOLCK):
            raise StorageError(
                f"cannot write {path}: {error.strerror}", hint="make it writable, or choose another folder"
            ) from error
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, leaves the old bytes or the new ones, never a mix."""
    import tempfile  # reading does not need it

    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def new_folder(path: Path, staging: Path | None = None) -> Iterator[Path]:
    """Create a folder that replaces `path` only when the block succeeds.

    A reader sees the old folder or the new one. It is created in `staging`, or beside `path`. The caller holds a lock:
    what a killed run left there is removed first.
    """
    staged = _staged(path, staging)
    with disk_errors(path):
        recover(path, staging)
        staged.mkdir(parents=True)
        staged.chmod(0o755)
        try:
            yield staged
            _publish(staged, path)
        finally:
            recover(path, staging)


def recover(path: Path, staging: Path | None = None) -> None:
    """Clean up after a `new_folder` that failed or was killed; put back an old folder that was moved away."""
    for place in _places(_staged(path, staging), path):
        old = _aside(place)
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        remove(old)
        remove(place)


def _publish(staged: Path, path: Path) -> None:
    """Replace a folder by another, by a copy if they lie on different disks. An error leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for place in (places := _places(staged, path)):
        try:
            if place != staged:
                link_tree(staged, place)
            _exchange(place, path)
            return
        except (OSError, StorageError) as error:
            elsewhere = place != staged or isinstance(error, OSError) and error.errno == errno.EXDEV
            if not elsewhere or place == places[-1]:
                raise


def _staged(path: Path, staging: Path | None) -> Path:
    return (staging or path.parent) / f".{path.name}.new"


def _places(staged: Path, path: Path) -> tuple[Path, ...]:
    """Return where a folder may wait to become `path`: where it was created; if that is another disk, beside the top
    folder on the way to `path`, out of sight of its readers; and beside `path` if the top folder is a mount."""
    root = Path(os.path.commonpath((staged, path)))
    top, *rest = path.relative_to(root).parts
    top_folder = (root / top).resolve()
    hidden = "-".join((f".{top_folder.name}", *rest)) + ".new"
    return tuple(dict.fromkeys((staged, top_folder.with_name(hidden) if rest else staged, _staged(path, None))))


def _exchange(staged: Path, path: Path) -> None:
    """Rename `staged` to `path`; what was there is then at `staged` or beside it. `recover` undoes half an exchange."""
    if not os.path.lexists(path):
        os.rename(staged, path)
    elif not _exchanged_atomically(staged, path):
        os.rename(path, _aside(staged))
        os.rename(staged, path)


def _exchanged_atomically(staged: Path, path: Path) -> bool:
    """Exchange two names by renameat2(2); return False if the C library, the kernel or the file system cannot."""
    import ctypes

    at_cwd, rename_exchange = -100, 2
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(at_cwd, os.fsencode(staged), at_cwd, os.fsencode(path), rename_exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):  # EPERM: a container's answer to unknown calls
        return False
    raise OSError(code, os.strerror(code), str(staged), None, str(path))


def _aside(staged: Path) -> Path:
    return staged.with_name(f"{staged.name}.old")


def remove(path: Path) -> None:
    """Delete a file or a folder, read-only ones too, if it exists."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        for folder, names, _ in os.walk(path):
            for name in names:
                inner = os.path.join(folder, name)
                if not os.path.islink(inner) and not os.access(inner, os.W_OK | os.X_OK):
                    os.chmod(inner, 0o755)
        shutil.rmtree(path)


@contextlib.contextmanager
def delete_in_background(folders: Sequence[Path], aside: Path) -> Iterator[None]:
    """Move folders into `aside`, on the same disk, and delete them while the block runs; at its end they are gone."""
    from concurrent.futures import ThreadPoolExecutor

    remove(aside)  # left by a killed run
    with disk_errors(aside):
        aside.mkdir(parents=True)
        for number, folder in enumerate(folders):
            try:
                folder.rename(aside / str(number))
            except OSError:  # not there, or on another disk
                remove(folder)
    with ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(remove, aside)
        yield
        deleted.result()


def hardlink_or_copy(at: Path, to: Path) -> None:
    """Link a file to another path, or copy it if the disk has no hard links."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(at, to)
    except OSError:
        shutil.copy2(at, to)


def write_new(path: Path, data: bytes) -> None:
    """Write a file into a folder that has no readers yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o644)


def link_tree(folder: Path, to: Path) -> None:
    """Copy a folder, by hard links if the disk allows; symbolic links stay as they are."""

    def link(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            with disk_errors(to):  # copytree goes on after an OSError, and loses its number
                shutil.copy2(source, target)
        return target

    with disk_errors(to):
        shutil.copytree(folder, to, symlinks=True, copy_function=link)


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
