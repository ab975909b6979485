"""Find where a patch belongs in a file, and whether its change is there already.

That the lines a hunk leaves are in a file proves little: another function may have the same body. The hunk belongs
in the function that its header names, otherwise at the line that the header names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from kz_build.patch.change import Hunk, split_lines
from kz_build.patch.line_map import edits

Fits = Callable[[list[bytes], Hunk], list[int]]
"""Every place, from 0, where the lines before a hunk are."""

_LABEL = re.compile(rb"\w+\s*:\s*(//.*|/\*.*)?$")
_NAME = re.compile(rb"(?:[^(\[{<=:;,]|::)*")
_CUT = 40
"""GNU diff cuts the function's line in a header here; git cuts it at 80."""


class Place(NamedTuple):
    """Lines of a file, from 1, both included; 0 for the file itself, `gone` if there is none."""

    path: str
    first: int = 0
    last: int = 0
    gone: bool = False

    def __str__(self) -> str:
        if self.gone:
            return f"{self.path} (gone)"
        return f"{self.path}:{self.first}-{self.last}" if self.first else self.path


def places_text(places: Sequence[str]) -> str:
    """Format places as one phrase: `a.c:3-9, 20-26 and b.c:1-7`."""
    files: dict[str, list[str]] = {}
    for place in places:
        path, colon, lines = place.rpartition(":")
        files.setdefault(path if colon else place, []).extend([lines] if colon else [])
    parts = [f"{path}:{', '.join(lines)}" if lines else path for path, lines in files.items()]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


class Presence(Enum):
    """Whether the change of a hunk that applies is there already, or only a person can tell."""

    ABSENT = "absent"
    PRESENT = "present"
    UNCLEAR = "unclear"


def unique_places(lines: list[bytes], hunks: Sequence[Hunk], fits: Fits) -> list[int] | None:
    """Find the lines that these hunks leave, from 0; None unless there is exactly one way to place them all in order.

    For hunks that do not apply themselves.
    """
    candidates = [_candidates(lines, hunk, _added(hunks[:number]), fits) for number, hunk in enumerate(hunks)]
    first: list[int] = []
    last: list[int] = []
    above, below = 0, len(lines)
    for hunk, places in zip(hunks, candidates, strict=True):
        place = next((at for at in places if at + hunk.leading >= above), None)
        if place is None:
            return None
        first.append(place)
        above = place + len(hunk.after) - hunk.trailing
    for hunk, places in zip(reversed(hunks), reversed(candidates), strict=True):
        # There is one: those of the first loop are in order too.
        place = next(at for at in reversed(places) if at + len(hunk.after) - hunk.trailing <= below)
        last.insert(0, place)
        below = place + hunk.leading
    return first if first == last else None


def _candidates(lines: list[bytes], hunk: Hunk, added: frozenset[bytes], fits: Fits) -> list[int]:
    """Candidate places of a hunk: in its function, or at its line if the file has no such function."""
    places = fits(lines, hunk.reverse())
    in_function = {at: _in_function(lines, at, hunk.after, hunk.section, added) for at in places}
    own = [at for at in places if at == _line(hunk) and in_function[at] is not False]
    if True in in_function.values():
        places = [at for at in places if in_function[at]]
    elif hunk.section:
        places = []
    return own or places


def _added(hunks: Sequence[Hunk]) -> frozenset[bytes]:
    return frozenset(line for hunk in hunks for line in {*hunk.after} - {*hunk.before})


def presence(lines: list[bytes], hunk: Hunk, at: int, offset: int, fits: Fits, *, whole: bool) -> tuple[Presence, int]:
    """Return whether the change of a hunk that applies at a place is there already, and where the lines are that it leaves.

    `whole`: the reverse of its patch applies.
    """
    for shift in hunk.again:  # exactly where they would be added a second time
        start = at - shift
        if start >= 0 and tuple(lines[start : start + len(hunk.after)]) == hunk.after:
            return Presence.PRESENT, start
    if not offset:
        return Presence.ABSENT, at
    places = sorted(fits(lines, hunk.reverse()), key=lambda place: abs(place - _line(hunk)))
    mine = _in_function(lines, at, hunk.before, hunk.section)
    theirs = [place for place in places if _in_function(lines, place, hunk.after, hunk.section)]
    if mine is False and theirs:
        return Presence.PRESENT, theirs[0]
    near = [place for place in (theirs if mine else places) if abs(place - _line(hunk)) < abs(offset)]
    return (Presence.UNCLEAR, near[0]) if near and whole else (Presence.ABSENT, at)


def nearest(lines: list[bytes], hunk: Hunk, fits: Fits) -> int | None:
    """Find the lines that a hunk leaves, nearest to its own line; None where there are none."""
    return min(fits(lines, hunk.reverse()), key=lambda at: abs(at - _line(hunk)), default=None)


def _line(hunk: Hunk) -> int:
    return max(hunk.new_start - 1, 0)


def _in_function(
    lines: Sequence[bytes], at: int, image: Sequence[bytes], section: bytes, added: frozenset[bytes] = frozenset()
) -> bool | None:
    """Return whether lines are in the function that their hunk's header names, or are its first line.

    `added` are lines that earlier hunks of the patch add. None if neither the header nor the file says.
    """
    heads = [line for line in lines if section in line and _is(line, section)] if section else []
    indent = min((_indent(line) for line in heads), default=0)
    if any(_begins(line, indent, section) for line in image):
        return True
    above = next((lines[n] for n in range(at - 1, -1, -1) if _begins(lines[n], indent, section)), b"")
    if above and section and (_is(above, section) or above in added or (not heads and _name(above) == _name(section))):
        return True
    return False if heads else None


def _is(line: bytes, section: bytes) -> bool:
    text = line.strip()
    return text == section or (len(section) >= _CUT and text.startswith(section))


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def _begins(line: bytes, indent: int, section: bytes) -> bool:
    """Return whether a line begins a function by git's and GNU diff's rule: a name that is not indented."""
    if _indent(line) > indent:
        return False
    text = line.strip()
    return _kind(text) == _kind(section or b"a") and (not _LABEL.match(text) or bool(_LABEL.match(section)))


def _kind(text: bytes) -> bytes:
    return b"a" if text[:1].isalpha() or text[:1] in (b"_", b"$") else text[:1]


def _name(line: bytes) -> bytes:
    """Return a line's function without parameters: `int f` of `int f(int a) {`. A macro is its whole line."""
    text = line.strip()
    name = _NAME.match(text)[0].strip()  # type: ignore[index]
    macro = text[len(name) :].startswith(b"(") and b" " not in name and b"::" not in name
    return text if macro else name


def mapped_back(place: Place, target: bytes, current: bytes) -> Place:
    """Map a place in a patched file to the target's own lines, or to the lines beside it if the patches added all of them."""
    if not place.first or target == current:
        return place
    old, new = split_lines(target), split_lines(current)
    changes = edits(old, new)

    def back(line: int) -> int:
        shift = 0
        for change in changes:
            if line < change.new_start:
                break
            if line < change.new_end:
                return min(change.start + line - change.new_start, max(change.end - 1, change.start), len(old) - 1)
            shift = change.end - change.new_end
        return line + shift

    first, last = back(place.first - 1) + 1, back(place.last - 1) + 1
    return place._replace(first=first, last=max(first, last))
