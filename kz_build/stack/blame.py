"""The upstream changes to the lines that a patch requires, and the commit that made a patch's own change."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kz_build.core.github_types import slug_of
from kz_build.git import blobs
from kz_build.git import log as history
from kz_build.git.object_types import Commit
from kz_build.git.refs import commit_of
from kz_build.patch.blame import relevant_hunks, reversed_hunks
from kz_build.patch.change import Patch
from kz_build.patch.trailers import made_from, pull_of
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.stack_history import judge_history
from kz_build.stack.verdict_cache import read_blobs


class UpstreamsOwn(NamedTuple):
    """The commit, as `id date subject`, by which upstream made a patch's change. If it is not `certain`, only its subject says so."""

    commit: str
    certain: bool


def made_upstream(project: Project, pinned: PinnedStack, onto: str, patch: Patch) -> UpstreamsOwn | None:
    """Return the commit below `onto` that made a patch's change, even if later ones changed it again; None for none.

    It is the one that the patch was made from, as its message says, or by which its pull request landed; else the last after
    which upstream had all of it; else the last with its subject.
    """
    repository = pinned.repository
    if commit := named_commit(pinned, onto, patch):
        return UpstreamsOwn(history.shown(repository, commit), certain=True)
    parted = history.merge_base(repository, pinned.base, onto)
    if not parted:
        return None
    stories = {story.patch: story.steps for story in judge_history(project, pinned, onto).patches}
    had = [s.commit for s in stories.get(patch.name, ()) if s.judgement.verdict is Verdict.UPSTREAMED]
    if had:
        return UpstreamsOwn(had[-1].shown, certain=True)
    alike = history.with_subject(repository, parted, onto, patch.subject, patch.reads)
    return UpstreamsOwn(history.shown(repository, alike), certain=False) if alike else None


def named_commit(pinned: PinnedStack, onto: str, patch: Patch) -> str:
    """Return the commit below `onto` that a patch's message names, by its id or its pull request; '' for none."""
    repository = pinned.repository
    number = pull_of(patch.message, slug_of(pinned.source.location))
    landed = history.landed(repository, onto, {number} - {0})
    named = [commit_of(repository, commit) for commit in made_from(patch.message)]
    named += [commit.id for commit in landed.values()]
    return next((one for one in named if one and history.merge_base(repository, one, onto) == one), "")


def lines_changed(pinned: PinnedStack, patch: Patch, commit: Commit, *, later: bool = True) -> str:
    """Return what an upstream commit did to the lines that a patch requires, as the hunks of its diff; '' for nothing.

    The patch was made for the files before the commit or, if not `later`, for those after it.
    """
    hunks = []
    with pinned.repository.objects() as objects:
        for path, before, after in changed(commit, patch.reads):
            old, new = (before, after) if later else (after, before)
            data = read_blobs(pinned.repository, objects, (before, after))[old]
            text = relevant_hunks(patch, path, data, blobs.diff_blobs(pinned.repository, old, new))
            hunks.append(text if later else reversed_hunks(text))
    return "\n".join(text for text in hunks if text)


def changed(commit: Commit, paths: Collection[str]) -> list[tuple[str, str, str]]:
    """Return (path, blob before, blob after) of the files among `paths` that a commit changes, but neither adds nor removes."""
    return [
        (path, before, after)
        for path, _, before, after in commit.changes
        if path in paths and before.strip("0") and after.strip("0")
    ]
