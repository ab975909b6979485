"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kz_build.core.errors import StorageError
from kz_build.core.rules import unsafe_path

_OURS = (
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOTEMPTY,
    errno.EBADF,
    errno.EINVAL,
    errno.ECHILD,
)
"""Errors of a call that kz should not have made, where nobody else changes its files."""


def storage_error(error: OSError, path: Path | None = None) -> StorageError | None:
    """Return what to say of an error of the machine, such as a full disk; None if the error is a bug of kz.

    `path` is what kz worked on, if the error itself does not name it.
    """
    if error.errno is None or error.errno in _OURS:
        return None
    where = str(path or "") or path_of(error) or "a file or pipe"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"the disk of {path or where} is full", hint="free space there, or move the store: KZ_CACHE=/other/disk"
        )
    hints = {
        errno.EMFILE: "raise the limit of open files: ulimit -n",
        errno.ENFILE: "raise the limit of open files: sysctl fs.file-max",
        errno.EIO: "the disk may be failing: see dmesg",
        errno.ENOLCK: "its disk has no file locks, or no more: use a local one (KZ_CACHE=/other/disk for the store)",
        errno.ESTALE: "the file server has lost this file: run the command again",
    }
    hint = hints.get(error.errno, "make it writable, or choose another folder")
    if not path:
        return StorageError(f"cannot read or write {where}: {error.strerror}", hint=hint)
    other = f"{error.filename}: " if error.filename and str(error.filename) != where else ""
    return StorageError(f"cannot write {where}: {other}{error.strerror}", hint=hint)


def path_of(error: OSError) -> str:
    """Return the path that an error is about, '' if it is about none. A failed read or write does not name its file:
    it is that of the innermost open file or path in a call."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes, Path))]
    traceback = error.__traceback__
    while traceback and not error.filename:
        for value in traceback.tb_frame.f_locals.values():
            if isinstance(value, io.IOBase) and isinstance(name := getattr(value, "name", None), (str, Path)):
                names = [] if name in ("<stdout>", "<stderr>") else [str(name)]
            elif isinstance(value, Path) and traceback.tb_frame.f_code.co_filename.endswith("pathlib.py"):
                names = [str(value)]
        traceback = traceback.tb_next
    return " -> ".join(names)


PATIENCE = 2.0
"""Seconds of waiting before a message."""
OWN = 0o600
"""The mode of a file for its owner alone: those of the store that hold addresses."""


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the machine into a StorageError that names the path."""
    try:
        yield
    except OSError as error:
        if problem := storage_error(error, path):
            raise problem from error
        raise


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a file so that a reader, or a crash, leaves the old bytes or the new ones, never a mix.

    The new bytes wait beside it under a name that is always the same, so that the next write takes over what a killed
    one left. Raises StorageError where a folder is in its place, or a file in that of its folder.
    """
    part = path.with_name(f".{path.name}.part")
    with disk_errors(path):
        nearest = next(place for place in (path, *path.parents) if place.exists())
        if nearest.is_dir() == (nearest == path):
            kind = "folder" if nearest == path else "file"
            raise StorageError(f"cannot write {path}: {nearest} is a {kind}", hint="move it away")
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(_locked_part(part, mode), "wb") as file:
            try:
                file.truncate()
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(part, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part)
                raise


def _locked_part(part: Path, mode: int) -> int:
    """Open a file that waits to replace another; wait for a process that writes it now."""
    import fcntl  # reading does not need it

    while True:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.fchmod(handle, mode)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(part)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the other process has put it in its place


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
            other_disk = isinstance(error, OSError) and error.errno == errno.EXDEV
            if place == places[-1] and other_disk and path.is_dir() and not os.path.ismount(path):
                remove(path)  # overlayfs moves no folder of a lower layer
                os.rename(place, path)
                return
            if not (other_disk or place != staged) or place == places[-1]:
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
        try:
            shutil.rmtree(path)
        except OSError as error:
            error.filename = str(path)  # rmtree names what is in an open folder, without its path
            raise


@contextlib.contextmanager
def delete_in_background(folders: Sequence[Path], aside: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Move folders into `aside`, on the same disk, and delete it while the block runs, with what earlier runs left there.

    At the end of the block it is gone; `waiting` is called if that takes long. If the block fails, nobody waits: the next
    run deletes what is left.
    """
    import tempfile
    import threading

    with disk_errors(aside):
        aside.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=aside))
        for number, folder in enumerate(folders):
            try:
                folder.rename(place / str(number))
            except OSError:  # not there, or on another disk
                remove(folder)
    errors: list[OSError] = []

    def delete() -> None:
        try:
            remove(aside)
        except OSError as error:
            errors.append(error)

    deletion = threading.Thread(target=delete, daemon=True)  # the process may end before it
    deletion.start()
    yield
    deletion.join(PATIENCE)
    if deletion.is_alive():
        waiting()
        deletion.join()
    if errors:
        raise errors[0]


def remove_at_once(path: Path, aside: Path) -> None:
    """Delete a file or a folder below the folder of `aside`. A kill leaves the whole or, at `aside`, what `remove_unfinished`
    deletes."""
    try:
        path.rename(aside)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        aside.symlink_to(path.relative_to(aside.parent))  # overlayfs moves no folder of a lower layer
        remove(path)
    remove(aside)


def remove_unfinished(aside: Path) -> None:
    """Delete what a killed `remove_at_once` left."""
    if aside.is_symlink() and not unsafe_path(name := os.readlink(aside)):
        remove(aside.parent / name)
    remove(aside)


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
