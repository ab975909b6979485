"""The history of patches as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kz_build.core.escape import wrap
from kz_build.patch.text import cell, upstreamed, without
from kz_build.patch.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from kz_build.stack.patch_history import PatchHistory, Step
    from kz_build.stack.stack_history import StackHistory


def text(history: StackHistory, why: Mapping[tuple[str, str], str]) -> str:
    """Show a paragraph per patch: the verdict at the end, then every commit that changed it."""
    rows = [
        f"{history.line} {history.source}: {history.pin} to {history.to} {history.commit[:10]} {history.date}",
        f"  commits since {history.parted[:10]}: {history.commits:,}, on files of the stack: {history.touching:,}",
    ]
    for story in history.patches:
        rows += wrap(f"{story.patch.removesuffix('.patch')}: {_summary(story)}", "  ")
        if story.now.verdict is Verdict.UPSTREAMED:
            rows += wrap(upstreamed(story.now), " " * 6)
        if not story.start.holds:
            rows.append(
                f"      {_state(story.start)} already at {history.parted[:10]}, where {history.pin} left {history.to}"
            )
        for step in story.steps:
            rows += _step(history, story, step)
            if diff := why.get((story.patch, step.commit.id)):
                rows += [f"        {line}" for line in diff.split("\n")]
    return "\n".join(rows)


def plain(history: StackHistory, why: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """Return the same for programs: commits with pull request and first tag, and for each patch those that matter by id."""

    def step(story: PatchHistory, one: Step) -> dict[str, object]:
        key = (story.patch, one.commit.id)
        diff = {"why": why[key]} if key in why else {}
        return {
            "commit": {**one.commit.as_json(), "tag": history.tags.get(one.commit.id, "")},
            "judgement": one.judgement,
            "holds": one.judgement.holds,
            "back": one.back,
            **diff,
        }

    def story(one: PatchHistory) -> dict[str, object]:
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
    return {**{name: getattr(history, name) for name in facts}, "patches": [story(s) for s in history.patches]}


def _state(judgement: Judgement) -> str:
    return "holds" if judgement.holds and judgement.verdict.value != "upstreamed" else cell(judgement)


def _summary(story: PatchHistory) -> str:
    now = cell(story.now)
    times = "once" if story.flaps == 1 else f"{story.flaps} times"
    flaps = f", held again {times} on the way" if story.flaps else ""
    return f"{now}{flaps}" if story.now.holds else f"broken ({now}){flaps}"


def _step(history: StackHistory, story: PatchHistory, step: Step) -> list[str]:
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
        marks.append("restores an earlier file")
    if tag := history.tags.get(step.commit.id) if step in (story.broke, story.taken, story.since) else "":
        marks.append(f"in {tag}")
    line = f"{step.commit.date[:10]} {step.commit.id[:10]} {_state(step.judgement):10} {step.commit.subject}"
    rows = wrap(line, " " * 6, " " * 33)
    if step.judgement.verdict is Verdict.MISSING:
        rows += wrap(step.judgement.reason, " " * 28)
    if step.judgement.verdict is Verdict.UPSTREAMED:
        rows += wrap(upstreamed(step.judgement), " " * 28)
    for intent in step.judgement.intents:
        rows += wrap(f"intent: {intent}", " " * 28)
    return rows + wrap("; ".join(marks), " " * 28, "")
