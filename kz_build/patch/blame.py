"""The part of an upstream diff that a patch cares about."""

from __future__ import annotations

import re

from kz_build.patch.change import Patch, split_lines
from kz_build.patch.verdict import find_run, stands_on

_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? ")


def concerned(patch: Patch, path: str, before: bytes, diff: bytes) -> str:
    """The hunks of `diff`, from `before` and without context, that change lines which the patch needs; '' for none."""
    ranges = _ranges(patch, path, split_lines(before))
    kept = []
    for hunk in re.split(rb"^(?=@@ )", diff, flags=re.MULTILINE)[1:]:
        header = _HEADER.match(hunk)
        assert header
        at, size = int(header[1]), int(header[2] or 1)
        # An insertion (size 0, after line `at`) parts the lines on either side of it.
        first, last = (at - 1, at + size - 2) if size else (at, at - 1)
        if any(start <= last and first < end for start, end in ranges):
            kept.append(hunk.decode("utf-8", "replace").rstrip("\n"))
    return "\n".join([f"--- {path}", *kept]) if kept else ""


def turned(hunks: str) -> str:
    """What `concerned` gives, the other way round."""
    swap = {"+": "-", "-": "+"}
    rows = []
    for line in hunks.split("\n"):
        header = re.sub(r"^@@ -(\S+) \+(\S+) @@", r"@@ -\2 +\1 @@", line)
        rows.append(
            line if line.startswith("--- ") else header if header != line else swap.get(line[:1], line[:1]) + line[1:]
        )
    return "\n".join(rows)


def _ranges(patch: Patch, path: str, lines: list[bytes]) -> list[tuple[int, int]]:
    """Lines of the file (from 0, end excluded) that the patch's hunks need: all their lines, or what is left of them."""
    found = []
    for change in patch.files:
        for hunk in change.hunks if change.origin == path else ():
            runs = (hunk.before,) if find_run(hunk.before, lines) >= 0 else stands_on(hunk)
            places = [(find_run(run, lines), len(run)) for run in runs if run]
            found += [(at, at + size) for at, size in places if at >= 0]
    return found
