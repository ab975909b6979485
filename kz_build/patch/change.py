"""Patches and strict hunk application: the heart of the engine, on bytes alone.

The rules are those of `git apply` without fuzz (git's apply.c, find_pos and match_fragment): a hunk may apply at an
offset, its context must match exactly, and a line that one hunk wrote cannot be matched by the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kz_build.git.object_types import cut_subject

if TYPE_CHECKING:  # few patches have binaries
    from kz_build.patch.binary import Binary
    from kz_build.patch.rewrite import Rewrite

NOT_THERE = "its lines are not there"


@dataclass(frozen=True)
class Hunk:
    """One change. `before` and `after` are lines with their newlines; `line` is the hunk's line in its patch file.

    `section` is the text after the header's second @@: the first line of the function around the hunk, b'' for none.
    """

    old_start: int
    new_start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    leading: int
    trailing: int
    line: int
    section: bytes = b""

    def reverse(self) -> Hunk:
        sides = (self.new_start, self.old_start, self.after, self.before)
        return Hunk(*sides, self.leading, self.trailing, self.line, self.section)

    @cached_property
    def again(self) -> tuple[int, ...]:
        """Offsets in the lines after it where all lines before it are: there the hunk applies a second time."""
        size = len(self.before)
        shifts = range(len(self.after) - size + 1)
        return tuple(shift for shift in shifts if self.after[shift : shift + size] == self.before)


@dataclass(frozen=True)
class FileChange:
    """What a patch does to one path.

    `mode` is the mode afterwards ('': unchanged), `old_mode` the mode that the patch names before ('' for none).
    `source` is the path read by a rename or, with `copies`, a copy ('': the path itself). `line` is the first line of the
    change in its patch file, `made_for` the id of the blob it was made for ('' if git's index line abbreviates it). `names`
    are the paths that GNU patch chooses from, where somebody else's diff has more than one; `path` is then not certain.
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
    made_for: str = ""
    names: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The path that is read."""
        return self.source or self.path

    @property
    def leaves(self) -> bool:
        """Whether the path that is read is gone afterwards."""
        return self.deletes or bool(self.source and not self.copies)

    @property
    def from_nothing(self) -> bool:
        """Whether it creates the file, or its first hunk is for a file without lines, which GNU patch creates if need be."""
        return self.creates or bool(self.hunks and not self.hunks[0].before and not self.hunks[0].old_start)

    @property
    def reads(self) -> frozenset[str]:
        """Paths that decide whether it applies. Which name a new file takes depends on the folders that are there."""
        unlike = len({name.rpartition("/")[0] for name in self.names}) > 1
        above = (folder for name in self.names for folder in folders_above(name))
        return frozenset({self.path, self.origin, *self.names, *(above if unlike and self.from_nothing else ())})

    def reverse(self) -> FileChange:
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
            made_for="",
        )


@dataclass(frozen=True)
class Patch:
    """One patch file: `author` is `Name <address>`, `date` is RFC 2822, `message` without the [PATCH] tag.

    `gnu`: the series is not ours, and its hunks go where GNU patch would put them. `left_out` are lines that say what the
    patch would change and does not contain. `rewrite` are the rules that make it again on another version, if it has any.
    """

    name: str
    author: str
    date: str
    message: str
    files: tuple[FileChange, ...]
    gnu: bool = False
    left_out: tuple[str, ...] = ()
    rewrite: Rewrite | None = None

    @property
    def slug(self) -> str:
        """The name without number and suffix; renumbering the stack does not change it."""
        return re.sub(r"^\d+-|\.patch$", "", self.name)

    @property
    def subject(self) -> str:
        """The first line of the message, as it is shown."""
        return cut_subject(self.message.split("\n", 1)[0])

    @property
    def left_out_text(self) -> str:
        """What applying it leaves out, as a sentence, '' for nothing."""
        return f"left out, as by quilt, for lack of data: {'; '.join(self.left_out)}" if self.left_out else ""

    @property
    def reads(self) -> frozenset[str]:
        """Paths of the files that decide whether it applies."""
        return frozenset(path for change in self.files for path in change.reads)

    def reverse(self) -> Patch:
        return replace(self, files=tuple(f.reverse() for f in reversed(self.files)))


def folders_above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first."""
    return [path[:at] for at, char in enumerate(path) if char == "/"]


def split_lines(data: bytes) -> list[bytes]:
    """Split into lines with their `\\n`; as in git, a carriage return or form feed ends no line."""
    lines = data.split(b"\n")
    tail = lines.pop()
    return [line + b"\n" for line in lines] + ([tail] if tail else [])


def apply_hunks(data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, tuple[int, ...]] | Hunk:
    """Apply hunks in order. Return the new bytes and each hunk's offset in lines, or the first hunk whose place was not found."""
    if hunks and b"".join(hunks[0].before) not in data:  # most failures end here, before any line is split off
        return hunks[0]
    lines = split_lines(data)
    written = bytearray(len(lines))
    offsets = []
    for hunk in hunks:
        place = _find(lines, written, hunk)
        if place is None:
            return hunk
        offsets.append(place - max(hunk.new_start - 1, 0))
        end = place + len(hunk.before)
        lines[place:end] = hunk.after
        written[place:end] = b"\1" * len(hunk.after)
    return b"".join(lines), tuple(offsets)


def placed(hunks: Sequence[Hunk], offsets: Sequence[int]) -> list[int]:
    """Return where `apply_hunks` put each hunk, from 0, in the lines as they were before any of them."""
    places = []
    earlier: list[tuple[int, int, int]] = []
    for hunk, offset in zip(hunks, offsets, strict=True):
        at = offset + max(hunk.new_start - 1, 0)
        places.append(at - sum(growth for _, end, growth in earlier if end <= at))
        growth = len(hunk.after) - len(hunk.before)
        earlier = [(start + growth, end + growth, g) if start > at else (start, end, g) for start, end, g in earlier]
        earlier.append((at, at + len(hunk.after), growth))
    return places


def _find(lines: list[bytes], written: bytearray, hunk: Hunk) -> int | None:
    """Find the place nearest to the hunk's own line where it fits, later lines first at equal distance; None if none."""
    size, wanted = len(hunk.before), max(hunk.new_start - 1, 0)
    free = (place for place in fits(lines, hunk) if 1 not in written[place : place + size])
    return min(free, key=lambda place: (abs(place - wanted), place < wanted), default=None)


def fits(lines: list[bytes], hunk: Hunk) -> list[int]:
    """Every place, from 0, where the lines before the hunk are as git requires them."""
    before = list(hunk.before)
    size, total = len(before), len(lines)
    at_start = hunk.old_start <= 1
    if hunk.trailing == 0:
        # Without context on one side the hunk belongs at that end of the file, and nowhere else.
        place = total - size
        return [place] if place >= 0 and not (at_start and place) and lines[place:] == before else []
    *body, last = before
    # git compares a last line without newline as a prefix: white space may follow it, and is removed.
    loose = not last.endswith(b"\n")

    def fits_at(place: int) -> bool:
        end = place + size
        if end > total or lines[place : end - 1] != body:
            return False
        there = lines[end - 1]
        return there == last or (loose and there.startswith(last) and not there[len(last) :].strip(b" \t\r\n"))

    if at_start:
        return [0] if fits_at(0) else []
    places = positions(lines, before[0]) if body or not loose else range(total)
    return [place for place in places if fits_at(place)]


def positions(lines: list[bytes], line: bytes) -> list[int]:
    """Every place of a line, from 0."""
    places, at = [], -1
    try:
        while True:
            at = lines.index(line, at + 1)
            places.append(at)
    except ValueError:
        return places
