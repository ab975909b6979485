"""The history of patches as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kz_build.model.history import Step, Story
from kz_build.model.judgement import Judgement
from kz_build.views.patches import cell


class History(Protocol):
    """The stories of one stack."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def pin(self) -> str: ...
    @property
    def to(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def parted(self) -> str: ...
    @property
    def commits(self) -> int: ...
    @property
    def touching(self) -> int: ...
    @property
    def stories(self) -> Sequence[Story]: ...
    @property
    def tags(self) -> Mapping[str, str]: ...


def text(found: History, why: Mapping[tuple[str, str], str]) -> str:
    """A paragraph a patch: the verdict at the end, then every commit that changed it."""
    rows = [
        f"{found.line} {found.source}: {found.pin} to {found.to} {found.commit[:10]}; "
        f"{found.commits:,} commits since {found.parted[:10]}, {found.touching} touch these files"
    ]
    for story in found.stories:
        rows.append(f"  {story.patch.removesuffix('.patch')}: {_summary(story)}")
        if not story.start.holds:
            rows.append(f"      {_state(story.start)} already where the branch of {found.pin} left upstream's")
        for step in story.steps:
            rows.append(_step(found, story, step))
            if diff := why.get((story.patch, step.commit.id)):
                rows += [f"        {line}" for line in diff.split("\n")]
    return "\n".join(rows)


def _state(judgement: Judgement) -> str:
    return "holds" if judgement.holds and judgement.verdict.value != "upstreamed" else cell(judgement)


def _summary(story: Story) -> str:
    now = cell(story.now)
    flaps = f", held again {story.flaps} times on the way" if story.flaps else ""
    return f"{now}{flaps}" if story.now.holds else f"broken ({now}){flaps}"


def _step(found: History, story: Story, step: Step) -> str:
    marks = []
    if step is story.broke:
        marks.append("first to break it")
    if step is story.taken:
        marks.append("first to take its lines")
    if step is story.since and step is not story.broke:
        marks.append("broken since")
    if step.back:
        marks.append("brings back an earlier file")
    if tag := found.tags.get(step.commit.id) if step in (story.broke, story.taken, story.since) else "":
        marks.append(f"in {tag}")
    said = f"      {step.commit.date[:10]} {step.commit.id[:10]} {_state(step.judgement):10} {step.commit.subject}"
    return said if not marks else f"{said}\n{' ' * 28}{'; '.join(marks)}"
