"""The content-addressed store: repositories by address, files and unpacked folders by sha256."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kz_build.core.errors import ConfigError, LockError
from kz_build.core.files import disk_errors, new_folder, sha256_file, write_atomic
from kz_build.core.locks import lock
from kz_build.core.paths import excluded, refuse
from kz_build.core.progress import Watch
from kz_build.git.object_types import Blob, FileOnDisk


def stored_file(store: Path, sha256: str) -> Path:
    """Return the path of a file by its digest; it may not be there."""
    return store / "sha256" / sha256


def partial_file(store: Path, url: str) -> Path:
    """Return the path of an unfinished download of an address."""
    return store / "partial" / _short(url)


def last_digest(store: Path, url: str) -> str:
    """Return the sha256 of the last download from an address, '' if there was none."""
    note = store / "addresses" / _short(url)
    return note.read_text() if note.is_file() else ""


def remember_digest(store: Path, url: str, sha256: str) -> None:
    """Remember the sha256 of a download from an address."""
    write_atomic(store / "addresses" / _short(url), sha256.encode())


Hint = Callable[[str], str]
"""What to do about a file with another digest than the expected one, by its digest."""


def copy_to(path: Path, part: Path) -> None:
    """Copy a file of this machine to where downloads begin."""
    with disk_errors(part):
        part.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, part)


def adopt(store: Path, part: Path, expected: str, name: str, hint: Hint) -> str:
    """Move a finished download into the store; return its sha256. A wrong digest removes it and raises LockError."""
    sha256 = sha256_file(part)
    part.with_suffix(".etag").unlink(missing_ok=True)
    if expected and sha256 != expected:
        part.unlink()
        raise LockError(f"{name} has sha256 {sha256}, expected {expected}", hint=hint(sha256))
    target = stored_file(store, sha256)
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o444)
        part.replace(target)
    return sha256


def unpacked_folder(store: Path, sha256: str, root: str, only: Sequence[str]) -> Path:
    """Return the folder of an archive's unpacked content, or of this part of it; it may not be there."""
    return store / "unpacked" / (sha256 + ("-" + _short(f"{root}\0{only}") if root or only else ""))


def unpack_once(store: Path, sha256: str, root: str, only: Sequence[str], watch: Watch) -> None:
    """Unpack a stored archive into its folder. Raises LockError for a member that leaves the folder."""
    from kz_build.sources.archive import unpack

    target = unpacked_folder(store, sha256, root, only)
    archive = stored_file(store, sha256)
    with lock(store, f"unpack-{sha256[:16]}"):
        if not target.is_dir():
            with new_folder(target) as target_folder:
                unpack(archive, target_folder, root, only, watch)


def linked_layout(store: Path, folder: Path, layout: Mapping[str, str]) -> Path:
    """Create another layout of an unpacked folder: nothing but links into it. Raises ConfigError for a missing part."""
    if absent := [part for part in layout.values() if not (folder / part).exists()]:
        raise ConfigError(
            f"{', '.join(absent)}: not in the unpacked part of the wheel", hint="fix `lay` or `only` in pins.yaml"
        )
    links = {
        path: os.path.relpath(folder / part, (store / "laid" / "x" / path).parent) for path, part in layout.items()
    }
    target = store / "laid" / f"{folder.name}-{_short(json.dumps(links, sort_keys=True))}"
    if not all((target / path).is_symlink() and os.readlink(target / path) == to for path, to in links.items()):
        with lock(store, target.name), new_folder(target) as target_folder:
            for path, to in links.items():
                (target_folder / path).parent.mkdir(parents=True, exist_ok=True)
                (target_folder / path).symlink_to(to)
    return target


def folder_files(folder: Path, exclude: Sequence[str] = (), only: Sequence[str] = ()) -> dict[str, Blob | FileOnDisk]:
    """Return the files of a folder, without version control's own folders, as far as it is among `only` (all if empty)
    and not excluded."""
    files: dict[str, Blob | FileOnDisk] = {}
    for base, names, leaves in os.walk(folder, onerror=refuse):
        at = Path(base).relative_to(folder)
        links = [n for n in names if os.path.islink(os.path.join(base, n))]
        names[:] = [
            n
            for n in names
            if n not in (".git", ".hg", "__pycache__", *links) and not excluded(f"{(at / n).as_posix()}/", exclude)
        ]
        for leaf in (*leaves, *links):
            full, name = Path(base, leaf), (at / leaf).as_posix()
            if leaf == ".git" or excluded(name, exclude) or (only and not excluded(name, only)):
                continue
            mode = full.lstat().st_mode
            if stat.S_ISLNK(mode):
                files[name] = Blob("120000", os.fsencode(os.readlink(full)))
            elif stat.S_ISREG(mode):
                files[name] = FileOnDisk("100755" if os.access(full, os.X_OK) else "100644", full)
            else:
                raise ConfigError(f"{full} is neither a file nor a link", hint="name a folder with sources")
    return files


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
