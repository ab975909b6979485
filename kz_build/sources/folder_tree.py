"""The identity of a folder that the user has: the git tree id of its files as they are now."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from kz_build.core.errors import CommandError
from kz_build.core.hash_cache import is_settled, read_cached, stat_facts, write_cached
from kz_build.git.object_types import object_id


def folder_tree(store: Path, folder: Path) -> str:
    """Return the git tree id of a folder as it is, without a repository. Empty folders are in no tree.

    A link to a file outside the folder counts as that file: what is read through it can change while the link stays. A file
    whose times, size and inode are those of the last call is not read. Raises OSError for what cannot be read.
    """
    entry = store / "digests" / f"{hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()}.tree.json"
    reader = _Reader(folder, read_cached(entry) or {})
    tree = reader.tree(folder)
    if reader.settled != reader.known:
        write_cached(entry, reader.settled)
    return tree or object_id("tree", b"")


class _Reader:
    """Reads a folder. `known` and `settled`: path -> (facts, blob id), of the last call and of this one."""

    def __init__(self, folder: Path, known: dict[str, list[object]]) -> None:
        self.top = f"{os.path.realpath(folder)}/"
        self.began = time.time()
        self.known = known
        self.settled: dict[str, list[object]] = {}

    def tree(self, folder: Path) -> str:
        """Return the tree id of a folder, '' if it has no files."""
        rows = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if entry.is_symlink() and not self._leads_outside(entry):
                    rows.append((name, b"120000", object_id("blob", os.fsencode(os.readlink(entry)))))
                elif entry.is_dir():
                    if inner := self.tree(Path(entry.path)):
                        rows.append((name + b"/", b"40000", inner))
                elif entry.is_file():
                    executable = entry.stat().st_mode & 0o100
                    rows.append((name, b"100755" if executable else b"100644", self._blob(entry)))
        data = b"".join(b"%s %s\0" % (mode, name.rstrip(b"/")) + bytes.fromhex(oid) for name, mode, oid in sorted(rows))
        return object_id("tree", data) if data else ""

    def _leads_outside(self, link: os.DirEntry[str]) -> bool:
        return link.is_file() and not os.path.realpath(link).startswith(self.top)

    def _blob(self, file: os.DirEntry[str]) -> str:
        facts = stat_facts(file.stat())
        known = self.known.get(file.path)
        if known and known[0] == facts:
            self.settled[file.path] = known
            return str(known[1])
        blob = _read(Path(file.path))
        if is_settled(facts, self.began):
            self.settled[file.path] = [facts, blob]
        return blob


def _read(path: Path) -> str:
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
