"""Comparison of files by their parts: sections of an ELF file, members of a zip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kz_build.build.variation import Difference
from kz_build.core.errors import AuditError, LockError
from kz_build.core.process import find, run
from kz_build.formats import elf
from kz_build.sources.archive import MOST_IN_MEMORY, opened_zip

DIFFOSCOPE_SECONDS = 60.0
_PRINTABLE = re.compile(rb"[\x20-\x7e]{3,}")
_SHOWN = 72
"""Characters of evidence."""


def parts(path: Path) -> dict[str, bytes]:
    """Return name -> content of a file's parts; one part named '' if it is neither ELF nor zip, or is damaged."""
    with path.open("rb") as file:
        magic = file.read(4)
    try:
        if magic == b"\x7fELF":
            return elf.sections(path)
        if magic == b"PK\x03\x04":
            return _members(path)
    except (AuditError, LockError):
        pass
    return {"": path.read_bytes()}


def _members(path: Path) -> dict[str, bytes]:
    """Return a zip's members, and its other facts as one more part: order, times, modes."""
    with opened_zip(path, MOST_IN_MEMORY) as archive:
        infos = archive.infolist()
        facts = [f"{i.filename} {i.date_time} {i.external_attr:o} {i.compress_type} {i.extra.hex()}" for i in infos]
        return {**{i.filename: archive.read(i) for i in infos}, "order, times and modes": "\n".join(facts).encode()}


def differences(name: str, first: Path, second: Path) -> Iterator[Difference]:
    """Yield where two files differ, in the file's order."""
    ours, theirs = parts(first), parts(second)
    any_part = False
    for where in dict.fromkeys([*ours, *theirs]):
        a, b = ours.get(where), theirs.get(where)
        if a != b:
            any_part = True
            yield Difference(name, where, *_evidence(a, b))
    if not any_part and first.read_bytes() != second.read_bytes():
        yield Difference(name, "", "other places of the same parts", "")


def _evidence(a: bytes | None, b: bytes | None) -> tuple[str, str]:
    """Return what is at the first difference, on both sides."""
    if a is None or b is None:
        return ("absent" if a is None else f"{len(a)} bytes", "absent" if b is None else f"{len(b)} bytes")
    at = _first_difference(a, b)
    return _around(a, at), _around(b, at)


def _first_difference(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _around(data: bytes, at: int) -> str:
    """Return the text around an offset, if it is text, else a few bytes in hexadecimal."""
    start = max(0, at - _SHOWN)
    for match in _PRINTABLE.finditer(data[start : at + _SHOWN]):
        if match.start() <= at - start <= match.end():
            return match[0].decode("ascii")
    return f"{data[at : at + 8].hex(' ')} at {at:#x}" if at < len(data) else f"ends at {at:#x}"


def diffoscope(first: Path, second: Path, to: Path) -> bool:
    """Write diffoscope's report on two files or folders; return False if it is not installed or takes too long."""
    if not find("diffoscope"):
        return False
    run(["diffoscope", "--text", str(to), str(first), str(second)], timeout=DIFFOSCOPE_SECONDS)
    return to.is_file()
