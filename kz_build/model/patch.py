"""Patches and strict hunk application: the heart of the engine, on bytes alone.

The rules are those of `git apply` without fuzz (git's apply.c, find_pos and match_fragment): a hunk may sit at an
offset, its context must be there to the letter, and a line that one hunk wrote cannot be matched by the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hunk:
    """One change. `before` and `after` are lines with their newlines; `line` is where the hunk stands in its patch file."""

    old_start: int
    new_start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    leading: int
    trailing: int
    line: int

    def reverse(self) -> Hunk:
        """The hunk that takes this change back."""
        return Hunk(self.new_start, self.old_start, self.after, self.before, self.leading, self.trailing, self.line)


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one path. `mode` is the mode afterwards ('' where it stays)."""

    path: str
    hunks: tuple[Hunk, ...]
    mode: str = ""
    creates: bool = False
    deletes: bool = False


@dataclass(frozen=True)
class Patch:
    """One mail of `git format-patch`: `author` is `Name <address>`, `date` is RFC 2822, `message` without the [PATCH] tag."""

    name: str
    author: str
    date: str
    message: str
    files: tuple[FileChange, ...]

    @property
    def slug(self) -> str:
        """The name without number and suffix, which stays when the stack is renumbered."""
        return re.sub(r"^\d+-|\.patch$", "", self.name)

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.message.split("\n", 1)[0]


@dataclass(frozen=True)
class HunkFailure:
    """A hunk whose place was not found."""

    path: str
    hunk: Hunk
    reason: str


@dataclass
class _Image:
    lines: list[bytes]
    written: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.written = [False] * len(self.lines)


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their `\\n`; a carriage return or form feed ends no line, as in git."""
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def _matches(image: _Image, hunk: Hunk, at: int) -> bool:
    end = at + len(hunk.before)
    return (
        at >= 0
        and end <= len(image.lines)
        and tuple(image.lines[at:end]) == hunk.before
        and not any(image.written[at:end])
    )


def _find(image: _Image, hunk: Hunk) -> int | None:
    """Where the hunk fits, nearest to where it says, later lines first at equal distance; None where it does not."""
    total, size = len(image.lines), len(hunk.before)
    at_start = hunk.old_start <= 1
    at_end = hunk.trailing == 0
    if at_start or at_end:
        # Without context on one side the hunk belongs to that end of the file, and nowhere else.
        start, end = 0, total - size
        if at_start and at_end and start != end:
            return None
        place = start if at_start else end
        return place if _matches(image, hunk, place) else None
    wanted = min(max(hunk.new_start - 1, 0), total)
    for distance in range(total + 1):
        for place in (wanted + distance, wanted - distance) if distance else (wanted,):
            if _matches(image, hunk, place):
                return place
    return None


def apply_hunks(path: str, data: bytes, hunks: tuple[Hunk, ...]) -> tuple[bytes, tuple[int, ...]] | HunkFailure:
    """Apply hunks in order. Gives the new bytes and each hunk's offset in lines, or the first hunk that failed."""
    image = _Image(split_lines(data))
    offsets = []
    for hunk in hunks:
        place = _find(image, hunk)
        if place is None:
            return HunkFailure(path, hunk, "its lines are not there")
        offsets.append(place - max(hunk.new_start - 1, 0))
        image.lines[place : place + len(hunk.before)] = hunk.after
        image.written[place : place + len(hunk.before)] = [True] * len(hunk.after)
    return b"".join(image.lines), tuple(offsets)
