"""Patches and strict hunk application: the heart of the engine, on bytes alone.

The rules are those of `git apply` without fuzz (git's apply.c, find_pos and match_fragment): a hunk may sit at an
offset, its context must be there to the letter, and a line that one hunk wrote cannot be matched by the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # few patches have binaries
    from kz_build.model.binary import Binary

NOT_THERE = "its lines are not there"


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
    """What a patch does to one path.

    `mode` is the mode afterwards ('' where it stays), `old_mode` the one that the patch names before ('' for none).
    `source` is the path read from in a rename or, with `copies`, a copy ('': the path itself). `line` is where it
    begins in its patch file.
    """

    path: str
    hunks: tuple[Hunk, ...]
    mode: str = ""
    creates: bool = False
    deletes: bool = False
    source: str = ""
    copies: bool = False
    old_mode: str = ""
    binary: Binary | None = None
    line: int = 0

    @property
    def origin(self) -> str:
        """The path that is read."""
        return self.source or self.path

    @property
    def leaves(self) -> bool:
        """Whether the path that is read is gone afterwards."""
        return self.deletes or bool(self.source and not self.copies)

    def reverse(self) -> FileChange:
        """The change that takes this one back. A copy's never applies where its source still is, as in git."""
        changed = self.creates or self.deletes or self.mode
        return replace(
            self,
            path=self.origin,
            source=self.path if self.source else "",
            hunks=tuple(h.reverse() for h in self.hunks),
            binary=self.binary.reverse() if self.binary else None,
            mode=self.old_mode if changed else "",
            old_mode=self.mode or self.old_mode,
            creates=self.deletes,
            deletes=self.creates,
        )


@dataclass(frozen=True)
class Patch:
    """One patch file: `author` is `Name <address>`, `date` is RFC 2822, `message` without the [PATCH] tag.

    `gnu`: it comes from a series that is not ours, and its hunks go where GNU patch would put them.
    """

    name: str
    author: str
    date: str
    message: str
    files: tuple[FileChange, ...]
    gnu: bool = False

    @property
    def slug(self) -> str:
        """The name without number and suffix, which stays when the stack is renumbered."""
        return re.sub(r"^\d+-|\.patch$", "", self.name)

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.message.split("\n", 1)[0]

    @property
    def reads(self) -> frozenset[str]:
        """Paths whose files decide what becomes of it."""
        return frozenset(p for f in self.files for p in (f.path, f.origin))

    def reverse(self) -> Patch:
        """The patch that takes this one back."""
        return replace(self, files=tuple(f.reverse() for f in reversed(self.files)))


@dataclass(frozen=True)
class HunkFailure:
    """A hunk whose place was not found."""

    path: str
    hunk: Hunk
    reason: str


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their `\\n`; a carriage return or form feed ends no line, as in git."""
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def apply_hunks(path: str, data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, tuple[int, ...]] | HunkFailure:
    """Apply hunks in order. Gives the new bytes and each hunk's offset in lines, or the first hunk that failed."""
    if hunks and b"".join(hunks[0].before) not in data:  # most that fail do so here, before any line is split off
        return HunkFailure(path, hunks[0], NOT_THERE)
    lines = split_lines(data)
    written = bytearray(len(lines))
    offsets = []
    for hunk in hunks:
        place = _find(lines, written, hunk)
        if place is None:
            return HunkFailure(path, hunk, NOT_THERE)
        offsets.append(place - max(hunk.new_start - 1, 0))
        end = place + len(hunk.before)
        lines[place:end] = hunk.after
        written[place:end] = b"\1" * len(hunk.after)
    return b"".join(lines), tuple(offsets)


def _find(lines: list[bytes], written: bytearray, hunk: Hunk) -> int | None:
    """Where the hunk fits, nearest to where it says, later lines first at equal distance; None where it does not."""
    before = list(hunk.before)
    size, total = len(before), len(lines)
    at_start = hunk.old_start <= 1
    if hunk.trailing == 0:
        # Without context on one side the hunk belongs to that end of the file, and nowhere else.
        place = total - size
        fits = place >= 0 and not (at_start and place) and lines[place:] == before and 1 not in written[place:]
        return place if fits else None
    *body, last = before
    # git compares a last line without newline as the beginning of one: white space may follow, and goes.
    loose = not last.endswith(b"\n")

    def fits_at(place: int) -> bool:
        end = place + size
        if end > total or 1 in written[place:end] or lines[place : end - 1] != body:
            return False
        there = lines[end - 1]
        return there == last or (loose and there.startswith(last) and not there[len(last) :].strip(b" \t\r\n"))

    if at_start:
        return 0 if fits_at(0) else None
    wanted = max(hunk.new_start - 1, 0)
    if body or not loose:
        places = _positions(lines, before[0])
    else:
        places = list(range(total))
    return min((p for p in places if fits_at(p)), key=lambda p: (abs(p - wanted), p < wanted), default=None)


def _positions(lines: list[bytes], line: bytes) -> list[int]:
    found, at = [], -1
    try:
        while True:
            at = lines.index(line, at + 1)
            found.append(at)
    except ValueError:
        return found
