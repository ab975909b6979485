"""What a lock knows of submodules, without a request to their upstreams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kz_build.core.paths import excluded
from kz_build.git import repository as git
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources import clones


def known_submodules(entry: Mapping[str, Any], path: str, commit: str) -> dict[str, dict[str, Any]]:
    """Return what a lock entry says of the submodule at a path and those nested in it; {} if it is of another commit."""
    known: Mapping[str, dict[str, Any]] = entry.get("submodules") or {}
    if known.get(path, {}).get("commit") != commit:
        return {}
    return {name: facts for name, facts in known.items() if name == path or name.startswith(f"{path}/")}


def submodules_at(
    project: Project, source: Source, repository: git.Repository, commit: str, old: dict[str, Any]
) -> dict[str, Any]:
    """Return the wanted submodules of a commit without a request to their upstreams: facts of the same commits are
    kept, the rest is null until `kz lock --write`."""
    submodules: dict[str, Any] = {}
    wanted = source.list("submodules")
    for path, url, link in clones.links(project.store, repository, commit, wanted) if wanted else ():
        if excluded(path, source.list("exclude")):
            continue
        submodules |= known_submodules(old, path, link) or {path: {"url": url, "commit": link, "tree": None}}
    return submodules
