"""radar: pull requests that would hurt a stack once they are merged, before they are."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.core.files import write_atomic
from kz_build.core.github_types import Pull, slug_of
from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Commit, State
from kz_build.patch.verdict import Judgement
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import Story
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.verdict_cache import judged
from kz_build.stack.walk import walked
from kz_build.upstream.merge_cache import Merges

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

Ids = tuple[str, ...]
"""Blob ids of the stack's files in one commit, in sorted order of the paths; '' for a file that is not there."""


@dataclass(frozen=True)
class Threat:
    """A pull request after which a patch would be worse off than on the request's own base.

    `title` is GitHub's, or where nobody asked GitHub the subject of what landed or of its head. `landed` is the commit by which it already
    came into upstream. `conflicts`: it no longer merges by itself, and is judged as it stands.
    """

    pull: int
    title: str
    head: str
    base: str
    patch: str
    before: Judgement
    after: Judgement
    conflicts: bool
    landed: Commit | None


@dataclass(frozen=True)
class Broken:
    """A patch that upstream has broken already; `since` None where it never held on this branch."""

    patch: str
    now: Judgement
    since: Commit | None


@dataclass(frozen=True)
class Radar:
    """What is coming for one stack. `heads` were looked at, `near` of them change its files. `date` is that of `commit`."""

    line: str
    source: str
    to: str
    commit: str
    date: str
    heads: int
    near: int
    threats: tuple[Threat, ...]
    broken: tuple[Broken, ...]


@dataclass(frozen=True)
class Wanted:
    """Which pull requests to look at: these numbers, all open ones, those that moved since a date (YYYY-MM-DD), or all."""

    pulls: tuple[int, ...] = ()
    open: bool = False
    since: str | None = None
    fetch: bool = False


def radar(
    project: Project, line: str, wanted: Wanted, to: str = "main", watch: Watch | None = None
) -> tuple[Radar, ...]:
    """Judge pull requests against every stack of a line on a git source. Raises ConfigError for one that there is not."""
    project.pins.line(line)
    if wanted.since is not None:
        try:
            wanted = replace(wanted, since=datetime.date.fromisoformat(wanted.since).isoformat())
        except ValueError:
            raise ConfigError(f"{wanted.since!r} is not a date", hint="--since YYYY-MM-DD") from None
    found = []
    for name in stack_sources(project, line):
        held = carried(project, line, name, watch=watch)
        if held.source.kind == "git":
            found.append(reading(project, held, lambda c: _radar(project, c, wanted, to)))
    if not found:
        raise ConfigError(f"line {line} has no stack on a git source", hint="pull requests change git sources")
    return tuple(found)


def _radar(project: Project, held: Carried, wanted: Wanted, to: str) -> Radar:
    if wanted.fetch or wanted.open:  # what is open now is merged into what upstream is now
        refs.fetch_names(held.repository)
    titles, heads = _heads(project, held, wanted)
    found = walked(project, held, to)
    tip, told = found.commit, found.stories
    paths = sorted(held.stack.touched)
    states = _states(project.store, held.repository, sorted(set(heads.values())), paths)
    # Among all that there ever were, those whose files upstream has had are taken as landed. Of those that somebody
    # names, one may land again what was taken back.
    named = wanted.pulls or wanted.open or wanted.since
    near = dict(heads) if named else _near(held, tip, heads, states, paths)
    bases = _bases(held.repository, tip, near.values(), paths)
    changing = {
        number: head
        for number, head in sorted(near.items())
        if head in bases and states[head] != _ids(bases[head][1], paths)
    }
    threats = _threats(project, held, tip, changing, bases, states, told)
    subjects = refs.subjects(held.repository, {t.head for t in threats})
    shown = tuple(
        replace(t, title=titles.get(t.pull) or (t.landed.subject if t.landed else subjects[t.head])) for t in threats
    )
    broken = tuple(Broken(s.patch, s.now, s.since.commit if s.since else None) for s in told if not s.now.holds)
    return Radar(held.stack.line, held.stack.source, to, tip, found.date, len(heads), len(changing), shown, broken)


def _heads(project: Project, held: Carried, wanted: Wanted) -> tuple[dict[int, str], dict[int, str]]:
    """(titles, heads) by number; heads that the clone has not are fetched."""
    have = refs.pulls(held.repository)
    if wanted.open:
        asked = _open(project, held)
        refs.fetch_pulls(held.repository, [p.number for p in asked if have.get(p.number) != p.head])
        have = refs.pulls(held.repository)
        return {p.number: p.title for p in asked}, {p.number: have[p.number] for p in asked if p.number in have}
    if wanted.pulls:
        asking = {n for n in wanted.pulls if wanted.fetch or n not in have}
        if gone := refs.fetch_pulls(held.repository, asking):
            raise ConfigError(f"upstream has no pull request {', '.join(f'#{n}' for n in gone)}")
        have = refs.pulls(held.repository)
        return {}, {n: have[n] for n in wanted.pulls}
    if wanted.fetch or not have:
        refs.fetch_pulls(held.repository, None)
    return {}, refs.pulls(held.repository, wanted.since or "")


