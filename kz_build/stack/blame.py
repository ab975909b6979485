"""The upstream changes to the lines that a patch requires, and the commit that made a patch's own change."""

from __future__ import annotations

from collections.abc import Collection

from kz_build.git import blobs
from kz_build.git import log as history
from kz_build.git.object_types import Commit
from kz_build.patch.blame import relevant_hunks, reversed_hunks
from kz_build.patch.change import Patch
from kz_build.patch.trailers import picked_from
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.stack_history import judge_history
from kz_build.stack.verdict_cache import read_blobs


def made_upstream(project: Project, pinned: PinnedStack, onto: str, patch: Patch) -> str:
    """Return the commit below `onto` that made a patch's change, as `id date subject`, even if later ones changed it again: the
    one that its message says it was picked from, else the last after which upstream had all of it; '' for none."""
    for commit in picked_from(patch.message):
        if history.merge_base(pinned.repository, commit, onto) == commit:
            words = ("-1", "--format=%h %cs %s", "--abbrev=10", "--end-of-options", commit)
            return pinned.repository.git("log", *words).decode("utf-8", "replace").strip()
    if not history.merge_base(pinned.repository, pinned.base, onto):
        return ""
    stories = {story.patch: story.steps for story in judge_history(project, pinned, onto).patches}
    had = [s.commit for s in stories.get(patch.name, ()) if s.judgement.verdict is Verdict.UPSTREAMED]
    return had[-1].shown if had else ""


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
