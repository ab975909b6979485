"""Stacks on every release and over upstream's branch, as far as the store knows: nothing is fetched or judged here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kz_build.core.errors import KzError
from kz_build.git import refs
from kz_build.patch.text import cell, explanation
from kz_build.patch.trailers import trailer
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.pins.project import Project
from kz_build.report.facts import Cell, Change, PatchFacts, Span, StackFacts
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import PatchHistory, Step
from kz_build.stack.pinned import PinnedStack, pinned_stack
from kz_build.stack.stack_history import StackHistory, known_history
from kz_build.stack.verdict_cache import known_commits
from kz_build.upstream.verify import Version

_STATES = {
    Verdict.CLEAN: "applies",
    Verdict.OFFSET: "moved",
    Verdict.UPSTREAMED: "upstreamed",
    Verdict.MERGED: "merged",
}


Applied = Mapping[tuple[str, str], Mapping[str, str]]
"""(source, base commit) -> patch -> the word of its verdict: what builds recorded of the stacks that they applied."""


def stack_facts(project: Project, line: str, applied: Applied) -> list[StackFacts]:
    """Return what the store knows of every stack of a line."""
    return [_stack(project, line, name, applied) for name in stack_sources(project, line)]


def _stack(project: Project, line: str, name: str, applied: Applied) -> StackFacts:
    pin = project.pins.line(line)[name]
    try:
        pinned = pinned_stack(project, line, name)
    except KzError as error:
        return StackFacts(line, name, pin, (), (), lacks=(f"{error}; {error.hint}",))
    if not pinned.base or not pinned.repository.exists():
        patches = tuple(_patch(pinned, k, (), ()) for k in range(len(pinned.files.patches)))
        return StackFacts(line, name, pin, (), patches, lacks=("the store has no clone of it: kz health",))
    return _judged(project, pinned, applied.get((name, pinned.base), {}))


def _judged(project: Project, pinned: PinnedStack, applied: Mapping[str, str]) -> StackFacts:
    git = pinned.source.kind == "git"
    trunk = refs.known_trunk(pinned.repository) if git else ""
    names = (*refs.releases(pinned.repository), trunk) if trunk else ()
    with pinned.repository.objects() as objects:
        versions = [Version(name, *at) for name, at in zip(names, objects.commits(names), strict=True) if at]
        # The pin, unless it is a release by that name; upstream's branch may have it, and have moved on.
        if (pinned.version, pinned.base) not in ((version.name, version.commit) for version in versions):
            versions[:0] = [Version(pinned.version, *at) for at in objects.commits([pinned.base]) if at]
    if not git:
        versions = [Version(pinned.version, version.commit, "") for version in versions]
    judged = known_commits(pinned, project.store, [version.commit for version in versions])
    history = known_history(project, pinned) if trunk else None
    breaks = _breaks(history) if history else {}
    order = [version.name for version in versions]
    patches = []
    for k, name in enumerate(pinned.files.patches):
        behind = [_behind(breaks.get(name, ()), order, i) for i in range(len(order))]
        cells = [
            cell_of(row[k], change) if row else _applied(applied.get(name, "") if version.commit == pinned.base else "")
            for row, change, version in zip(judged, behind, versions, strict=True)
        ]
        patches.append(_patch(pinned, k, cells, _spans(pinned, history, k)))
    lacks = []
    if missing := sum(row is None for row in judged):
        lacks.append(f"{missing} of {len(judged)} versions were not judged yet: kz health")
    if git and history is None:
        lacks.append(f"its way over upstream's branch is not known: kz history --line {pinned.files.line}")
    tip = next((version for version in versions if version.name == trunk), None)
    return StackFacts(
        pinned.files.line, pinned.files.source, pinned.version, tuple(versions), tuple(patches), tip,
        history.commits if history else 0, tuple(lacks),
    )  # fmt: skip


def _patch(pinned: PinnedStack, number: int, cells: Sequence[Cell], spans: Sequence[Span]) -> PatchFacts:
    patch = pinned.stack.patches[number]
    status = trailer(patch.message, "Upstream-Status")
    if resolved := trailer(patch.message, "Resolved-By"):  # no person looked at it
        status = f"{status}; conflict resolved unasked by {resolved}".lstrip("; ")
    text = pinned.files.files[patch.name].decode("utf-8", "replace")
    return PatchFacts(patch.name, patch.subject, status, tuple(cells), tuple(spans), patch.slug, text)


def _applied(word: str) -> Cell:
    """Return the verdict of a build, which stops unless all patches apply; '' is none."""
    return Cell("applies" if word == "clean" else "moved", word) if word else Cell("unknown")


def cell_of(judgement: Judgement, change: Change | None = None) -> Cell:
    """Return a judgement with its state, its word and its reasons."""
    state = _STATES.get(judgement.verdict, "broken") if not judgement.intents else "broken"
    behind = change if not judgement.holds else None
    return Cell(state, cell(judgement), tuple(explanation(judgement)), behind)


def _change(history: StackHistory, step: Step) -> Change:
    commit = step.commit
    return Change(commit.id, commit.date[:10], commit.subject, history.tags.get(commit.id, ""))


def _breaks(history: StackHistory) -> Mapping[str, tuple[Change, ...]]:
    """Return patch -> the commits that broke it, oldest first."""
    return {
        one.patch: tuple(_change(history, step) for step in one.steps if not step.judgement.holds)
        for one in history.patches
    }


def _behind(breaks: Sequence[Change], order: Sequence[str], version: int) -> Change | None:
    """Return the last of these commits that a version has, by the first release with it; the last version is upstream's branch."""
    if version == len(order) - 1:
        return breaks[-1] if breaks else None
    known = [change for change in breaks if change.tag in order and order.index(change.tag) <= version]
    return known[-1] if known else None


def _spans(pinned: PinnedStack, history: StackHistory | None, number: int) -> list[Span]:
    if history is None:
        return []
    one: PatchHistory = history.patches[number]
    with pinned.repository.objects() as objects:
        start = (objects.commit(history.parted) or ("", ""))[1]
    spans = []
    at, judgement, since = start, one.start, None
    for step in one.steps:
        date = step.commit.date[:10]
        spans.append(Span(at, date, cell_of(judgement, since), since))
        at, judgement, since = date, step.judgement, _change(history, step)
    return [*spans, Span(at, history.date, cell_of(judgement, since), since)]
