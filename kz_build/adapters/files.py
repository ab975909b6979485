"""Files written whole or not at all, and the record each stage leaves."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kz_build.model.errors import StorageError


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
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
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
def new_folder(path: Path) -> Iterator[Path]:
    """A folder that appears at `path` only when the block ends well; what was there before stays until then."""
    import tempfile

    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        os.chmod(made, 0o755)
        try:
            yield made
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, old / "x")
            os.rename(made, path)
            remove(old)
        except BaseException:
            remove(made)
            raise


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
            os.link(source, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, target, follow_symlinks=False)
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


def read_manifest(path: Path, key: str) -> dict[str, Any] | None:
    """A stage's manifest when it was made from the inputs that `key` stands for, else None."""
    try:
        data = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return data if isinstance(data, dict) and data.get("key") == key else None


def write_manifest(path: Path, key: str, data: dict[str, Any]) -> None:
    """Leave a stage's record: atomically and last."""
    write_atomic(path, json.dumps({**data, "key": key}, indent=1, sort_keys=True).encode() + b"\n")
