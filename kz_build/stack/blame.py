"""The upstream changes to the lines that a patch requires."""

from __future__ import annotations

from collections.abc import Collection

from kz_build.git import blobs
from kz_build.git.object_types import Commit
from kz_build.patch.blame import relevant_hunks, reversed_hunks
from kz_build.patch.change import Patch
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.verdict_cache import read_blobs


def lines_changed(pinned: PinnedStack, patch: Patch, commit: Commit, *, later: bool = True) -> str:
    """Return what an upstream commit did to the lines that a patch requires, as the hunks of its diff; '' for nothing.

    The patch was made for the files before the commit or, if not `later`, for those after it.
    """
    hunks = []
    with pinned.repository.objects() as objects:
        for path, before, after in changed(commit, patch.reads):
            old, new = (before, after) if later else (after, before)
            data = read_blobs(pinned.repository, objects, (before, after))[old]
            hunks.append(relevant_hunks(patch, path, data, blobs.diff_blobs(pinned.repository, old, new)))
    text = "\n".join(text for text in hunks if text)
    return text if later else reversed_hunks(text)


def changed(commit: Commit, paths: Collection[str]) -> list[tuple[str, str, str]]:
    """Return (path, blob before, blob after) of the files among `paths` that a commit changes, but neither adds nor removes."""
    return [
        (path, before, after)
        for path, _, before, after in commit.changes
        if path in paths and before.strip("0") and after.strip("0")
    ]
