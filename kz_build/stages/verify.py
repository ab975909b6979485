"""verify: every patch against every target, all of them even after a failure. Nothing is checked out."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kz_build.adapters import git, history
from kz_build.adapters.project import stack_sources
from kz_build.model.errors import ConfigError
from kz_build.model.patch import Patch
from kz_build.model.project import Project
from kz_build.model.stack import Applied, Blob, apply_patch
from kz_build.model.verdict import Judgement, Verdict
from kz_build.stages.carried import Carried, carried, reading
from kz_build.stages.judging import judged, read_blobs


@dataclass(frozen=True)
class Target:
    """A version to try the stack on. `name` as it was asked for; `date` is the commit's, '' for what has none of its own."""

    name: str
    commit: str
    date: str


@dataclass(frozen=True)
class Verified:
    """One stack against its targets: `rows[i][k]` is patch k on target i."""

    line: str
    source: str
    folder: str
    patches: tuple[str, ...]
    targets: tuple[Target, ...]
    rows: tuple[tuple[Judgement, ...], ...]

    @property
    def holds(self) -> bool:
        """Whether every patch holds on every target."""
        return all(j.holds for row in self.rows for j in row)


def verify(
    project: Project,
    lines: Sequence[str],
    onto: Sequence[str] = (),
    tags: str = "",
    *,
    fetch: bool = False,
    progress: Any = None,
) -> tuple[Verified, ...]:
    """Judge the stacks of these lines on each revision of `onto` and each tag that matches `tags`; without any, on their own pins.

    Revisions are upstream's of git sources: stacks on wheels are judged on their own pin, and left out where only
    revisions are asked for. Raises ConfigError for a name that upstream does not have, or where nothing is left to judge.
    """
    found: list[Verified] = []
    for line in lines:
        project.pins.line(line)
        for name in stack_sources(project.root, line):
            held = carried(project, line, name)
            if held.source.kind != "git" and (onto or tags):
                continue
            if fetch and held.source.kind == "git" and held.repository.exists():
                history.fetch_names(held.repository)
            found.append(reading(project, held, progress, lambda c: _verify(project, c, onto, tags)))
    if not found and (onto or tags):
        raise ConfigError("no stack on a git source: nothing to verify on other revisions")
    return tuple(found)


def _verify(project: Project, held: Carried, onto: Sequence[str], tags: str) -> Verified:
    names = [*(onto or ([] if tags else [held.version])), *(_tags(held.repository, tags) if tags else ())]
    with held.repository.objects() as objects:
        targets = _targets(held, objects, names, pinned=not (onto or tags))
        if None not in targets:
            return _judge(project, held, objects, [t for t in targets if t])
    for name, target in zip(names, targets, strict=True):
        if target is None:
            history.known_or_fetched(held.repository, name)
    with held.repository.objects() as objects:
        found = [t for t in _targets(held, objects, names, pinned=False) if t]
        return _judge(project, held, objects, found)


def _tags(repository: git.Repository, pattern: str) -> list[str]:
    """Tags that match, in git's order of versions; upstream is asked where the clone has none."""
    for known in (True, False):
        if not known:
            history.fetch_names(repository)
        names = [ref.removeprefix("refs/tags/") for ref in history.refs(repository, "refs/tags")]
        if found := [name for name in names if fnmatch.fnmatchcase(name, pattern)]:
            return found
    raise ConfigError(f"no tag of upstream matches {pattern!r}", hint=f"its newest: {', '.join(names[-3:])}")


def _targets(held: Carried, objects: git.Objects, names: Sequence[str], *, pinned: bool) -> list[Target | None]:
    if pinned:
        own = objects.commit(held.base)
        if own is None:
            raise git.ObjectsMissing(f"the commit {held.base} is not in the partial clone")
        return [Target(held.version, own[0], own[1] if held.source.kind == "git" else "")]
    found = [(name, objects.commit(name)) for name in names]
    return [Target(name, *at) if at else None for name, at in found]


def _judge(project: Project, held: Carried, objects: git.Objects, targets: Sequence[Target]) -> Verified:
    states = git.read_ids(objects, [target.commit for target in targets], held.stack.touched)
    rows = [
        tuple(_followed(held, target, j) if j.verdict is Verdict.MISSING else j for j in row)
        for target, row in zip(targets, judged(held, project.store, objects, states), strict=True)
    ]
    names = tuple(p.name for p in held.stack.patches)
    return Verified(held.stack.line, held.stack.source, held.stack.folder, names, tuple(targets), tuple(rows))


def _followed(held: Carried, target: Target, judgement: Judgement) -> Judgement:
    """Say where a missing file went, and whether the patch would fit there."""
    went = history.renamed(held.repository, held.base, target.commit, judgement.path)
    if went is None:
        return judgement
    commit, path = went
    if not path:
        return replace(judgement, reason=f"removed by {commit.shown}")
    with held.repository.objects() as objects:
        there = git.read_ids(objects, [target.commit], [path])[0][path]
        blob = Blob(there[0], read_blobs(held.repository, objects, [there[1]])[there[1]]) if there else None
    patch = next(p for p in held.stack.patches if p.name == judgement.patch)
    fits = (
        "fits"
        if isinstance(apply_patch(_moved(patch, judgement.path, path), {path: blob}.get), Applied)
        else "does not fit"
    )
    return replace(judgement, reason=f"renamed to {path} by {commit.shown}; the patch {fits} there")


def _moved(patch: Patch, old: str, new: str) -> Patch:
    there = [f for f in patch.files if f.origin == old]
    return replace(patch, files=tuple(replace(f, source=new) if f.source else replace(f, path=new) for f in there))
