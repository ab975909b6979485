"""Proof of the store's content: files by their digest, folders by their archive, git's objects by their ids.

A proof leaves a seal: size, times and inode of every file, from the kernel. While they are unchanged the proof holds.
A file that was changed, replaced or dated back has another change time; a decaying disk has not: `kz store verify`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from filecmp import cmp
from pathlib import Path

from kz_build.core.errors import LockError
from kz_build.core.files import disk_errors, remove, sha256_file
from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.core.paths import all_below
from kz_build.core.process import answered, run
from kz_build.core.progress import Watch
from kz_build.git.environment import local_environment
from kz_build.sources.store import stored_file, unpack_once, unpacked_folder

Stamp = list[int]
"""Size in bytes, time of change of the content and of the file itself in ns, inode, mode."""


def prove_file(store: Path, sha256: str, *, again: bool = False) -> None:
    """Raise LockError unless a stored file is what its name says. `again`: whatever its seal says."""
    path = stored_file(store, sha256)
    now = {"": _stamp(path)}
    if not again and _sealed(store, path) == now:
        return
    if (digest := sha256_file(path)) != sha256:
        raise _tampered(store, path, f"has sha256 {digest}")
    write_cached(seal_file(store, path), now)


def prove_unpacked(store: Path, folder: Path, root: str, only: Sequence[str], *, again: bool = False) -> None:
    """Raise LockError unless an unpacked folder is the content of its archive; the archive is proved with it."""
    from kz_build.sources.archive import unpack

    sha256 = folder.name[:64]
    prove_file(store, sha256, again=again)
    now = _stamps(folder)
    if not again and _sealed(store, folder) == now:
        return
    with disk_errors(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".proof-") as fresh:
        unpack(stored_file(store, sha256), Path(fresh), root, only)
        differing = sorted(_differences(Path(fresh), folder))
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        raise _tampered(store, folder, f"{differing[0]} is not as in its archive{more}")
    write_cached(seal_file(store, folder), now)


def unpacked(store: Path, sha256: str, root: str, only: Sequence[str], watch: Watch) -> Path:
    """Return the folder with an archive's content. One just unpacked, from an archive just proved, requires no other proof."""
    prove_file(store, sha256)
    folder = unpacked_folder(store, sha256, root, only)
    if not folder.is_dir():
        unpack_once(store, sha256, root, only, watch)
        write_cached(seal_file(store, folder), _stamps(folder))
    return folder


def prove_repository(store: Path, path: Path, *, again: bool = False) -> None:
    """Raise LockError unless every object of a repository is what its id says. Objects that a partial clone lacks are skipped.

    `again`: all objects, not only those changed since the last proof, and that each reference names one that is there.
    """
    objects = path / "objects"
    if (objects / "info" / "alternates").exists():
        raise _tampered(store, path, "borrows objects from elsewhere (objects/info/alternates)")
    if not objects.is_dir():
        raise _tampered(store, path, "has no folder objects")
    now = _stamps(objects)
    before = {} if again else _sealed(store, path) or {}
    changed = [name for name in now if before.get(name) != now[name]]
    for name in changed:
        if len(name) == 41 and name[2] == "/":
            _prove_loose(store, path, name)
    # A pack is checked by its index, and an index with its pack.
    packs = sorted({name.rpartition(".")[0] for name in changed if name.endswith((".pack", ".idx"))})
    for start in range(0, len(packs), 200):
        indexes = (str(objects / f"{pack}.idx") for pack in packs[start : start + 200])
        _prove_git(store, path, ["verify-pack", "--end-of-options", *indexes])
    if any(name.endswith("multi-pack-index") for name in changed):
        _prove_git(store, path, ["multi-pack-index", "verify", "--no-progress"])
    if again:
        _prove_git(store, path, ["for-each-ref", "--format=%(objecttype)"])
    if changed or before.keys() != now.keys():
        write_cached(seal_file(store, path), now)


def _prove_loose(store: Path, path: Path, name: str) -> None:
    try:
        data = zlib.decompress((path / "objects" / name).read_bytes())
    except (zlib.error, FileNotFoundError) as error:
        raise _tampered(store, path, f"the object {name.replace('/', '')} cannot be read: {error}") from error
    if hashlib.sha1(data, usedforsecurity=False).hexdigest() != name.replace("/", ""):
        raise _tampered(store, path, f"the object {name.replace('/', '')} is another one")


def _prove_git(store: Path, path: Path, words: Sequence[str]) -> None:
    argv = ["git", f"--git-dir={path}", *words]
    done = answered(argv, run(argv, env=local_environment()))
    if done.code != 0:
        output = done.stderr.decode("utf-8", "replace").strip().replace(f"{path}/", "")
        raise _tampered(store, path, f"git {words[0]} says: {output or done.code}")


def _tampered(store: Path, path: Path, problem: str) -> LockError:
    return LockError(
        f"the store's {path.relative_to(store)} was changed or damaged: {problem}",
        hint=f"nothing of it was used. Remove it and kz fetches it again: rm -rf {path}",
    )


def _differences(expected: Path, actual: Path) -> Iterator[str]:
    wanted, present = dict(_kinds(expected)), dict(_kinds(actual))
    yield from (name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    for name, kind in wanted.items():
        if kind == present.get(name) and kind[0] == "file" and not cmp(expected / name, actual / name, shallow=False):
            yield name


def _kinds(folder: Path) -> Iterator[tuple[str, tuple[str, object]]]:
    for path in all_below(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield name, ("link", os.readlink(path))
        elif path.is_file():
            yield name, ("file", (path.stat().st_size, bool(path.stat().st_mode & 0o111)))
        elif not path.is_dir():
            yield name, ("other", 0)


def _stamps(folder: Path) -> dict[str, Stamp]:
    """Return the stamp of every file below a folder. Folders themselves change with their files, which the names show."""
    stamps = {}
    start = len(str(folder)) + 1
    stack = [str(folder)]
    while stack:
        # What goes meanwhile is another process's: a lock of its git, a folder that git has emptied.
        with contextlib.suppress(FileNotFoundError), os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                elif not entry.name.startswith("tmp_"):  # it is writing it
                    with contextlib.suppress(FileNotFoundError):
                        stamps[entry.path[start:]] = _facts(entry.stat(follow_symlinks=False))
    return stamps


def _stamp(path: Path) -> Stamp:
    return _facts(path.lstat())


def _facts(stat: os.stat_result) -> Stamp:
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_mode]


def seal_file(store: Path, path: Path) -> Path:
    """Return the path of an entry's seal. Reading a seal touches it: gc goes by that."""
    return store / "seals" / f"{path.parent.name}-{path.name}.json"


def _sealed(store: Path, path: Path) -> dict[str, Stamp] | None:
    """Return the stamps of a seal; None without one, which proves nothing, not even an empty folder."""
    stamps: dict[str, Stamp] | None = read_cached(seal_file(store, path))
    if stamps is not None:
        with contextlib.suppress(OSError):  # a read-only store
            os.utime(seal_file(store, path))
    return stamps


def unseal(store: Path, path: Path) -> None:
    """Remove a proof, together with what it was about."""
    remove(seal_file(store, path))
