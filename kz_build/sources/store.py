"""The content-addressed store: repositories by address, files and unpacked folders by sha256."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.core.errors import ConfigError, LockError
from kz_build.core.files import disk_errors, new_folder, sha256_file, write_atomic
from kz_build.core.locks import lock
from kz_build.git.object_types import Blob


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


def adopt(store: Path, part: Path, expected: str, name: str) -> str:
    """Move a finished download into the store; return its sha256. A wrong digest removes it and raises LockError."""
    sha256 = sha256_file(part)
    part.with_suffix(".etag").unlink(missing_ok=True)
    if expected and sha256 != expected:
        part.unlink()
        raise LockError(
            f"{name} has sha256 {sha256}, expected {expected}",
            hint="upstream changed the file, or something altered it on the way. Nothing was kept; try again, "
            f"and if upstream confirms the change: kz lock --write --trust {name}",
        )
    target = stored_file(store, sha256)
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o444)
        part.replace(target)
    return sha256


def unpacked_folder(store: Path, sha256: str, root: str, only: Sequence[str]) -> Path:
    """Return the folder of an archive's unpacked content, or of this part of it; it may not be there."""
    return store / "unpacked" / (sha256 + ("-" + _short(f"{root}\0{only}") if root or only else ""))


def unpack_once(store: Path, sha256: str, root: str, only: Sequence[str]) -> None:
    """Unpack a stored archive into its folder. Raises LockError for a member that leaves the folder."""
    from kz_build.sources.archive import unpack

    target = unpacked_folder(store, sha256, root, only)
    archive = stored_file(store, sha256)
    with lock(store, f"unpack-{sha256[:16]}"):
        if not target.is_dir():
            with new_folder(target) as target_folder:
                unpack(archive, target_folder, root, only)


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


def folder_files(folder: Path) -> dict[str, Blob]:
    """Return the content of a folder without version control's own folders."""
    files = {}
    for base, names, leaves in os.walk(folder):
        names[:] = [
            n for n in names if n not in (".git", ".hg", "__pycache__") and not os.path.islink(os.path.join(base, n))
        ]
        for leaf in (*leaves, *(n for n in os.listdir(base) if os.path.islink(os.path.join(base, n)))):
            full = Path(base, leaf)
            name = full.relative_to(folder).as_posix()
            if name in files or leaf == ".git":
                continue
            if full.is_symlink():
                files[name] = Blob("120000", os.fsencode(os.readlink(full)))
            else:
                files[name] = Blob("100755" if os.access(full, os.X_OK) else "100644", full.read_bytes())
    return files


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
