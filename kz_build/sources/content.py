"""Folders and archives of sources that pins.local.yaml names, imported as trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kz_build.core.paths import below
from kz_build.core.progress import Watch
from kz_build.pins.pins import Replacement, Source
from kz_build.pins.project import Project
from kz_build.sources import clones, integrity
from kz_build.sources.download import download_file
from kz_build.sources.fetched import OVERRIDDEN, TreeAt
from kz_build.sources.request import filled


def content(project: Project, line: str, source: Source, path: str, own: Replacement, watch: Watch) -> TreeAt:
    """Import the content of a replacement that is a folder or a file as a tree: of a source, or of its submodule at `path`.

    What another replacement puts below it is left out, and what the source excludes.
    """
    folder = (
        Path(filled(project, line, source.name, own.folder))
        if own.folder
        else _unpacked(project, line, source, own, watch)
    )
    inner = [
        p
        for p in project.pins.replaced_submodules(source.name)
        if p != path and f"{p}/".startswith(f"{path}/" if path else "")
    ]
    patterns = source.list("exclude")
    exclude = (
        *(below(patterns, path) if path else patterns),
        *(f"{p[len(path) + 1 if path else 0 :]}/" for p in inner),
    )
    only = source.list("only") if not path else ()
    at = clones.import_folder(project.store, path, folder, exclude, only, watch)
    return replace(at, note=OVERRIDDEN)


def _unpacked(project: Project, line: str, source: Source, own: Replacement, watch: Watch) -> Path:
    """Return the content of a tar or zip of sources: of its one folder, if that is all that it has, as forges make them."""
    address = filled(project, line, source.name, own.file)
    digest = download_file(project, address, own.sha256, source.name, watch)
    folder = integrity.unpacked(project.store, digest, "", (), watch)
    children = list(folder.iterdir())
    return children[0] if len(children) == 1 and children[0].is_dir() else folder