def _open(project: Project, held: Carried) -> tuple[Pull, ...]:
    from kz_build.core import github  # requests costs 160 ms

    slug = slug_of(held.source.location)
    if not slug:
        raise ConfigError(f"{held.source.location} is not on GitHub: --open has nobody to ask")
    return github.open_pulls(project.store, slug)


def _states(store: Path, repository: git.Repository, heads: Sequence[str], paths: Sequence[str]) -> dict[str, Ids]:
    """The files of every head; what was read once is remembered, for a commit does not change."""
    name = hashlib.sha256("\0".join([str(repository.path), *paths]).encode()).hexdigest()[:32]
    file = store / "radar" / f"heads-{name}.json"
    try:
        kept = json.loads(file.read_bytes())
        rows = [tuple(row) for row in kept["rows"]]
        known: dict[str, Ids] = {head: rows[i] for head, i in kept["heads"].items()}
    except (FileNotFoundError, ValueError):
        known = {}
    unknown = [head for head in heads if head not in known]
    if unknown:
        known.update(_read(repository, unknown, paths))
        distinct = sorted(set(known.values()))
        at = {row: i for i, row in enumerate(distinct)}
        plain = {"rows": distinct, "heads": {head: at[row] for head, row in known.items()}}
        write_atomic(file, json.dumps(plain, separators=(",", ":")).encode())
    return {head: known[head] for head in heads}


def _read(repository: git.Repository, heads: Sequence[str], paths: Sequence[str]) -> dict[str, Ids]:
    """Most of the time goes into git's unpacking of trees, so several of them work side by side."""

    def part(commits: Sequence[str]) -> dict[str, Ids]:
        with repository.objects() as objects:
            states = trees.read_ids(objects, commits, paths)
        return {commit: _ids(state, paths) for commit, state in zip(commits, states, strict=True)}

    workers = os.cpu_count() or 1
    size = max(100, -(-len(heads) // workers))
    parts = [heads[i : i + size] for i in range(0, len(heads), size)]
    with ThreadPoolExecutor(workers) as pool:
        return {commit: ids for found in pool.map(part, parts) for commit, ids in found.items()}


def _ids(state: State, paths: Sequence[str]) -> Ids:
    return tuple(at[1] if (at := state[path]) else "" for path in paths)


def _bases(
    repository: git.Repository, tip: str, heads: Iterable[str], paths: Sequence[str]
) -> dict[str, tuple[str, State]]:
    """Where each head parted from upstream, and its files there; a head that shares nothing (the docs' branch) is left out."""
    bases = upstream.merge_bases(repository, tip, sorted(set(heads)))
    distinct = sorted(set(bases.values()))
    with repository.objects() as objects:
        states = dict(zip(distinct, trees.read_ids(objects, distinct, paths), strict=True))
    return {head: (base, states[base]) for head, base in bases.items()}


def _near(
    held: Carried, tip: str, heads: Mapping[int, str], states: Mapping[str, Ids], paths: Sequence[str]
) -> dict[int, str]:
    """Heads with a file that upstream never had, or without one that upstream already had when they were opened."""
    had: dict[str, set[str]] = {path: set() for path in paths}
    came: dict[str, int] = {}
    for commit in upstream.log(held.repository, "", tip, paths):
        for path, _, before, after in commit.changes:
            had[path].add(after)
            if not before.strip("0"):
                came.setdefault(path, commit.pull)

    def near(number: int, ids: Ids) -> bool:
        return any(
            oid not in had[path] if oid else path in came and number > came[path]
            for path, oid in zip(paths, ids, strict=True)
        )

    return {number: head for number, head in heads.items() if near(number, states[head])}


def _threats(
    project: Project,
    held: Carried,
    tip: str,
    pulls: Mapping[int, str],
    bases: Mapping[str, tuple[str, State]],
    states: Mapping[str, Ids],
    told: Sequence[Story],
) -> list[Threat]:
    """What each pull request does to each patch, where that is worse than before."""
    paths = sorted(held.stack.touched)
    with held.repository.objects() as objects:
        ours = trees.read_ids(objects, [tip], paths)[0]
        asked = [(ours, bases[head][1], dict(zip(paths, states[head], strict=True))) for head in pulls.values()]
        merged = Merges(project.store, held.repository, objects)
        after = merged.states(asked)
        rows = judged(
            held, project.store, objects, [*(base for _, base, _ in asked), *(s for s, _ in after)], merged.content
        )
    found = []
    for i, (number, head) in enumerate(pulls.items()):
        for was, will, story in zip(rows[i], rows[len(pulls) + i], told, strict=True):
            landed = next((s.commit for s in story.steps if s.commit.pull == number and not s.judgement.holds), None)
            # What upstream's own history has lost already is not this request's doing, unless it is the one that did it.
            if will.rank > was.rank and (landed or story.now.rank < will.rank):
                found.append(Threat(number, "", head, bases[head][0], was.patch, was, will, after[i][1], landed))
    return found
