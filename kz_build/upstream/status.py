"""status: what the patches' trailers say about upstream, against upstream's history and its pull requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kz_build.core.errors import KzError, MissingError
from kz_build.core.github_types import Pull, slug_of
from kz_build.git import log as history
from kz_build.git import refs, worktree
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Commit
from kz_build.patch.change import Patch
from kz_build.patch.place import places_text
from kz_build.patch.trailers import made_from, pull_of, trailer
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.stack.blame import named_commit
from kz_build.stack.git_upstream import git_upstream
from kz_build.stack.pinned import PinnedStack, pinned_stacks, with_files_fetched
from kz_build.stack.verdict_cache import judge_states

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

WORDS = ("Pending", "Submitted", "Backport", "Denied", "Inactive-Upstream", "Inappropriate")
"""Yocto's vocabulary: https://docs.yoctoproject.org/contributor-guide/recipe-style-guide.html#patch-upstream-status"""


@dataclass(frozen=True)
class UpstreamStatus:
    """A patch, what its trailers or the line of `git cherry-pick -x` say, what is known about that (`facts`), and where the two differ (`wrong`)."""

    patch: str
    status: str
    pull: int
    facts: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class StackStatus:
    """The patches of one stack against upstream's branch; `trunk` is '' for a source without one, such as a wheel."""

    line: str
    source: str
    trunk: str
    commit: str
    date: str
    claims: tuple[UpstreamStatus, ...]
    notes: tuple[str, ...]


def status(
    project: Project, lines: Sequence[str], *, fetch: bool = False, watch: Watch | None = None
) -> tuple[StackStatus, ...]:
    """Return the status of every stack of these lines, from the clone alone; with `fetch` from upstream and GitHub too."""
    statuses = []
    for line in lines:
        for pinned in pinned_stacks(project, line, watch):
            try:
                upstream = git_upstream(project, pinned)
                notes: tuple[str, ...] = ()
            except MissingError as error:  # of a wheel: its patches are judged without that history
                upstream, notes = None, (f"its upstream was not asked: {error.missing[0].why}",)
            notes = (*notes, *_linked(project, line, pinned.source))
            if upstream:
                of_stack = with_files_fetched(project, upstream, lambda c: _status(project, c, fetch))
                statuses.append(replace(of_stack, notes=(*of_stack.notes, *notes)))
            else:
                claims = tuple(_upstream_status(p, 0, (), ()) for p in pinned.stack.patches)
                statuses.append(StackStatus(line, pinned.source.name, "", "", "", claims, notes))
    return tuple(statuses)


def _linked(project: Project, line: str, source: Source) -> tuple[str, ...]:
    """Say where a source that takes a submodule's place is pinned to another commit than the parent's release links."""
    parent, _, path = str(source.options.get("submodule") or "").partition("/")
    entry = (project.lock.entry(line, parent) if parent else None) or {}
    links = entry.get("submodules", {}).get(path, {}).get("commit")
    commit = (project.lock.entry(line, source.name) or {}).get("commit")
    version = project.pins.line(line).get(parent)
    if not (version and links) or links == commit:
        return ()
    return (f"{parent} {version} links {links[:10]} at {path}; the pin is {str(commit)[:10]}",)


def _status(project: Project, pinned: PinnedStack, fetch: bool) -> StackStatus:
    repo = pinned.repository
    slug = slug_of(pinned.source.location)
    numbers = {p.name: pull_of(p.message, slug) for p in pinned.stack.patches}
    wanted = sorted(set(numbers.values()) - {0})
    answers: dict[int, Pull] = {}
    notes: tuple[str, ...] = ()
    if fetch:
        refs.fetch_names(repo)
        refs.fetch_pulls(repo, wanted)
        answers, notes = _ask_github(project, slug, wanted)
    trunk = refs.trunk(repo)
    tip = refs.commit_of(repo, trunk)
    with repo.objects() as objects:
        _, date = objects.commit(tip) or ("", "")
        rows = judge_states(pinned, project.store, objects, trees.read_ids(objects, [tip], pinned.stack.touched))[0]
    landed = history.landed(repo, tip, wanted)
    heads = refs.pulls(repo) if wanted else {}
    claims = []
    for patch, row in zip(pinned.stack.patches, rows, strict=True):
        n = numbers[patch.name]
        facts = _facts(pinned, patch, n, landed.get(n), heads.get(n, ""), answers.get(n), tip) if n else ()
        claims.append(_upstream_status(patch, n, facts, _contradictions(pinned, patch, n, landed, row, tip)))
    return StackStatus(pinned.stack.line, pinned.stack.source, trunk, tip, date, tuple(claims), notes)


