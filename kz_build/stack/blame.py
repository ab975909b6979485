"""What upstream's commits did to the lines that a patch stands on."""

from __future__ import annotations

from collections.abc import Collection

from kz_build.git import blobs
from kz_build.git.object_types import Commit
from kz_build.patch.blame import relevant_hunks, reversed_hunks
from kz_build.patch.change import Patch
from kz_build.stack.pinned import Carried
from kz_build.stack.verdict_cache import read_blobs


def lines_changed(held: Carried, patch: Patch, commit: Commit, *, later: bool = True) -> str:
    """What an upstream commit did to the lines that a patch stands on, as the hunks of its diff; '' for nothing.

    The patch was made for the files before the commit, or where not `later`, for those after it.
    """
    said = []
    with held.repository.objects() as objects:
        for path, before, after in changed(commit, patch.reads):
            old, new = (before, after) if later else (after, before)
            data = read_blobs(held.repository, objects, (before, after))[old]
            said.append(relevant_hunks(patch, path, data, blobs.diff_blobs(held.repository, old, new)))
    text = "\n".join(text for text in said if text)
    return text if later else reversed_hunks(text)


def changed(commit: Commit, paths: Collection[str]) -> list[tuple[str, str, str]]:
    """(path, blob before, blob after) of the files among `paths` that a commit changes; not those it adds or removes."""
    return [
        (path, before, after)
        for path, _, before, after in commit.changes
        if path in paths and before.strip("0") and after.strip("0")
    ]
