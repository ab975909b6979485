"""history: each patch over every upstream commit that touches its files; who broke it, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.blame import lines_changed
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import Story
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.walk import History, walked

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def history(
    project: Project, line: str, to: str = "main", *, fetch: bool = False, watch: Watch | None = None
) -> tuple[History, ...]:
    """The history of every stack of a line on a git source, from its pin to `to`. Raises ConfigError where there is none."""
    project.pins.line(line)
    found = []
    for name in stack_sources(project, line):
        held = carried(project, line, name, watch=watch)
        if held.source.kind == "git":
            if fetch and held.repository.exists():
                refs.fetch_names(held.repository)
            found.append(reading(project, held, lambda c: walked(project, c, to)))
    if not found:
        raise ConfigError(f"line {line} has no stack on a git source", hint="a wheel has versions, but no commits")
    return tuple(found)


def why(project: Project, found: History, watch: Watch | None = None) -> dict[tuple[str, str], str]:
    """(patch, commit) -> upstream's diff of just the lines that the patch stands on, for each step that broke one."""
    held = carried(project, found.line, found.source, watch=watch)
    return reading(project, held, lambda c: _why(c, found.stories))


def _why(held: Carried, told: Sequence[Story]) -> dict[tuple[str, str], str]:
    patches = {p.name: p for p in held.stack.patches}
    return {
        (story.patch, step.commit.id): text
        for story in told
        for step in story.steps
        if not step.judgement.holds and (text := lines_changed(held, patches[story.patch], step.commit))
    }
