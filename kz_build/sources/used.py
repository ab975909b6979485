"""What a build used of a wheel, an archive or an SDK: the version that it states itself, and where its bytes come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kz_build.pins.project import Project
from kz_build.sources.fetched import INSTALLED, Fetched
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


def used(project: Project, line: str, source: Fetched) -> Used:
    """Return what is used of a source that is no git repository."""
    pinned, own = project.pins.source(source.name), project.pins.replacement(source.name)
    if source.identity.startswith(INSTALLED):
        sdk = installed(project, line, pinned)
        version = source.version if not source.note else (sdk and sdk.revision) or "unknown"
        return Used(version, "", False, "", {"gitTree": source.identity.removeprefix(INSTALLED)})
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
