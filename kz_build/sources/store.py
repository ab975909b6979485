"""The content-addressed store: repositories by address, files and unpacked folders by sha256."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kz_build.core.errors import ConfigError, LockError
from kz_build.core.files import disk_errors, new_folder, sha256_file, write_atomic
from kz_build.core.locks import lock
from kz_build.core.paths import excluded
from kz_build.core.rules import unsafe_path
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


def _wanted(name: str, root: str, only: Sequence[str]) -> str:
    """Return a member's path below root, '' if it is not wanted."""
    path = name.removeprefix("./").rstrip("/")
    if root:
        if not path.startswith(root + "/"):
            return ""
        path = path[len(root) + 1 :]
    return path if not only or excluded(path, only) else ""


def unpack(archive: Path, folder: Path, root: str = "", only: Sequence[str] = ()) -> None:
    """Unpack a zip or tar. Every member is checked before the first is written."""
    if zipfile.is_zipfile(archive):
        _unpack_zip(archive, folder, root, only)
        return
    try:
        with tarfile.open(archive) as tar:
            members = []
            links = {m.name for m in tar.getmembers() if m.issym()}
            for member in tar.getmembers():
                _refuse_through(member.name, links, archive)
                _refuse_unsafe(member.name, archive)
                if member.issym():
                    _refuse_link(member.name, member.linkname, archive)
                elif member.islnk():
                    _refuse_unsafe(member.linkname, archive)
                elif not (member.isfile() or member.isdir()):
                    raise LockError(
                        f"{archive.name}: member {member.name!r} is a device or pipe",
                        hint="the archive is not unpacked; do not trust it",
                    )
                if path := _wanted(member.name, root, only):
                    member.name = path
                    members.append(member)
            # Also Python's own guard, if this Python (3.10.12, 3.11.4 and newer) has one.
            guard: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            with disk_errors(folder):
                tar.extractall(folder, members, **guard)
    except tarfile.ReadError as error:
        raise LockError(
            f"{archive.name} is neither zip nor tar: {error}", hint="is the address right? it may be an error page"
        ) from error


def _refuse_unsafe(name: str, archive: Path) -> None:
    path = name.removeprefix("./").rstrip("/")
    if path in ("", ".") and not name.startswith("/"):
        return
    if name.startswith("/") or unsafe_path(path).startswith(("is not", "climbs")):
        raise LockError(
            f"{archive.name}: member {name!r} leaves the folder", hint="the archive is not unpacked; do not trust it"
        )


def _unpack_zip(archive: Path, folder: Path, root: str, only: Sequence[str]) -> None:
    with zipfile.ZipFile(archive) as zipped, disk_errors(folder):
        links = []
        for info in zipped.infolist():
            _refuse_unsafe(info.filename, archive)
            if stat.S_ISLNK(info.external_attr >> 16):
                target = zipped.read(info).decode("utf-8", "replace")
                _refuse_link(info.filename, target, archive)
                links.append((info.filename, target))
        for info in zipped.infolist():
            _refuse_through(info.filename, {name for name, _ in links}, archive)
            path = _wanted(info.filename, root, only)
            if not path or stat.S_ISLNK(info.external_attr >> 16):
                continue
            place = folder / path
            if info.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with zipped.open(info) as source, place.open("wb") as file:
                while piece := source.read(1 << 20):
                    file.write(piece)
            place.chmod(0o755 if (info.external_attr >> 16) & 0o111 else 0o644)
        for name, target in links:
            if path := _wanted(name, root, only):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to(target)


def _refuse_through(name: str, links: Collection[str], archive: Path) -> None:
    """Refuse a member below a link: its name does not say where it would be written."""
    if any(name.startswith(f"{link}/") for link in links):
        raise LockError(
            f"{archive.name}: member {name!r} goes through a link", hint="the archive is not unpacked; do not trust it"
        )


def _refuse_link(name: str, target: str, archive: Path) -> None:
    """Refuse a link that leaves the folder. `..` may only lead: after another link it could mean any place."""
    parts = PurePosixPath(target).parts
    up = sum(part == ".." for part in parts)
    if target.startswith("/") or ".." in parts[up:] or up > len(PurePosixPath(name).parent.parts):
        raise LockError(
            f"{archive.name}: link {name!r} -> {target!r} leaves the folder",
            hint="the archive is not unpacked; do not trust it",
        )


def wheel_files(path: Path) -> dict[str, Blob]:
    """Return the content of a wheel without its RECORD. Raises LockError for members that leave the folder."""
    files = {}
    with zipfile.ZipFile(path) as zipped:
        for info in zipped.infolist():
            _refuse_unsafe(info.filename, path)
            if not info.is_dir() and not re.fullmatch(r"[^/]+\.dist-info/RECORD", info.filename):
                mode = "100755" if (info.external_attr >> 16) & 0o111 else "100644"
                files[info.filename] = Blob(mode, zipped.read(info))
    return files


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
