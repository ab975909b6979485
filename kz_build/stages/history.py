"""history: each patch over every upstream commit that touches its files; who broke it, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kz_build.adapters import history as upstream
from kz_build.adapters import revisions, trees
from kz_build.adapters.series import stack_sources
from kz_build.model.errors import ConfigError
from kz_build.model.history import Story, fold, stories
from kz_build.model.judgement import Verdict
from kz_build.model.project import Project
from kz_build.stages.blame import lines_changed
from kz_build.stages.carried import Carried, carried, reading
from kz_build.stages.judging import judged

if TYPE_CHECKING:
    from kz_build.model.events import Watch


@dataclass(frozen=True)
class History:
    """The stories of one stack. `parted` is where the pin's own branch left that of `to`, `date` of `commit`; `tags` the first that has a commit."""

    line: str
    source: str
    pin: str
    to: str
    commit: str
    date: str
    parted: str
    commits: int
    touching: int
    stories: tuple[Story, ...]
    tags: dict[str, str]


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
                revisions.fetch_names(held.repository)
            found.append(reading(project, held, lambda c: walked(project, c, to)))
    if not found:
        raise ConfigError(f"line {line} has no stack on a git source", hint="a wheel has versions, but no commits")
    return tuple(found)


def walked(project: Project, held: Carried, to: str) -> History:
    """Judge the stack at its pin, where the pin's branch left upstream's, and after each commit from there to `to`."""
    tip = revisions.known_or_fetched(held.repository, to)
    parted = upstream.merge_base(held.repository, held.base, tip)
    if not parted:
        raise ConfigError(f"{held.version} and {to} have no common history")
    way = upstream.walk(held.repository, parted, tip, held.stack.touched)
    with held.repository.objects() as objects:
        ends = trees.read_ids(objects, (held.base, parted), held.stack.touched)
        dated = objects.commit(tip) or ("", "")
        rows = judged(held, project.store, objects, [*ends, *fold(ends[1], way.commits)])
    told = tuple(_followed(held, tip, story) for story in stories(rows[0], rows[1], way.commits, rows[2:]))
    named = {s.commit.id for story in told for s in (story.broke, story.taken, story.since) if s}
    tags = way.first_tags(sorted(named))
    return History(
        held.stack.line,
        held.stack.source,
        held.version,
        to,
        tip,
        dated[1],
        parted,
        way.total,
        len(way.commits),
        told,
        tags,
    )


def _followed(held: Carried, tip: str, story: Story) -> Story:
    """The story with the names that missing files went to."""
    if not any(j.verdict is Verdict.MISSING for j in (story.now, *(s.judgement for s in story.steps))):
        return story
    from kz_build.stages.following import followed

    steps = tuple(replace(s, judgement=followed(held, s.commit.id, s.judgement)) for s in story.steps)
    return replace(story, steps=steps, now=followed(held, tip, story.now))


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
