"""What a build used of a wheel, an archive or an SDK: the version that it states itself, and where its bytes come from."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import CommandError
from kz_build.git.object_types import object_id
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched
from kz_build.sources.installed_sdk import installed, revision

_DIST_INFO = re.compile(r"[^/]+-([^/-]+)\.dist-info/METADATA")


@dataclass(frozen=True)
class Used:
    """What was used. `address` is where it was downloaded, '' for what is of this machine; `registry` tells that it is the pinned
    package of a registry, and `file` a wheel's name there."""

    version: str
    address: str
    registry: bool
    file: str
    digests: Mapping[str, str]


def used(project: Project, line: str, source: Fetched, *, read: bool = True) -> Used:
    """Return what is used of a source that is no git repository. `read`: compute the digest of an installed SDK, which reads it all."""
    pinned, own = project.pins.source(source.name), project.pins.replacement(source.name)
    if source.identity.startswith("installed "):
        sdk = installed(project, line, pinned)
        stated = sdk.revision if sdk else source.identity.removeprefix("installed ")
        version = source.version if not source.note else stated or "unknown"
        digests = {"gitTree": folder_tree(source.folder)} if read and source.folder else {}
        return Used(version, "", False, "", digests)
    digests = {"sha256": source.identity.removeprefix("sha256 ")}
    if source.note and own and (own.file or own.folder):
        identity = str((pinned.options.get("installed") or {}).get("identity", ""))
        version = _stated(source, identity) or f"sha256 {digests['sha256'][:16]}"
        return Used(version, own.file.replace("{version}", source.version), False, "", digests)
    if source.kind == "wheel":
        entry = project.lock.entry(line, source.name) or {}
        index = own.index if own else str(pinned.options.get("index") or "")
        return Used(source.version, index, True, "" if source.note else str(entry.get("file", "")), digests)
    return Used(source.version, pinned.location.replace("{version}", source.version), True, "", digests)


def _stated(source: Fetched, identity: str) -> str:
    """Return the version that a wheel's metadata or an SDK's identity file states, '' for none."""
    if identity and source.folder:
        return revision(source.folder, identity)
    from kz_build.sources.archive import is_zip, opened_zip  # with all packers

    if source.file and is_zip(source.file):
        with opened_zip(source.file) as zipped:
            return next((m[1] for m in map(_DIST_INFO.fullmatch, zipped.namelist()) if m), "")
    return ""


def folder_tree(folder: Path) -> str:
    """Return the git tree id of a folder as it is, without a repository. Empty folders are in no tree."""
    return _tree(folder) or object_id("tree", b"")


def _tree(folder: Path) -> str:
    rows = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if entry.is_symlink():
                rows.append((name, b"120000", object_id("blob", os.fsencode(os.readlink(entry)))))
            elif entry.is_dir():
                if inner := _tree(Path(entry.path)):
                    rows.append((name + b"/", b"40000", inner))
            elif entry.is_file():
                executable = entry.stat().st_mode & 0o100
                rows.append((name, b"100755" if executable else b"100644", _blob(Path(entry.path))))
    data = b"".join(b"%s %s\0" % (mode, name.rstrip(b"/")) + bytes.fromhex(oid) for name, mode, oid in sorted(rows))
    return object_id("tree", data) if data else ""


def _blob(path: Path) -> str:
    """Return git's id of a file, however large."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        while data := file.read(1 << 20):
            digest.update(data)
            size -= len(data)
    if size:
        raise CommandError(f"{path} changed while it was read", hint="run the command again")
    return digest.hexdigest()
