"""The history of a stack: judged at its pin and after each commit of upstream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kz_build.core.errors import ConfigError
from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import tree_lookup as trees
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.patch_history import PatchHistory, patch_histories, states_after
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.verdict_cache import judge_states


@dataclass(frozen=True)
class StackHistory:
    """The history of one stack's patches. `parted` is where the pin's branch left that of `to`, `date` the date of `commit`; `tags` the first with a commit."""

    line: str
    source: str
    pin: str
    to: str
    commit: str
    date: str
    parted: str
    commits: int
    touching: int
    patches: tuple[PatchHistory, ...]
    tags: dict[str, str]


def judge_history(project: Project, pinned: PinnedStack, to: str) -> StackHistory:
    """Judge the stack at its pin, where the pin's branch left upstream's, and after each commit from there to `to`.

    '' is upstream's own branch.
    """
    to = to or refs.trunk(pinned.repository)
    tip = refs.resolve_revision(pinned.repository, to)
    parted = upstream.merge_base(pinned.repository, pinned.base, tip)
    if not parted:
        raise ConfigError(f"{pinned.version} and {to} have no common history")
    walk = upstream.walk(pinned.repository, parted, tip, pinned.stack.touched)
    with pinned.repository.objects() as objects:
        ends = trees.read_ids(objects, (pinned.base, parted), pinned.stack.touched)
        dated = objects.commit(tip) or ("", "")
        rows = judge_states(pinned, project.store, objects, [*ends, *states_after(ends[1], walk.commits)])
    histories = tuple(
        _with_renames(pinned, tip, history) for history in patch_histories(rows[0], rows[1], walk.commits, rows[2:])
    )
    commits = {s.commit.id for history in histories for s in (history.broke, history.taken, history.since) if s}
    tags = walk.first_tags(sorted(commits))
    return StackHistory(
        pinned.stack.line,
        pinned.stack.source,
        pinned.version,
        to,
        tip,
        dated[1],
        parted,
        walk.total,
        len(walk.commits),
        histories,
        tags,
    )


def _with_renames(pinned: PinnedStack, tip: str, history: PatchHistory) -> PatchHistory:
    """Add to the history the new names of missing files."""
    if not any(j.verdict is Verdict.MISSING for j in (history.now, *(s.judgement for s in history.steps))):
        return history
    from kz_build.stack.renames import follow_rename

    steps = tuple(replace(s, judgement=follow_rename(pinned, s.commit.id, s.judgement)) for s in history.steps)
    return replace(history, steps=steps, now=follow_rename(pinned, tip, history.now))
