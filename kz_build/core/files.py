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
    """Turn a full disk or a folder one may not write into a StorageError that names the place."""
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
    """Write a file so that a reader or a crash sees the old bytes or the new ones, never half."""
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
    """A folder that appears at `path` only when the block ends well; what was there before stays until then.

    A reader sees the old folder or the new one. It is made in `staging`, or beside `path`. The caller holds a lock: what
    a dead run left there is removed first.
    """
    made = _staged(path, staging)
    with disk_errors(path):
        recover(path, staging)
        made.mkdir(parents=True)
        made.chmod(0o755)
        try:
            yield made
            _publish(made, path)
        finally:
            recover(path, staging)


def recover(path: Path, staging: Path | None = None) -> None:
    """Clean up after a `new_folder` that failed or was killed: an old folder that was moved away comes back."""
    for place in _places(_staged(path, staging), path):
        old = _aside(place)
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        remove(old)
        remove(place)


def _publish(made: Path, path: Path) -> None:
    """Put a folder in the place of another, by a copy where they lie on different disks. An error leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for place in (places := _places(made, path)):
        try:
            if place != made:
                link_tree(made, place)
            _exchange(place, path)
            return
        except (OSError, StorageError) as error:
            elsewhere = place != made or isinstance(error, OSError) and error.errno == errno.EXDEV
            if not elsewhere or place == places[-1]:
                raise


def _staged(path: Path, staging: Path | None) -> Path:
    return (staging or path.parent) / f".{path.name}.new"


def _places(made: Path, path: Path) -> tuple[Path, ...]:
    """Where a folder may wait to become `path`: where it is made; where that is another disk, beside the top folder on
    the way to `path`, so that nobody who reads that one meets it; and beside `path` where the top folder is a mount."""
    root = Path(os.path.commonpath((made, path)))
    top, *rest = path.relative_to(root).parts
    top_folder = (root / top).resolve()
    hidden = "-".join((f".{top_folder.name}", *rest)) + ".new"
    return tuple(dict.fromkeys((made, top_folder.with_name(hidden) if rest else made, _staged(path, None))))


def _exchange(made: Path, path: Path) -> None:
    """Rename `made` to `path`; what was there is at `made` or beside it afterwards. `recover` undoes half of it."""
    if not os.path.lexists(path):
        os.rename(made, path)
    elif not _exchanged_at_once(made, path):
        os.rename(path, _aside(made))
        os.rename(made, path)


def _exchanged_at_once(made: Path, path: Path) -> bool:
    """Exchange two names by renameat2(2); False where the C library, the kernel or the file system cannot."""
    import ctypes

    at_cwd, rename_exchange = -100, 2
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(at_cwd, os.fsencode(made), at_cwd, os.fsencode(path), rename_exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):  # EPERM: a container's answer to unknown calls
        return False
    raise OSError(code, os.strerror(code), str(made), None, str(path))


def _aside(made: Path) -> Path:
    return made.with_name(f"{made.name}.old")


def remove(path: Path) -> None:
    """Delete a file or a folder, read-only ones too; nothing happens where there is none."""
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
def removing(folders: Sequence[Path], aside: Path) -> Iterator[None]:
    """Move folders out of the way into `aside`, on the same disk, and delete them while the block runs; at its end they are gone."""
    from concurrent.futures import ThreadPoolExecutor

    remove(aside)  # of a run that was killed
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


def second_name(at: Path, to: Path) -> None:
    """The same file in another place; a copy where the disk knows no links."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(at, to)
    except OSError:
        shutil.copy2(at, to)


def put(path: Path, data: bytes) -> None:
    """Write a file into a folder that nobody sees yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o644)


def link_tree(folder: Path, to: Path) -> None:
    """The same files in another place, as hard links where the disk allows; symbolic links as they are."""

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
    """sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
