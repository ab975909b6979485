"""Files of a push that arrive together, and the script by which the device verifies, moves and records them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote
from tarfile import GNU_FORMAT, TarInfo

from kz_build.device.push_plan import RECORD, Item, line

SCRIPT, ARCHIVE = "script", "tar"
DAMAGED = 4
"""Exit code of a script whose files are not what was sent; it has printed their sums."""
_ESCAPED = frozenset("\\\n\r")
"""sha256sum prints names with these in one way on Linux and in another on Android."""


def staged(batch: Iterable[Item]) -> dict[str, Item]:
    """Return each file by its path below the folder in which the batch arrives.

    That is its own name, in one folder for each of the device's: so one `mv` moves many.
    """
    folders: dict[str, int] = {}
    paths = {}
    for index, item in enumerate(batch):
        folder, _, name = item.name.rpartition("/")
        odd = _ESCAPED & set(name)
        paths[f"odd/{index}" if odd else f"{folders.setdefault(folder, len(folders))}/{name}"] = item
    return paths


def archive(contents: Iterable[tuple[str, Item, bytes]]) -> bytes:
    """Return files by their paths as one: a device takes it as fast as one of them."""
    parts = []
    for path, item, data in contents:
        info = TarInfo(path)
        info.size, info.mode, info.mtime = len(data), item.mode, item.mtime
        parts += [info.tobuf(GNU_FORMAT, "utf-8", "strict"), data, bytes(-len(data) % 512)]
    return b"".join((*parts, bytes(1024)))


def script(part: str, paths: Mapping[str, Item]) -> str:
    """Return the script of a batch that arrived in a folder `part`, several files as an archive; it runs in the folder above."""
    moves: dict[str, list[str]] = {}
    for path, item in paths.items():
        folder = item.name.rpartition("/")[0] or "."
        target = f"./{item.name}" if path.startswith("odd/") else f"./{folder}/"
        moves.setdefault(target, []).append(f"{part}/{path}")
    parents = sorted({item.name.rpartition("/")[0] or "." for item in paths.values()})
    sums = "\n".join(map(_sum, paths, paths.values()))
    rows = [
        "set -e",
        *([f"(umask 022; cd {part}; tar xof {ARCHIVE}; rm {ARCHIVE})"] if len(paths) > 1 else []),
        f"sums=$(cd {part}; sha256sum {_words(paths)})",
        f'[ "$sums" = {quote(sums)} ] || {{ echo "$sums"; rm -rf {part}; exit {DAMAGED}; }}',
        f"mkdir -p {_words(f'./{parent}' for parent in parents)}",
        *(f"mv -f {_words(files)} {quote(target)}" for target, files in moves.items()),
        f"cat >>{RECORD} <<'@@'",
        *map(line, paths.values()),
        "@@",
        f"rm -rf {part}",
    ]
    return "".join(f"{row}\n" for row in rows)


def first_damaged(paths: Mapping[str, Item], sums: str) -> Item:
    """Return the first file whose sum is not among those that the device printed."""
    printed = set(sums.split("\n"))
    return next((item for path, item in paths.items() if _sum(path, item) not in printed), next(iter(paths.values())))


def removal(part: str, names: Iterable[str]) -> str:
    """Return a script that removes files of earlier pushes, and folders that are empty then."""
    names = sorted(names)
    rows = [f"rm -f {_words(f'./{name}' for name in names[at : at + 100])}" for at in range(0, len(names), 100)]
    folders = sorted({folder for name in names if (folder := name.rpartition("/")[0])}, reverse=True)
    rows = ["set -e", *rows, *(f"rmdir -p {quote(f'./{folder}')} 2>/dev/null || :" for folder in folders)]
    return "".join(f"{row}\n" for row in (*rows, f"rm -rf {part}"))


def _sum(path: str, item: Item) -> str:
    return f"{item.sha256}  {path}"


def _words(words: Iterable[str]) -> str:
    return " ".join(map(quote, words))
