"""health: every patch on every release and on upstream's own branch; and what the nightly run says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import Story
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.walk import History, walked
from kz_build.upstream.verify import Verified, verified

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

FILE = "patches/HEALTH.md"


@dataclass(frozen=True)
class Health:
    """One stack: verdicts on every revision, and the history of what broke; None for a source without commits."""

    verified: Verified
    history: History | None

    @property
    def broken(self) -> tuple[Story, ...]:
        """Stories of the patches that do not hold at the end."""
        return tuple(s for s in self.history.stories if not s.now.holds) if self.history else ()


def health(project: Project, *, fetch: bool = False, watch: Watch | None = None) -> tuple[Health, ...]:
    """Judge every stack of every line: on all releases and upstream's branch, a wheel's on its own pin."""
    found = []
    for line in project.pins.lines:
        for name in stack_sources(project, line):
            held = carried(project, line, name, watch=watch)
            found.append(reading(project, held, lambda c: _health(project, c, fetch)))
    return tuple(found)


def _health(project: Project, held: Carried, fetch: bool) -> Health:
    if held.source.kind != "git":
        return Health(verified(project, held, ()), None)
    if fetch:
        refs.fetch_names(held.repository)
    trunk = refs.trunk(held.repository)
    names = (*refs.releases(held.repository), trunk)
    return Health(verified(project, held, names), walked(project, held, trunk))
