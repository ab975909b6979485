"""What differs between a stack and the same source's stack in the line before: patch by patch, as `git range-diff` does. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from kz_build.report.facts import PatchFacts, StackFacts

_PLACES = re.compile(r"^@@ -[0-9,]+ \+[0-9,]+ @@")
_OF_ONE_BASE = ("From ", "index ")
"""Lines that differ with the base, or always."""
_MOST_LINES = 500
"""A longer diff is cut off."""


class PatchDiff(NamedTuple):
    """A patch that both lines have, with another content: how many lines of it differ, and the unified diff of its mails."""

    name: str
    differing: int
    lines: tuple[str, ...]


class LineDiff(NamedTuple):
    """A stack against the line `before`: how many patches are the same, those that changed, those it has not, and its own."""

    before: str
    same: int
    changed: tuple[PatchDiff, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]


def line_diff(stack: StackFacts, stacks: Sequence[StackFacts]) -> LineDiff | None:
    """Return how a stack differs from the one before it of the same source; None for the first."""
    older = [other for other in stacks[: stacks.index(stack)] if other.source == stack.source]
    if not older:
        return None
    before = {patch.slug: patch for patch in older[-1].patches}
    now = {patch.slug: patch for patch in stack.patches}
    diffs = [_diff(before[slug], patch) for slug, patch in now.items() if slug in before]
    changed = tuple(diff for diff in diffs if diff.differing)
    gone, new = tuple(s for s in before if s not in now), tuple(s for s in now if s not in before)
    return LineDiff(older[-1].line, len(diffs) - len(changed), changed, gone, new)


def _diff(before: PatchFacts, now: PatchFacts) -> PatchDiff:
    lines = list(difflib.unified_diff(_compared(before.text), _compared(now.text), lineterm=""))[2:]  # without names
    differing = sum(line.startswith(("+", "-")) for line in lines)
    shown = ["@@" if line.startswith("@@ -") else line for line in lines[:_MOST_LINES]]
    return PatchDiff(now.name, differing, (*shown, "…") if len(lines) > _MOST_LINES else tuple(shown))


def _compared(text: str) -> list[str]:
    return [_PLACES.sub("@@", line) for line in text.splitlines() if not line.startswith(_OF_ONE_BASE)]
