"""The part of an upstream diff that a patch cares about."""

from __future__ import annotations

import re

from kz_build.model.patch import Patch, split_lines
from kz_build.model.verdict import find_run, stands_on

_HEADER = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def concerned(patch: Patch, path: str, before: bytes, diff: bytes) -> str:
    """The hunks of `diff`, a diff from `before`, that change lines which the patch's hunks on `path` need; '' for none."""
    ranges = _ranges(patch, path, split_lines(before))
    kept = []
    for hunk in re.split(rb"^(?=@@ )", diff, flags=re.MULTILINE)[1:]:
        header = _HEADER.match(hunk)
        assert header
        at, touched = int(header[1]) - 1, set()
        for line in hunk.split(b"\n")[1:]:
            if line[:1] == b"-":
                touched.add(at)
            elif line[:1] == b"+":
                touched |= {at - 1, at}  # an insertion parts the lines on either side of it
            at += line[:1] in (b" ", b"-")
        if any(start <= number < end for number in touched for start, end in ranges):
            kept.append(hunk.decode("utf-8", "replace").rstrip("\n"))
    return "\n".join([f"--- {path}", *kept]) if kept else ""


def _ranges(patch: Patch, path: str, lines: list[bytes]) -> list[tuple[int, int]]:
    """Lines of the file (from 0, end excluded) that the patch's hunks need: all their lines, or what is left of them."""
    found = []
    for change in patch.files:
        for hunk in change.hunks if change.origin == path else ():
            runs = (hunk.before,) if find_run(hunk.before, lines) >= 0 else stands_on(hunk)
            places = [(find_run(run, lines), len(run)) for run in runs if run]
            found += [(at, at + size) for at, size in places if at >= 0]
    return found
