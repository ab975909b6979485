"""The history of a stack: judged at its pin and after each commit of upstream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import tree_lookup as trees
from kz_build.git.cat_file import Objects, ObjectsMissing
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.patch_history import PatchHistory, patch_histories, states_after
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.verdict_cache import Row, judge_states, known_states

if TYPE_CHECKING:
    from kz_build.git.object_types import State


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
        raise ConfigError(
            f"{pinned.version} and {to} have no common history", hint=upstream.cut_history(pinned.repository)
        )
    history = _history(pinned, to, tip, parted, lambda *facts: judge_states(pinned, project.store, *facts))
    return replace(history, patches=tuple(_with_renames(pinned, tip, one) for one in history.patches))


def known_history(project: Project, pinned: PinnedStack) -> StackHistory | None:
    """Return the history up to upstream's own branch as the store knows it: nothing is fetched or judged now.

    None if a verdict is missing. New names of missing files are not in it.
    """

    def known(objects: Objects, states: Sequence[State]) -> list[Row]:
        rows = [row for row in known_states(pinned, project.store, states) if row]
        if len(rows) < len(states):
            raise ObjectsMissing("a state was never judged")
        return rows

    try:
        to = refs.known_trunk(pinned.repository)
        tip = refs.commit_of(pinned.repository, to) if to else ""
        parted = upstream.merge_base(pinned.repository, pinned.base, tip) if tip else ""
        return _history(pinned, to, tip, parted, known) if parted else None
    except ObjectsMissing:
        return None


def _history(
    pinned: PinnedStack, to: str, tip: str, parted: str, judge: Callable[[Objects, Sequence[State]], list[Row]]
) -> StackHistory:
    walk = upstream.walk(pinned.repository, parted, tip, pinned.stack.touched)
    with pinned.repository.objects() as objects:
        ends = trees.read_ids(objects, (pinned.base, parted), pinned.stack.touched)
        dated = objects.commit(tip) or ("", "")
        rows = judge(objects, [*ends, *states_after(ends[1], walk.commits)])
    histories = patch_histories(rows[0], rows[1], walk.commits, rows[2:])
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
