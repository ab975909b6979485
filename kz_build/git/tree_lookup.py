"""Lookup of files in trees, for many commits and paths at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kz_build.core.errors import ConfigError
from kz_build.git.cat_file import GitObject, Objects, ObjectsMissing
from kz_build.git.object_types import FILE, FOLDER, SUBMODULE

if TYPE_CHECKING:
    from kz_build.git.object_types import Blob

NO_ROOM = (FOLDER, "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
"""The entry of a path whose folder is a file or a submodule: git's empty tree, which every repository has."""


class RefusedTreeError(ConfigError):
    """A tree has a name twice, or one that no checkout can have."""


At = tuple[str, str]
"""(mode, id) of a file in a tree; FOLDER and the id of a tree where something else takes the path."""


def read_ids(objects: Objects, commits: Iterable[str], paths: Iterable[str]) -> list[dict[str, At | None]]:
    """Look up files in each commit; None for a missing one. A folder that commits share is read once."""
    top: Folder = {}
    for path in paths:
        folder = top
        for part in os.fsencode(path).split(b"/"):
            folder = folder.setdefault(part, {})
        folder[b""] = path
    wanted = list(commits)
    listed: dict[tuple[int, str], Listing] = {}
    roots = []
    for commit, item in zip(wanted, objects.get_many([f"{commit}^{{tree}}" for commit in wanted]), strict=True):
        if item is None:
            raise ObjectsMissing(f"the commit {commit} is not in the partial clone")
        roots.append(item[0])
        if (id(top), item[0]) not in listed:
            listed[id(top), item[0]] = _listing(objects, item, top)
    level = [(id(top), oid) for oid in set(roots)]
    while level:  # one level of folders after the other: each is requested at once
        below = {
            (id(f), at[1]): f for key in level for f, at in listed[key] if at and at[0] == FOLDER and set(f) != {b""}
        }
        level = [key for key in below if key not in listed]
        for key, item in zip(level, objects.get_many([oid for _, oid in level]), strict=True):
            listed[key] = _listing(objects, item or ("", "", b""), below[key])
    known: dict[tuple[int, str], dict[str, At | None]] = {}
    return [dict(_files(top, root, listed, known)) for root in roots]


Folder = dict[bytes, Any]
"""The paths to look up, as folders in folders; b"" has the whole path where one ends."""


Listing = list[tuple[Folder, At | None]]
"""The entry of each name of a Folder in one tree; None if there is none."""


_REFUSED = (b"..", b".", b".git")


def _listing(objects: Objects, item: GitObject, folder: Folder) -> Listing:
    tree = item[2]
    if any(tree.count(b" " + name + b"\0") > (name not in _REFUSED) for name in (*folder, *_REFUSED) if name):
        _refuse_odd_names(objects, item[0], tree)  # an id may hold these bytes by chance
    return [(below, _entry(tree, name)) for name, below in folder.items() if name]


def _refuse_odd_names(objects: Objects, oid: str, tree: bytes) -> None:
    """Raise RefusedTreeError for a name that is there twice, or that no checkout can have: git shows them without a word."""
    names = set()
    while tree:
        head, _, rest = tree.partition(b"\0")
        name = head.partition(b" ")[2]
        if name in names or name in _REFUSED:
            what = f"the name {os.fsdecode(name)!r}{' twice' if name in names else ', which git refuses'}"
            problem = f"{objects.path.name}: the tree {oid} has {what}"
            raise RefusedTreeError(problem, hint="take another commit of this source")
        names.add(name)
        tree = rest[20:]


def _files(
    folder: Folder,
    tree: str,
    listed: dict[tuple[int, str], Listing],
    known: dict[tuple[int, str], dict[str, At | None]],
) -> dict[str, At | None]:
    key = (id(folder), tree)
    if key not in known:
        files = known[key] = {}
        for below, at in listed[key]:
            if b"" in below:
                files[below[b""]] = NO_ROOM if at and at[0] == SUBMODULE else at
            if at and at[0] == FOLDER:
                files.update(_files(below, at[1], listed, known) if set(below) != {b""} else {})
            else:
                files.update((path, NO_ROOM if at else None) for path in _inside(below))
    return known[key]


def _inside(folder: Folder) -> Iterator[str]:
    for name, below in folder.items():
        if name:
            yield from (below[b""],) if b"" in below else ()
            yield from _inside(below)


def _entry(tree: bytes, name: bytes) -> At | None:
    """Return (mode, id) of a name in a raw tree object: `mode SP name NUL id` over and over."""
    middle = tree.find(b" " + name + b"\0")
    while middle >= 0:
        # Only a folder's mode has five digits.
        mode = b"40000" if tree[middle - 5 : middle] == b"40000" else tree[max(middle - 6, 0) : middle]
        if mode.isdigit():  # an id may hold these bytes by chance
            at = middle + len(name) + 2
            return _canonical(mode), tree[at : at + 20].hex()
        middle = tree.find(b" " + name + b"\0", middle + 1)
    return None


def _canonical(mode: bytes) -> str:
    """Return a mode as git reads it: old trees have files of 100664, which it does not write."""
    if mode.startswith(b"100"):
        return "100755" if mode[3] & 1 else FILE
    return mode.decode()


def read_paths(objects: Objects, commit: str, paths: Iterable[str]) -> dict[str, Blob | None]:
    """Return the files of a commit; None for a missing one."""
    from kz_build.git.object_types import Blob  # with the patch engine 6 ms that a lookup of ids does not need

    files: dict[str, Blob | None] = {}
    for path, at in read_ids(objects, [commit], paths)[0].items():
        files[path] = Blob(at[0], objects.content(at[1])) if at else None
    return files
