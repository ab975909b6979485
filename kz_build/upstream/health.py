"""health: every patch on every release and on upstream's own branch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.patch_history import PatchHistory
from kz_build.stack.pinned import PinnedStack, pinned_stacks, with_files_fetched
from kz_build.stack.stack_history import StackHistory, judge_history
from kz_build.upstream.verify import VerifyResult, verify_stack

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

FILE = "patches/HEALTH.md"


@dataclass(frozen=True)
class Health:
    """One stack: verdicts on every revision, and the history of what broke; None for a source without commits."""

    verified: VerifyResult
    history: StackHistory | None

    @property
    def broken(self) -> tuple[PatchHistory, ...]:
        """Histories of the patches that do not hold at the end."""
        return tuple(s for s in self.history.patches if not s.now.holds) if self.history else ()


def health(project: Project, *, fetch: bool = False, watch: Watch | None = None) -> tuple[Health, ...]:
    """Judge every stack of every line on all releases and upstream's branch; those of wheels on their own pins."""
    return tuple(
        with_files_fetched(project, pinned, lambda c: _health(project, c, fetch))
        for line in project.pins.lines
        for pinned in pinned_stacks(project, line, watch)
    )


def _health(project: Project, pinned: PinnedStack, fetch: bool) -> Health:
    if pinned.source.kind != "git":
        return Health(verify_stack(project, pinned, ()), None)
    if fetch:
        refs.fetch_names(pinned.repository)
    trunk = refs.trunk(pinned.repository)
    names = (*refs.releases(pinned.repository), trunk)
    return Health(verify_stack(project, pinned, names), judge_history(project, pinned, trunk))
