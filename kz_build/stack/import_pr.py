"""import-pr: a pull request of upstream's, or some files of it, as patches of a stack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kz_build.core import locks
from kz_build.core.errors import ConfigError
from kz_build.core.github_types import pull_url, slug_of
from kz_build.git import fast_import, format_patch, refs
from kz_build.git import log as history
from kz_build.git import tree_lookup as trees
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.object_types import Blob, Commit
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.change import Patch
from kz_build.patch.mail import parse_patch
from kz_build.patch.trailers import pull_of, with_trailers
from kz_build.pins.project import Project
from kz_build.stack import sessions
from kz_build.stack.apply import apply_source
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.rebase import carry_on, git_source
from kz_build.stack.session import Session
from kz_build.stack.verdict_cache import read_blobs
from kz_build.stack.write_back import Finished

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def import_pr(
    project: Project, line: str, source: str, number: int, paths: Sequence[str] = (), watch: Watch | None = None
) -> Finished:
    """Put the commits of a pull request on top of a stack, each as one patch; one that merged upstream in between is one patch.

    Raises ConfigError where there is no such request or the stack has it, ConflictError like `rebase`.
    """
    name = git_source(project, line, source)
    held = carried(project, line, name, new=True, watch=watch)
    slug = slug_of(held.source.location)
    if not slug:
        raise ConfigError(f"{held.source.location} is not on GitHub: it has no pull requests")
    there = [p.name for p in held.stack.patches if pull_of(p.message, slug) == number]
    if there:
        raise ConfigError(
            f"the stack has #{number} already: {', '.join(there)}",
            hint=f"to take it anew, drop those first: kz edit {name} --line {line}",
        )
    return reading(project, held, lambda c: _begun(project, c, slug, number, paths))


def _begun(project: Project, held: Carried, slug: str, number: int, paths: Sequence[str]) -> Finished:
    repo = held.repository
    line, name = held.stack.line, held.stack.source
    if not repo.has(held.base):
        raise ObjectsMissing(f"{name} is not fetched yet")
    head = refs.fetch_pull(repo, number)
    trunk = refs.commit_of(repo, refs.trunk(repo))
    landed = history.landed(repo, trunk, [number]).get(number)
    base = history.forked(repo, head, trunk)
    if not base:
        raise ConfigError(f"#{number} has no common history with upstream")
    patches = [_noted(p, slug, number, head, landed) for p in _patches(held, base, head, paths, landed)]
    if not patches:
        raise ConfigError(f"#{number} changes nothing" + (f" in {', '.join(paths)}" if paths else ""))
    commits = _commits(project, held, base, patches)
    tip = apply_source(project, line, name, held.repository.watch)[0].commit if held.stack.patches else held.base
    session = Session(
        "import-pr",
        line,
        name,
        line,
        held.version,
        held.base,
        old_base=base,
        old_tip=commits[-1],
        stack_tip=tip,
        digest=held.stack.digest,
        tip=tip,
        todo=tuple(commits),
    )
    return carry_on(project, held, sessions.begin(project, session, held.repository))


def _patches(held: Carried, base: str, head: str, paths: Sequence[str], landed: Commit | None) -> list[Patch]:
    """The request's commits as patches; all of it as one where they are no single line, with the message that it landed with,
    or that of its first commit."""
    repo = held.repository
    rows = repo.git("rev-list", "--parents", "--end-of-options", f"{base}..{head}").decode().splitlines()
    specs = [f":(literal){path}" for path in paths]
    if all(len(row.split(" ")) == 2 for row in rows):
        made = format_patch.format_mails(repo, base, head, specs)
    else:
        words = ("--reverse", "--no-merges", "--topo-order", "--end-of-options", f"{base}..{head}")
        first = repo.git("rev-list", *words).decode().split()[0]
        made = [format_patch.one_mail(repo, base, head, landed.id if landed else first, specs)]
    return [parse_patch(f"{slug}.patch", mail) for slug, mail in made if b"\ndiff --git " in mail]


def _noted(patch: Patch, slug: str, number: int, head: str, landed: Commit | None) -> Patch:
    url = pull_url(slug, number)
    status = f"Backport [https://github.com/{slug}/commit/{landed.id}]" if landed else f"Submitted [{url}]"
    origin = f"https://github.com/{slug}/pull/{number}/commits/{head}"
    added = {"Upstream-Status": status, "Origin": origin, "Upstream-PR": url, "Upstream-Head": head}
    return replace(patch, message=with_trailers(patch.message, added))


def _commits(project: Project, held: Carried, base: str, patches: Sequence[Patch]) -> list[str]:
    """The patches as commits on the request's own base, so that a conflict knows what they stood on."""
    repo = held.repository
    files: dict[str, Blob | None] = {}
    with repo.objects() as objects:
        at = trees.read_ids(objects, [base], {path for p in patches for path in p.reads})[0]
        contents = read_blobs(repo, objects, {a[1] for a in at.values() if a})
    files = {path: Blob(a[0], contents[a[1]]) if a else None for path, a in at.items()}
    done = []
    for patch in patches:
        outcome = apply_patch(patch, files.get)
        assert isinstance(outcome, Applied), f"{patch.subject}: {outcome.reason}"
        files.update(outcome.files)
        done.append(outcome)
    ref = f"refs/kz/import-pr/{held.stack.line}-{held.stack.source}"
    with locks.locked(project.store, repo.path.name):
        stream = fast_import.commits_stream(base, [outcome.commit for outcome in done], ref)
        return [os.fsdecode(row) for row in repo.fast_import(stream).split()]
