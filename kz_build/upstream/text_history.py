"""The history of patches as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kz_build.git.object_types import Commit
from kz_build.patch.text import cell, upstreamed, without, wrap
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.stack.patch_history import Step, Story


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
    def date(self) -> str: ...
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
        f"{found.line} {found.source}: {found.pin} to {found.to} {found.commit[:10]} {found.date}",
        f"  commits since {found.parted[:10]}: {found.commits:,}, on files of the stack: {found.touching:,}",
    ]
    for story in found.stories:
        rows += wrap(f"{story.patch.removesuffix('.patch')}: {_summary(story)}", "  ")
        if story.now.verdict is Verdict.UPSTREAMED:
            rows += wrap(upstreamed(story.now), " " * 6)
        if not story.start.holds:
            rows.append(
                f"      {_state(story.start)} already at {found.parted[:10]}, where {found.pin} left {found.to}"
            )
        for step in story.steps:
            rows += _step(found, story, step)
            if diff := why.get((story.patch, step.commit.id)):
                rows += [f"        {line}" for line in diff.split("\n")]
    return "\n".join(rows)


def plain(found: History, why: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """The same for programs: commits with pull request and first tag, and of each patch those that matter by id."""

    def step(story: Story, one: Step) -> dict[str, object]:
        key = (story.patch, one.commit.id)
        diff = {"why": why[key]} if key in why else {}
        return {
            "commit": {**commit(one.commit), "tag": found.tags.get(one.commit.id, "")},
            "judgement": one.judgement,
            "holds": one.judgement.holds,
            "back": one.back,
            **diff,
        }

    def story(one: Story) -> dict[str, object]:
        named = {"broke": one.broke, "taken": one.taken, "since": one.since}
        return {
            "patch": one.patch,
            "pin": one.pin,
            "start": one.start,
            "now": one.now,
            "holds": one.now.holds,
            **{name: at.commit.id if at else "" for name, at in named.items()},
            "flaps": one.flaps,
            "steps": [step(one, s) for s in one.steps],
        }

    facts = ("line", "source", "pin", "to", "commit", "date", "parted", "commits", "touching")
    return {**{name: getattr(found, name) for name in facts}, "patches": [story(s) for s in found.stories]}


def commit(found: Commit) -> dict[str, object]:
    """A commit for programs."""
    return {"id": found.id, "date": found.date, "subject": found.subject, "pull": found.pull}


def _state(judgement: Judgement) -> str:
    return "holds" if judgement.holds and judgement.verdict.value != "upstreamed" else cell(judgement)


def _summary(story: Story) -> str:
    now = cell(story.now)
    times = "once" if story.flaps == 1 else f"{story.flaps} times"
    flaps = f", held again {times} on the way" if story.flaps else ""
    return f"{now}{flaps}" if story.now.holds else f"broken ({now}){flaps}"


def _step(found: History, story: Story, step: Step) -> list[str]:
    marks = []
    if step is story.broke:
        marks.append("first to break it")
    if step is story.taken and not step.judgement.without:
        marks.append("first to take its lines")
    if step is story.since and step is not story.broke:
        marks.append("broken since")
    if step.judgement.without:
        marks.append(without(step.judgement))
    if step.back:
        marks.append("brings back an earlier file")
    if tag := found.tags.get(step.commit.id) if step in (story.broke, story.taken, story.since) else "":
        marks.append(f"in {tag}")
    said = f"{step.commit.date[:10]} {step.commit.id[:10]} {_state(step.judgement):10} {step.commit.subject}"
    rows = wrap(said, " " * 6, " " * 33)
    if step.judgement.verdict is Verdict.MISSING:
        rows += wrap(step.judgement.reason, " " * 28)
    if step.judgement.verdict is Verdict.UPSTREAMED:
        rows += wrap(upstreamed(step.judgement), " " * 28)
    for intent in step.judgement.intents:
        rows += wrap(f"intent: {intent}", " " * 28)
    return rows + wrap("; ".join(marks), " " * 28, "")
