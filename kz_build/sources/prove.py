"""prove: nothing in the store goes into a build before it is proved to be what its name says."""

from __future__ import annotations

from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import integrity
from kz_build.sources.fetched import Fetched


def prove(project: Project, sources: tuple[Fetched, ...]) -> None:
    """Raise LockError for the first entry of the store, of those that these sources use, that was tampered with.

    Folders of this machine and installed SDKs cannot be proved: the report names them.
    """
    for source in sources:
        if source.file and source.folder:
            root, only = archive_part(project.pins.source(source.name), source.version)
            integrity.prove_unpacked(project.store, source.folder, root, only)
    for path in sorted({at.repository for source in sources for at in source.trees}):
        integrity.prove_repository(project.store, path)


def archive_part(source: Source, version: str) -> tuple[str, tuple[str, ...]]:
    """Return (root, only): which part of an archive or wheel is unpacked (docs/reference/pins.md)."""
    return str(source.options.get("root") or "").replace("{version}", version), source.list("only")
