"""What a machine can do, or what it lacks for that; the screen of `kz doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kz_build.core.errors import Missing
from kz_build.core.escape import text_width, wrapped

LINES = 40
"""What fits on a screen."""
_INDENT = " " * 15


@dataclass(frozen=True)
class Capability:
    """Something that kz can do with a subject, of a line where lines differ. `evidence`: how; `missing`: why it cannot."""

    name: str
    subject: str
    line: str = ""
    evidence: str = ""
    missing: tuple[Missing, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return plain data, with the answer as `able`."""
        return {**vars(self), "able": not self.missing}


def screen(capabilities: Sequence[Capability]) -> str:
    """Return a table of what can be done, and below it the gaps by number, each with the first way to close it.

    It has at most 40 lines: the gaps of exports come last, and their preflights list those for which there is no room.
    """
    gaps = _gaps(capabilities)
    rows: dict[tuple[str, tuple[int, ...]], dict[str, list[Capability]]] = {}
    for one in capabilities:
        numbers = tuple(sorted({list(gaps).index(_way(item)) + 1 for item in one.missing}))
        rows.setdefault((one.name, numbers), {}).setdefault(one.subject, []).append(one)
    lines = [row for key, subjects in rows.items() for row in _rows(*key, subjects)]
    if gaps:
        lines += ["", "what closes each gap:"]
        closes = [_gap(number, item) for number, item in enumerate(gaps.values(), 1)]
        if len(closes) > (room := LINES - len(lines)):
            closes[room - 1 :] = [f"{_ranges(range(room, len(closes) + 1))} -> kz export preflight RECIPE lists them"]
        lines += closes
    return "\n".join(lines)


def _gaps(capabilities: Sequence[Capability]) -> dict[str, Missing]:
    """Return each gap once, by the way to close it: those of exports alone last, and of these first what closes most."""
    gaps: dict[str, Missing] = {}
    exports: Counter[str] = Counter()
    for one in sorted(capabilities, key=lambda one: one.name == "export"):
        for way, item in {_way(item): item for item in one.missing}.items():
            if way not in gaps or way in exports:
                exports[way] += one.name == "export"
            gaps.setdefault(way, item)
    return dict(sorted(gaps.items(), key=lambda gap: -exports[gap[0]] if exports[gap[0]] else -len(capabilities)))


def _way(item: Missing) -> str:
    return item.remedy.splitlines()[0]


def _rows(name: str, gaps: tuple[int, ...], subjects: dict[str, list[Capability]]) -> list[str]:
    by_lines: dict[str, list[str]] = {}
    for subject, of in subjects.items():
        by_lines.setdefault(", ".join(one.line for one in of if one.line), []).append(subject)
    what = "; ".join(", ".join(each) + (f" ({lines})" if lines else "") for lines, each in by_lines.items())
    first, *others = (one for of in subjects.values() for one in of)
    if gaps:
        what += f": gap{'s' if len(gaps) > 1 else ''} {_ranges(gaps)}"
    elif not others:
        what += f": {first.evidence}"
    return wrapped(f"{'no' if gaps else 'yes':4} {name:9} {what}", later=_INDENT).splitlines()


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order, as `1-3 5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return " ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _gap(number: int, item: Missing) -> str:
    """Return a command with what it is for, if a line has room for both. A command is never broken: it is there to paste."""
    command, reason = f"{number:2} -> {_way(item)}", f"  # {item.what}"
    return command + reason if len(command + reason) <= text_width() and "#" not in command else command
