"""radar: pull requests that would break a stack once they are merged, found before they are."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.core.github_types import Pull, slug_of
from kz_build.core.hash_cache import read_cached, write_cached
from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Commit, State
from kz_build.patch.verdict import Judgement
from kz_build.pins.project import Project
from kz_build.stack.git_upstream import git_stacks
from kz_build.stack.patch_history import PatchHistory
from kz_build.stack.pinned import AbsentRevision, PinnedStack, judge_each, require_stacks
from kz_build.stack.stack_history import judge_history
from kz_build.stack.verdict_cache import judge_states
from kz_build.upstream.merge_cache import MergeCache

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

Ids = tuple[str, ...]
"""Blob ids of the stack's files in one commit, in sorted order of the paths; '' for a missing file."""


@dataclass(frozen=True)
class Threat:
    """A pull request that would leave a patch worse off than it is on the request's own base.

    `title` is GitHub's or, without GitHub, the subject of the commit it landed as or of its head. `landed` is the commit
    that has it upstream. `conflicts`: it no longer merges without conflict, and is judged as it is.
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
class BrokenPatch:
    """A patch that upstream has broken already; `since` is None if it never held on this branch."""

    patch: str
    now: Judgement
    since: Commit | None


@dataclass(frozen=True)
class RefusedPull:
    """A pull request whose tree kz refuses to read, and why."""

    pull: int
    head: str
    problem: str


@dataclass(frozen=True)
class Radar:
    """The threats to one stack. `heads` were looked at, `near` of them change its files. `date` is that of `commit`."""

    line: str
    source: str
    to: str
    commit: str
    date: str
    heads: int
    near: int
    threats: tuple[Threat, ...]
    broken: tuple[BrokenPatch, ...]
    refused: tuple[RefusedPull, ...]


@dataclass(frozen=True)
class PullSelection:
    """The pull requests to look at: these numbers, all open ones, those that moved since a date (YYYY-MM-DD), or all.

    `sources` are those whose stacks are judged, () all.
    """

    pulls: tuple[int, ...] = ()
    open: bool = False
    since: str | None = None
    fetch: bool = False
    sources: tuple[str, ...] = ()


def radar(
    project: Project, line: str, wanted: PullSelection, to: str = "", watch: Watch | None = None
) -> tuple[tuple[Radar, ...], tuple[AbsentRevision, ...]]:
    """Judge pull requests against every stack of a line on a git source; return also the stacks whose upstream lacks them, or `to`.

    '' is upstream's own branch. Raises ConfigError for what no upstream has.
    """
    require_stacks(project, [line], wanted.sources)
    if wanted.since is not None:
        try:
            wanted = replace(wanted, since=datetime.date.fromisoformat(wanted.since).isoformat())
        except ValueError:
            raise ConfigError(f"{wanted.since!r} is not a date", hint="--since YYYY-MM-DD") from None
    stacks = git_stacks(project, line, watch, wanted.sources)
    if not stacks:
        raise ConfigError(f"line {line} has no stack on a git source", hint="pull requests change git sources")
    return judge_each(project, stacks, lambda pinned: _radar(project, pinned, wanted, to))


def _radar(project: Project, pinned: PinnedStack, wanted: PullSelection, to: str) -> Radar:
    if wanted.fetch or wanted.open:  # open requests are merged into what upstream is now
        refs.fetch_names(pinned.repository)
    titles, heads = _heads(project, pinned, wanted)
    walk = judge_history(project, pinned, to)
    tip, histories = walk.commit, walk.patches
    paths = sorted(pinned.stack.touched)
    states, problems = _states(project.store, pinned.repository, sorted(set(heads.values())), paths)
    refused = tuple(RefusedPull(n, head, problems[head]) for n, head in sorted(heads.items()) if head in problems)
    # Of all requests there ever were, those whose files upstream has had count as landed. Of those that somebody
    # names, one may land again what was reverted.
    named = wanted.pulls or wanted.open or wanted.since
    judged = {number: head for number, head in heads.items() if head in states}
    near = judged if named else _near(pinned, tip, judged, states, paths)
    bases = _bases(pinned.repository, tip, near.values(), paths)
    touching = {
        number: head
        for number, head in sorted(near.items())
        if head in bases and states[head] != _ids(bases[head][1], paths)
    }
    threats = _threats(project, pinned, tip, touching, bases, states, histories)
    subjects = refs.subjects(pinned.repository, {t.head for t in threats})
    shown = tuple(
        replace(t, title=titles.get(t.pull) or (t.landed.subject if t.landed else subjects[t.head])) for t in threats
    )
    broken = tuple(
        BrokenPatch(s.patch, s.now, s.since.commit if s.since else None) for s in histories if not s.now.holds
    )
    where = (pinned.stack.line, pinned.stack.source, walk.to, tip, walk.date)
    return Radar(*where, len(heads), len(touching), shown, broken, refused)


def _heads(project: Project, pinned: PinnedStack, wanted: PullSelection) -> tuple[dict[int, str], dict[int, str]]:
    """Return (titles, heads) by number; heads that the clone lacks are fetched."""
    have = refs.pulls(pinned.repository)
    if wanted.open:
        open_pulls = _open(project, pinned)
        refs.fetch_pulls(pinned.repository, [p.number for p in open_pulls if have.get(p.number) != p.head])
        have = refs.pulls(pinned.repository)
        return {p.number: p.title for p in open_pulls}, {
            p.number: have[p.number] for p in open_pulls if p.number in have
        }
    if wanted.pulls:
        unknown = {n for n in wanted.pulls if wanted.fetch or n not in have}
        if gone := refs.fetch_pulls(pinned.repository, unknown):
            raise refs.UnknownRevisionError(f"upstream has no pull request {', '.join(f'#{n}' for n in gone)}")
        have = refs.pulls(pinned.repository)
        return {}, {n: have[n] for n in wanted.pulls}
    if wanted.fetch or not have:
        refs.fetch_pulls(pinned.repository, None)
    return {}, refs.pulls(pinned.repository, wanted.since or "")


def _open(project: Project, pinned: PinnedStack) -> tuple[Pull, ...]:
    from kz_build.core import github  # requests costs 160 ms

    slug = slug_of(pinned.source.location)
    if not slug:
        raise refs.UnknownRevisionError(f"{pinned.source.location} is not on GitHub: --open works only there")
    return github.open_pulls(project.store, slug)


def _states(
    store: Path, repository: git.Repository, heads: Sequence[str], paths: Sequence[str]
) -> tuple[dict[str, Ids], dict[str, str]]:
    """Return the files of every head, and what is wrong with each whose tree is refused.

    Files are cached, because a commit does not change.
    """
    problems: dict[str, str] = {}
    name = hashlib.sha256("\0".join([str(repository.path), *paths]).encode()).hexdigest()[:32]
    file = store / "radar" / f"heads-{name}.json"
    kept = read_cached(file) or {"rows": [], "heads": {}}
    rows = [tuple(row) for row in kept["rows"]]
    known: dict[str, Ids] = {head: rows[i] for head, i in kept["heads"].items()}
    unknown = [head for head in heads if head not in known]
    if unknown:
        files, problems = _read(repository, unknown, paths)
        known.update(files)
        distinct = sorted(set(known.values()))
        at = {row: i for i, row in enumerate(distinct)}
        write_cached(file, {"rows": distinct, "heads": {head: at[row] for head, row in known.items()}})
    return {head: known[head] for head in heads if head in known}, problems


def _read(
    repository: git.Repository, heads: Sequence[str], paths: Sequence[str]
) -> tuple[dict[str, Ids], dict[str, str]]:
    """Read heads in parallel: most of the time is git's unpacking of trees. Return also what is wrong with refused ones."""
    problems: dict[str, str] = {}

    def part(commits: Sequence[str]) -> dict[str, Ids]:
        try:
            with repository.objects() as objects:
                states = trees.read_ids(objects, commits, paths)
        except trees.RefusedTreeError as error:
            if len(commits) == 1:
                problems[commits[0]] = str(error)
                return {}
            middle = len(commits) // 2
            return {**part(commits[:middle]), **part(commits[middle:])}
        return {commit: _ids(state, paths) for commit, state in zip(commits, states, strict=True)}

    workers = os.cpu_count() or 1
    size = max(100, -(-len(heads) // workers))
    parts = [heads[i : i + size] for i in range(0, len(heads), size)]
    with ThreadPoolExecutor(workers) as pool:
        return {commit: ids for ids_by_head in pool.map(part, parts) for commit, ids in ids_by_head.items()}, problems


def _ids(state: State, paths: Sequence[str]) -> Ids:
    return tuple(at[1] if (at := state[path]) else "" for path in paths)


def _bases(
    repository: git.Repository, tip: str, heads: Iterable[str], paths: Sequence[str]
) -> dict[str, tuple[str, State]]:
    """Find where each head parted from upstream, and its files there; a head with no common commit (the docs' branch) is left out."""
    bases = upstream.merge_bases(repository, tip, sorted(set(heads)))
    distinct = sorted(set(bases.values()))
    with repository.objects() as objects:
        states = dict(zip(distinct, trees.read_ids(objects, distinct, paths), strict=True))
    return {head: (base, states[base]) for head, base in bases.items()}


def _near(
    pinned: PinnedStack, tip: str, heads: Mapping[int, str], states: Mapping[str, Ids], paths: Sequence[str]
) -> dict[int, str]:
    """Return the heads with a file that upstream never had, or without one that upstream had when they were opened."""
    had: dict[str, set[str]] = {path: set() for path in paths}
    came: dict[str, int] = {}
    for commit in upstream.log(pinned.repository, "", tip, paths):
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
    pinned: PinnedStack,
    tip: str,
    pulls: Mapping[int, str],
    bases: Mapping[str, tuple[str, State]],
    states: Mapping[str, Ids],
    histories: Sequence[PatchHistory],
) -> list[Threat]:
    """Return what each pull request does to each patch, where that is worse than before."""
    paths = sorted(pinned.stack.touched)
    with pinned.repository.objects() as objects:
        ours = trees.read_ids(objects, [tip], paths)[0]
        requests = [(ours, bases[head][1], dict(zip(paths, states[head], strict=True))) for head in pulls.values()]
        merged = MergeCache(project.store, pinned.repository, objects)
        after = merged.states(requests)
        rows = judge_states(
            pinned, project.store, objects, [*(base for _, base, _ in requests), *(s for s, _ in after)], merged.content
        )
    threats = []
    for i, (number, head) in enumerate(pulls.items()):
        for was, will, history in zip(rows[i], rows[len(pulls) + i], histories, strict=True):
            landed = next((s.commit for s in history.steps if s.commit.pull == number and not s.judgement.holds), None)
            # What upstream's own history lost already is not this request's fault, unless it is the one that did it.
            if will.rank > was.rank and (landed or history.now.rank < will.rank):
                threats.append(Threat(number, "", head, bases[head][0], was.patch, was, will, after[i][1], landed))
    return threats
