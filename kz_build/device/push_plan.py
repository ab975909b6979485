"""The files of a push, the record of earlier ones, and the difference. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kz_build.core.errors import ConfigError, Problem

RECORD = ".kz-push"
"""The record in a folder of the device: a line of JSON for each file that was verified there; a later line wins."""
PARTS = (".kz-part-0", ".kz-part-1")
"""Folders of a batch of files while it arrives, and while the device hashes it as the next one arrives."""
BATCH_FILES, BATCH_BYTES = 250, 4_000_000
"""The most in one batch; a larger file is one by itself."""


@dataclass(frozen=True)
class Item:
    """A local file and its name below the device's folder; one that was verified there has a `sha256`."""

    local: Path
    name: str
    size: int
    mtime: int
    mode: int
    sha256: str = ""


@dataclass(frozen=True)
class Difference:
    """What a push has to do. `room`: bytes of storage that it needs at most at one time."""

    send: tuple[Item, ...]
    kept: tuple[Item, ...]
    stale: tuple[str, ...]
    room: int


@dataclass(frozen=True)
class Pushed:
    """What a push did, in `seconds`; `sending` is the part that sent bytes, `verifying` the part that only waited for hashes."""

    serial: str
    folder: str
    emulated: bool
    sent: tuple[str, ...]
    bytes: int
    kept: int
    removed: tuple[str, ...]
    seconds: float
    sending: float
    verifying: float


def checked_names(items: Sequence[Item]) -> None:
    """Check names. Raises ConfigError with every name that a device's folder cannot have, or that occurs twice."""
    problems = []
    seen: dict[str, Path] = {}
    for item in items:
        why = _problem(item.name) or (f"also the name of {seen[item.name]}" if item.name in seen else "")
        seen[item.name] = item.local
        if why:
            problems.append(Problem(str(item.local), 0, f"{item.name!r} cannot be pushed: {why}"))
    if problems:
        raise ConfigError("these cannot be pushed:", tuple(problems))


def _problem(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name or str(path) != name:
        return "it is not a name below a folder"
    if path.parts[0] in (RECORD, *PARTS):
        return "kz itself uses that name"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return ""


def parse_record(text: str) -> dict[str, Item]:
    """Parse a device's record; incomplete lines (a cable was pulled), and names that no push wrote, are skipped."""
    recorded_files = {}
    for line in text.splitlines():
        try:
            entry = Item(Path(), **json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(entry.name, str) and not _problem(entry.name):
            recorded_files[entry.name] = entry
    return recorded_files


def line(entry: Item) -> str:
    """Return an entry as a line of the record, in ASCII."""
    return json.dumps({key: value for key, value in vars(entry).items() if key != "local"}, sort_keys=True)


def difference(
    items: Iterable[Item], recorded: Mapping[str, Item], there: Mapping[str, tuple[int, int]], *, clean: bool
) -> Difference:
    """Find what to send: files that the record lacks with that content, or that are not on the device as recorded.

    `there`: (size, mtime) of each name on the device. `clean`: remove recorded files that are not among `items`.
    """
    send: list[Item] = []
    kept: list[Item] = []
    names = set()
    for item in items:
        names.add(item.name)
        had = recorded.get(item.name)
        same = had and (had.sha256, had.size, had.mode) == (item.sha256, item.size, item.mode)
        intact = had and there.get(item.name) == (had.size, had.mtime)
        (kept if same and intact else send).append(item)
    stale = tuple(sorted(set(recorded) - names)) if clean else ()
    now = -sum(there[name][0] for name in stale if name in there)
    room = replaced = 0
    for batch in batches(send):
        now += sum(item.size for item in batch)
        room = max(room, now + _archived(batch))
        # Old files are replaced once the new ones are verified: while the next batch arrives.
        now -= replaced
        replaced = sum(there.get(item.name, (0, 0))[0] for item in batch)
    return Difference(tuple(send), tuple(kept), stale, room)


def _archived(batch: list[Item]) -> int:
    """Return the most bytes that a batch takes as an archive, for as long as its files are taken out of it."""
    return sum(item.size + 2048 for item in batch) if len(batch) > 1 else 0


def batches(items: Iterable[Item]) -> list[list[Item]]:
    """Split files into those that are sent, verified and recorded together."""
    split: list[list[Item]] = []
    size = 0
    for item in items:
        size += item.size
        if not split or size > BATCH_BYTES or len(split[-1]) == BATCH_FILES:
            split.append([])
            size = item.size
        split[-1].append(item)
    return split
