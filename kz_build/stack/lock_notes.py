"""What `kz lock` could not reach, and how a stack follows its pin, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit


class LockNote(NamedTuple):
    """What could not be reached, why, and what follows; an address groups those of a host."""

    what: str
    why: str
    then: str
    url: str = ""

    @property
    def group(self) -> tuple[str, ...]:
        host = urlsplit(self.url).hostname
        return (host, self.why.rpartition("': ")[2], self.then) if host else self


def way_to_move(line: str, source: str, old: str | None, new: str) -> str:
    """Say how a stack gets to another version, if its pin was changed by hand; '' if it was not."""
    if old in (None, new):
        return ""
    move = f"kz rebase --line {line} --source {source} --onto {new}"
    return f". To move the patches with the pin: put {old} back into pins.yaml, then {move}"


def sentences(notes: Sequence[LockNote]) -> tuple[str, ...]:
    """Return a sentence for each note, but one for all from a host that have the same reason and result."""
    groups: dict[tuple[str, ...], dict[str, LockNote]] = {}
    for note in notes:
        groups.setdefault(note.group, {}).setdefault(note.what, note)
    result = []
    for group, members in groups.items():
        (what, why, then, url), *others = members.values()
        if others:
            result.append(f"{what} and {len(others)} more from {group[0]}: {group[1]}; for each, {then}")
        else:
            where = f" from {url}" if url and url not in why else ""
            result.append(f"{what}{where}: {why}; {then}" if then else f"{what}: {why}")
    return tuple(result)
