"""A stack judged at its pin and after each commit of upstream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kz_build.core.errors import ConfigError
from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import tree_lookup as trees
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.patch_history import Story, fold, stories
from kz_build.stack.pinned import Carried
from kz_build.stack.verdict_cache import judged


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


def walked(project: Project, held: Carried, to: str) -> History:
    """Judge the stack at its pin, where the pin's branch left upstream's, and after each commit from there to `to`."""
    tip = refs.known_or_fetched(held.repository, to)
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
    from kz_build.stack.renames import followed

    steps = tuple(replace(s, judgement=followed(held, s.commit.id, s.judgement)) for s in story.steps)
    return replace(story, steps=steps, now=followed(held, tip, story.now))
