"""verify: every patch against every target, all of them even after a failure. Nothing is checked out."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git.cat_file import Objects, ObjectsMissing
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.verdict_cache import Row, judged_at

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


class Target(NamedTuple):
    """A version to try the stack on. `name` as it was asked for; `date` is the commit's, '' for what has none of its own."""

    name: str
    commit: str
    date: str


class Verified(NamedTuple):
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
    tags: str | None = None,
    *,
    fetch: bool = False,
    watch: Watch | None = None,
) -> tuple[Verified, ...]:
    """Judge the stacks of these lines on each revision of `onto` and each tag that matches `tags`; without any, on their own pins.

    Revisions are upstream's of git sources: stacks on wheels are judged on their own pin, and left out where only
    revisions are asked for. Raises ConfigError for a name that upstream does not have, or where nothing is left to judge.
    """
    found: list[Verified] = []
    for line in lines:
        project.pins.line(line)
        for name in stack_sources(project, line):
            held = carried(project, line, name, watch=watch)
            if held.source.kind != "git" and (onto or tags is not None):
                continue
            if fetch and held.source.kind == "git" and held.repository.exists():
                refs.fetch_names(held.repository)
            found.append(reading(project, held, lambda c: verified(project, c, onto, tags)))
    if not found and (onto or tags is not None):
        raise ConfigError("no stack on a git source: nothing to verify on other revisions")
    return tuple(found)


def verified(project: Project, held: Carried, onto: Sequence[str], tags: str | None = None) -> Verified:
    """Judge one stack on each tag that matches and each revision of `onto`; without any, on its pin."""
    pinned = not onto and tags is None
    names = [held.version] if pinned else [*(() if tags is None else _tags(held.repository, tags)), *onto]
    names = list(dict.fromkeys(names))
    with held.repository.objects() as objects:
        targets = _targets(held, objects, names, pinned=pinned)
        if None not in targets:
            return _judge(project, held, objects, [t for t in targets if t])

    for name, target in zip(names, targets, strict=True):
        if target is None:
            refs.known_or_fetched(held.repository, name)
    with held.repository.objects() as objects:
        found = [t for t in _targets(held, objects, names, pinned=False) if t]
        return _judge(project, held, objects, found)


def _tags(repository: git.Repository, pattern: str) -> list[str]:
    """Tags that match, in git's order of versions; upstream is asked where the clone has none."""

    for known in (True, False):
        if not known:
            refs.fetch_names(repository)
        names = [ref.removeprefix("refs/tags/") for ref in refs.refs(repository, "refs/tags")]
        if found := [name for name in names if fnmatch.fnmatchcase(name, pattern)]:
            return found
    hint = f"its newest: {', '.join(names[-3:])}" if names else "it has no tags"
    raise ConfigError(f"no tag of upstream matches {pattern!r}", hint=hint)


def _targets(held: Carried, objects: Objects, names: Sequence[str], *, pinned: bool) -> list[Target | None]:
    if pinned:
        own = objects.commit(held.base)
        if own is None:
            raise ObjectsMissing(f"the commit {held.base} is not in the partial clone")
        return [Target(held.version, own[0], own[1] if held.source.kind == "git" else "")]
    return [Target(name, *at) if at else None for name, at in zip(names, objects.commits(names), strict=True)]


def _judge(project: Project, held: Carried, objects: Objects, targets: Sequence[Target]) -> Verified:
    def told(commit: str, row: Row) -> Row:
        if not any(j.verdict is Verdict.MISSING for j in row):
            return row
        from kz_build.stack.renames import followed

        return tuple(followed(held, commit, j) for j in row)

    rows = judged_at(held, project.store, objects, [target.commit for target in targets], told)
    files = held.files
    return Verified(files.line, files.source, files.folder, files.patches, tuple(targets), tuple(rows))
