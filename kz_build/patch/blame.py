"""The hunks of an upstream diff that affect a patch."""

from __future__ import annotations

import re

from kz_build.core.errors import CommandError
from kz_build.patch.change import Patch, split_lines
from kz_build.patch.judge import find_run, required_lines

_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? ")


def relevant_hunks(patch: Patch, path: str, before: bytes, diff: bytes) -> str:
    """Return the hunks of `diff`, from `before` and without context, that change lines the patch requires; '' for none."""
    ranges = _ranges(patch, path, split_lines(before))
    kept = []
    for hunk in re.split(rb"^(?=@@ )", diff, flags=re.MULTILINE)[1:]:
        header = _HEADER.match(hunk)
        if not header:
            raise CommandError(f"git's diff of {path} has a hunk without line numbers: {hunk[:80]!r}")
        at, size = int(header[1]), int(header[2] or 1)
        # An insertion (size 0, after line `at`) separates the lines on either side of it.
        first, last = (at - 1, at + size - 2) if size else (at, at - 1)
        if any(start <= last and first < end for start, end in ranges):
            kept.append(hunk.decode("utf-8", "replace").rstrip("\n"))
    return "\n".join([f"--- {path}", *kept]) if kept else ""


def reversed_hunks(hunks: str) -> str:
    """Reverse the output of `relevant_hunks` for one path."""
    swap = {"+": "-", "-": "+"}
    path, *rows = hunks.split("\n")
    headers = (re.sub(r"^@@ -(\S+) \+(\S+) @@", r"@@ -\2 +\1 @@", row) for row in rows)
    return "\n".join([path, *(row if row[:1] == "@" else swap.get(row[:1], row[:1]) + row[1:] for row in headers)])


def _ranges(patch: Patch, path: str, lines: list[bytes]) -> list[tuple[int, int]]:
    """Lines of the file (from 0, end excluded) that the patch's hunks require: all their lines, or those still there."""
    ranges = []
    for change in patch.files:
        for hunk in change.hunks if change.origin == path else ():
            runs = (hunk.before,) if find_run(hunk.before, lines) >= 0 else required_lines(hunk)
            places = [(find_run(run, lines), len(run)) for run in runs if run]
            ranges += [(at, at + size) for at, size in places if at >= 0]
    return ranges
