"""history: each patch over every upstream commit that touches its files; who broke it, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.blame import lines_changed
from kz_build.stack.git_upstream import git_stacks
from kz_build.stack.patch_history import PatchHistory
from kz_build.stack.pinned import (
    AbsentRevision,
    PinnedStack,
    judge_each,
    require_stacks,
    with_files_fetched,
)
from kz_build.stack.stack_history import StackHistory, judge_history

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


NO_HISTORY = "a wheel has a history where pins.yaml has sources.NAME.upstream: {git: URL}; --source NAME asks for it"


def history(
    project: Project,
    line: str,
    to: str = "",
    *,
    sources: Collection[str] = (),
    fetch: bool = False,
    watch: Watch | None = None,
) -> tuple[tuple[StackHistory, ...], tuple[AbsentRevision, ...]]:
    """Return the history of every stack of a line on a git source, from its pin to `to`, and the stacks whose upstream lacks `to`.

    '' is upstream's own branch. `sources` names the stacks, () all. Raises ConfigError if there is none.
    """
    require_stacks(project, [line], sources)
    stacks = git_stacks(project, line, watch, sources)
    if not stacks:
        raise ConfigError(f"line {line} has no stack on a git source", hint=NO_HISTORY)

    def judge(pinned: PinnedStack) -> StackHistory:
        if fetch:
            refs.fetch_names(pinned.repository)
        return judge_history(project, pinned, to)

    return judge_each(project, stacks, judge)


def why(project: Project, history: StackHistory, watch: Watch | None = None) -> dict[tuple[str, str], str]:
    """Return (patch, commit) -> upstream's diff of just the lines that the patch requires, for each step that broke one."""
    (pinned,) = git_stacks(project, history.line, watch, [history.source])
    return with_files_fetched(project, pinned, lambda c: _why(c, history.patches))


def _why(pinned: PinnedStack, histories: Sequence[PatchHistory]) -> dict[tuple[str, str], str]:
    patches = {p.name: p for p in pinned.stack.patches}
    return {
        (history.patch, step.commit.id): text
        for history in histories
        for step in history.steps
        if not step.judgement.holds and (text := lines_changed(pinned, patches[history.patch], step.commit))
    }
