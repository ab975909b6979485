"""Sources as fetched: bytes proved equal to the lock."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

OVERRIDDEN = "overridden in pins.local.yaml"
"""The note of what the lock does not prove."""
INSTALLED = "installed tree "
"""The identity of an SDK that the user has, before the git tree id of its folder."""


@dataclass(frozen=True)
class TreeAt:
    """A git tree and where it belongs in its source: `path` is '' for the source itself, else a submodule's path. `url` is where
    its commit comes from, '' for a folder or file of this machine; `note` says if pins.local.yaml makes it another one."""

    path: str
    repository: Path
    commit: str
    tree: str
    exclude: tuple[str, ...] = ()
    url: str = ""
    note: str = ""


@dataclass(frozen=True)
class Fetched:
    """A source on this machine.

    `trees` for git's content (the source first, then its submodules), `folder` for unpacked content, `file` for the archive
    or wheel itself, `laid` for the layout of links into `folder` that its pin names, if any. `note` says what is special to
    this machine: an override, or a version that is not the pin; `unpinned` if it is an installed SDK of such a version.
    """

    name: str
    kind: str
    version: str
    identity: str
    trees: tuple[TreeAt, ...] = ()
    folder: Path | None = None
    file: Path | None = None
    note: str = ""
    laid: Path | None = None
    unpinned: bool = False

    def key(self) -> Any:
        """Return what a build's key includes of this source: content ids and excludes, no path."""
        return [self.name, self.identity, self.note, [[t.path, t.tree, list(t.exclude)] for t in self.trees]]


@dataclass(frozen=True)
class Tree:
    """A source with its stack applied. `tree` is its identity; `locked` the tree in pins.lock, None if an override makes
    it one that no lock knows."""

    source: str
    repository: Path
    base: str
    commit: str
    tree: str
    locked: str | None
    patches: tuple[tuple[str, str], ...]
    """(patch name, 'clean' or 'offset +3 (file), …')"""
