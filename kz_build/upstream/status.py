"""status: what the patches say of upstream, against what upstream's history and its pull requests show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.core.errors import KzError
from kz_build.core.github_types import Pull, slug_of
from kz_build.git import log as history
from kz_build.git import refs, worktree
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Commit
from kz_build.patch.change import Patch
from kz_build.patch.place import places_text
from kz_build.patch.trailers import pull_of, trailer
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.verdict_cache import judged

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

WORDS = ("Pending", "Submitted", "Backport", "Denied", "Inactive-Upstream", "Inappropriate")
"""Yocto's vocabulary: https://docs.yoctoproject.org/contributor-guide/recipe-style-guide.html#patch-upstream-status"""


@dataclass(frozen=True)
class Claim:
    """A patch, what its trailers say, what is known of that (`facts`), and where the two differ (`wrong`)."""

    patch: str
    status: str
    pull: int
    facts: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """The patches of one stack against upstream's branch; `trunk` is '' for a source that has none, like a wheel."""

    line: str
    source: str
    trunk: str
    commit: str
    date: str
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]


def status(
    project: Project, lines: Sequence[str], *, fetch: bool = False, watch: Watch | None = None
) -> tuple[Status, ...]:
    """The claims of every stack of these lines. Asks nobody but the clone, with `fetch` upstream and GitHub too."""
    found = []
    for line in lines:
        project.pins.line(line)
        for name in stack_sources(project, line):
            held = carried(project, line, name, watch=watch)
            if held.source.kind == "git":
                found.append(reading(project, held, lambda c: _status(project, c, fetch)))
            else:
                claims = tuple(_claim(p, 0, (), ()) for p in held.stack.patches)
                found.append(Status(line, name, "", "", "", claims, ()))
    return tuple(found)


def _status(project: Project, held: Carried, fetch: bool) -> Status:
    repo = held.repository
    slug = slug_of(held.source.location)
    numbers = {p.name: pull_of(p.message, slug) for p in held.stack.patches}
    wanted = sorted(set(numbers.values()) - {0})
    asked: dict[int, Pull] = {}
    notes: tuple[str, ...] = ()
    if fetch:
        refs.fetch_names(repo)
        refs.fetch_pulls(repo, wanted)
        asked, notes = _asked(project, slug, wanted)
    trunk = refs.trunk(repo)
    tip = refs.commit_of(repo, trunk)
    with repo.objects() as objects:
        _, date = objects.commit(tip) or ("", "")
        rows = judged(held, project.store, objects, trees.read_ids(objects, [tip], held.stack.touched))[0]
    landed = history.landed(repo, tip, wanted)
    heads = refs.pulls(repo) if wanted else {}
    claims = []
    for patch, row in zip(held.stack.patches, rows, strict=True):
        n = numbers[patch.name]
        facts = _facts(held, patch, n, landed.get(n), heads.get(n, ""), asked.get(n), tip) if n else ()
        claims.append(_claim(patch, n, facts, _wrong(patch, n, landed, row, trunk)))
    return Status(held.stack.line, held.stack.source, trunk, tip, date, tuple(claims), notes)


def _asked(project: Project, slug: str, numbers: Sequence[int]) -> tuple[dict[int, Pull], tuple[str, ...]]:
    """What GitHub says of these pull requests; where it cannot be asked, why, for that is no reason to say nothing."""
    from kz_build.core import github  # requests costs 160 ms

    found: dict[int, Pull] = {}
    try:
        for number in numbers if slug else ():
            found[number] = github.pull(project.store, slug, number)
    except KzError as error:
        return found, (f"GitHub was not asked whether they are open: {str(error).splitlines()[0]}",)
    return found, ()


def _claim(patch: Patch, pull: int, facts: tuple[str, ...], wrong: tuple[str, ...]) -> Claim:
    return Claim(patch.name, trailer(patch.message, "Upstream-Status"), pull, facts, wrong)


def _facts(
    held: Carried, patch: Patch, number: int, landed: Commit | None, head: str, asked: Pull | None, tip: str
) -> tuple[str, ...]:
    """What became of a patch's pull request: where it landed, whether it is closed, how it moved since it was taken."""
    rows = []
    if landed:
        tag = history.first_tags(held.repository, [landed.id], f"{landed.id}^@")[landed.id]
        rows.append(f"#{number} landed as {landed.shown}" + (f", first in {tag}" if tag else ", in no tag yet"))
    elif asked:
        rows.append(f"#{number} is {asked.state}, last changed {asked.updated[:10]}")
    taken = trailer(patch.message, "Upstream-Head")
    if taken and head and head != taken:
        rows.append(f"#{number} has moved since it was taken: {taken[:10]} -> {head[:10]}")
        bases = [history.forked(held.repository, h, tip) for h in (taken, head) if held.repository.has(h)]
        if len(bases) == 2:
            said = worktree.range_diff(held.repository, (bases[0], taken), (bases[1], head))
            rows += [f"  {row}".rstrip() for row in said.splitlines()]
    return tuple(rows)


def _wrong(
    patch: Patch, number: int, landed: Mapping[int, Commit], judgement: Judgement, trunk: str
) -> tuple[str, ...]:
    """Where the trailers say one thing and upstream's history another."""
    said = trailer(patch.message, "Upstream-Status")
    word = said.split(" ", 1)[0]
    there = judgement.verdict is Verdict.UPSTREAMED
    rows = []
    if not said:
        rows.append("says nothing of upstream: a trailer `Upstream-Status:` is missing")
    elif word not in WORDS:
        rows.append(f"says {word}; the words are {', '.join(WORDS)}")
    if word == "Submitted" and not number:
        rows.append("says Submitted, and names no `Upstream-PR:`")
    if word == "Backport" and not there and number not in landed:
        rows.append(
            f"says Backport, but {trunk} has neither " + (f"#{number} nor " if number else "") + "what it changes"
        )
    if word in ("Pending", "Submitted", "Denied", "Inactive-Upstream") and number in landed:
        rows.append(f"says {word}, but #{number} has landed")
    if there and word != "Backport":
        rows.append(f"{trunk} has what it changes, at {places_text(judgement.there)}: the next rebase drops it")
    return tuple(rows)
