"""What goes to a device, what is there by a former push's record, and what differs. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from kz_build.core.errors import ConfigError, Problem

RECORD = ".kz-push"
"""The record in a folder of the device: a line of JSON for each file that was verified there; a later line wins."""
PARTS = (".kz-part-0", ".kz-part-1")
"""What a file is called while it comes, and while the device hashes it as the next one comes."""


@dataclass(frozen=True)
class Item:
    """A file of this machine and its name below the device's folder."""

    local: Path
    name: str
    size: int
    mtime: int
    mode: int
    sha256: str = ""


@dataclass(frozen=True)
class Entry:
    """A file that was verified on the device."""

    name: str
    sha256: str
    size: int
    mtime: int
    mode: int


@dataclass(frozen=True)
class Difference:
    """What a push has to do. `room`: bytes of storage that it needs at its worst moment."""

    send: tuple[Item, ...]
    kept: tuple[Item, ...]
    stale: tuple[str, ...]
    room: int


@dataclass(frozen=True)
class Pushed:
    """What a push did. `seconds` went by in all; bytes moved in `sending` of them, and in `verifying` nothing but hashes was waited for."""

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
    """Raises ConfigError with every name that a device's folder cannot have, or has twice."""
    problems = []
    seen: dict[str, Path] = {}
    for item in items:
        why = _why_not(item.name) or (f"also the name of {seen[item.name]}" if item.name in seen else "")
        seen[item.name] = item.local
        if why:
            problems.append(Problem(str(item.local), 0, f"{item.name!r} cannot be pushed: {why}"))
    if problems:
        raise ConfigError("these cannot be pushed:", tuple(problems))


def _why_not(name: str) -> str:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name or str(path) != name:
        return "it is no name below a folder"
    if path.parts[0] in (RECORD, *PARTS):
        return "kz itself uses that name"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8"
    return ""


def entries(text: str) -> dict[str, Entry]:
    """The record that a device holds; lines that are not whole (a cable was pulled) count as not there."""
    found = {}
    for line in text.splitlines():
        try:
            entry = Entry(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[entry.name] = entry
    return found


def line(entry: Entry) -> str:
    """An entry as a line of the record, in ASCII."""
    return json.dumps(asdict(entry), sort_keys=True)


def entry_of(item: Item) -> Entry:
    """What the record says of a file once it is there."""
    return Entry(item.name, item.sha256, item.size, item.mtime, item.mode)


def difference(
    items: Iterable[Item], recorded: Mapping[str, Entry], there: Mapping[str, tuple[int, int]], *, clean: bool
) -> Difference:
    """What to send: all that the record does not have with that content, or that is not on the device as recorded.

    `there`: (size, mtime) of each name that the device has. `clean`: what the record has and the set has not goes.
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
    for item in send:
        now += item.size
        room = max(room, now)
        # The old one of a name goes when the new one was verified: while the next one comes.
        now -= replaced
        replaced = there.get(item.name, (0, 0))[0]
    return Difference(tuple(send), tuple(kept), stale, room)