def _ask_github(project: Project, slug: str, numbers: Sequence[int]) -> tuple[dict[int, Pull], tuple[str, ...]]:
    """Ask GitHub about these pull requests; if it does not answer, return the reason, and the rest of the status stands."""
    from kz_build.core import github  # requests costs 160 ms

    answers: dict[int, Pull] = {}
    try:
        for number in numbers if slug else ():
            answers[number] = github.pull(project.store, slug, number)
    except KzError as error:
        return answers, (f"GitHub was not asked whether they are open: {str(error).splitlines()[0]}",)
    return answers, ()


def _upstream_status(patch: Patch, pull: int, facts: tuple[str, ...], wrong: tuple[str, ...]) -> UpstreamStatus:
    origin = next((f"made from upstream's {commit[:10]}" for commit in made_from(patch.message)), "")
    return UpstreamStatus(patch.name, trailer(patch.message, "Upstream-Status") or origin, pull, facts, wrong)


def _facts(
    pinned: PinnedStack, patch: Patch, number: int, landed: Commit | None, head: str, answer: Pull | None, tip: str
) -> tuple[str, ...]:
    """Return what became of a patch's pull request: where it landed, whether it is closed, how it moved since it was taken."""
    rows = []
    if landed:
        tag = history.first_tags(pinned.repository, [landed.id], f"{landed.id}^@")[landed.id]
        rows.append(f"#{number} landed as {landed.shown}" + (f", first in {tag}" if tag else ", in no tag yet"))
    elif answer:
        rows.append(f"#{number} is {answer.state}, last changed {answer.updated[:10]}")
    taken = trailer(patch.message, "Upstream-Head")
    if taken and head and head != taken:
        rows.append(f"#{number} has moved since it was taken: {taken[:10]} -> {head[:10]}")
        bases = [history.fork_point(pinned.repository, h, tip) for h in (taken, head) if pinned.repository.has(h)]
        if len(bases) == 2:
            diff = worktree.range_diff(pinned.repository, (bases[0], taken), (bases[1], head))
            rows += [f"  {row}".rstrip() for row in diff.splitlines()]
    return tuple(rows)


def _contradictions(
    pinned: PinnedStack, patch: Patch, number: int, landed: Mapping[int, Commit], judgement: Judgement, tip: str
) -> tuple[str, ...]:
    """Return where the trailers say one thing and upstream's history another."""
    trunk = refs.trunk(pinned.repository)
    status = trailer(patch.message, "Upstream-Status")
    word = status.split(" ", 1)[0]
    upstreamed = judgement.verdict is Verdict.UPSTREAMED
    rows = []
    if status and word not in WORDS:
        rows.append(f"says {word}; the words are {', '.join(WORDS)}")
    if word == "Submitted" and not number:
        rows.append("says Submitted, and names no `Upstream-PR:`")
    if word == "Backport" and not (upstreamed or number in landed or named_commit(pinned, tip, patch)):
        rows.append(
            f"says Backport, but {trunk} has neither " + (f"#{number} nor " if number else "") + "what it changes"
        )
    if word in ("Pending", "Submitted", "Denied", "Inactive-Upstream") and number in landed:
        rows.append(f"says {word}, but #{number} has landed")
    if upstreamed and word != "Backport":
        rows.append(f"{trunk} has what it changes, at {places_text(judgement.there)}: the next rebase drops it")
    return tuple(rows)
