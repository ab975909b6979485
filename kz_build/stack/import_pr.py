"""import-pr: an upstream pull request, or some files of it, as patches of a stack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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
from kz_build.stack import session_folder
from kz_build.stack.apply import stack_tip
from kz_build.stack.pinned import PinnedStack, pinned_stack, with_files_fetched
from kz_build.stack.rebase import carry_on, git_source
from kz_build.stack.session import Session
from kz_build.stack.verdict_cache import read_blobs
from kz_build.stack.write_back import WrittenStack

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def import_pr(
    project: Project, line: str, source: str, number: int, paths: Sequence[str] = (), watch: Watch | None = None
) -> WrittenStack | Session:
    """Put the commits of a pull request on top of a stack, one patch each; one that merged upstream into itself is one patch.

    Return the session itself if a killed command had written it.

    Raises ConfigError if there is no such request or the stack has it already, ConflictError like `rebase`.
    """
    name = git_source(project, line, source)
    pinned = pinned_stack(project, line, name, new=True, watch=watch)
    slug = slug_of(pinned.source.location)
    if not slug:
        raise ConfigError(f"{pinned.source.location} is not on GitHub: it has no pull requests")
    there = [p.name for p in pinned.stack.patches if pull_of(p.message, slug) == number]
    before = session_folder.remove_ended(project, "import-pr", line, name)
    if there and before:
        return before
    if there:
        raise ConfigError(
            f"the stack has #{number} already: {', '.join(there)}",
            hint=f"to import it again, drop those first: kz edit {name} --line {line}",
        )
    return with_files_fetched(project, pinned, lambda c: _start(project, c, slug, number, paths))


def _start(project: Project, pinned: PinnedStack, slug: str, number: int, paths: Sequence[str]) -> WrittenStack:
    repo = pinned.repository
    line, name = pinned.stack.line, pinned.stack.source
    if not repo.has(pinned.base):
        raise ObjectsMissing(f"{name} is not fetched yet")
    session_folder.require_no_edit(project, pinned, line, "import-pr")
    head = refs.fetch_pull(repo, number)
    trunk = refs.commit_of(repo, refs.trunk(repo))
    landed = history.landed(repo, trunk, [number]).get(number)
    base = history.fork_point(repo, head, trunk)
    if not base:
        raise ConfigError(f"#{number} has no common history with upstream", hint=history.cut_history(repo))
    patches = [_with_origin(p, slug, number, head, landed) for p in _patches(pinned, base, head, paths, landed)]
    if not patches:
        raise ConfigError(f"#{number} changes nothing" + (f" in {', '.join(paths)}" if paths else ""))
    commits = _commits(pinned, base, patches)
    tip, todo = stack_tip(project, pinned), tuple(commits)
    where = (line, name, line, pinned.version, pinned.base)
    session = Session(
        "import-pr", *where, base, todo[-1], stack_tip=tip, digest=pinned.stack.digest, tip=tip, todo=todo
    )
    return carry_on(project, *session_folder.begin(project, pinned, session))


def _patches(pinned: PinnedStack, base: str, head: str, paths: Sequence[str], landed: Commit | None) -> list[Patch]:
    """Return the request's commits as patches; all of it as one if they are no single line, with the message of the commit
    that it landed as, of its first one, or of the merge if it has no other."""
    repo = pinned.repository
    rows = repo.git("rev-list", "--parents", "--end-of-options", f"{base}..{head}").decode().splitlines()
    specs = [f":(literal){path}" for path in paths]
    if all(len(row.split(" ")) == 2 for row in rows):
        mails = format_patch.format_mails(repo, base, head, specs)
    else:
        words = ("--reverse", "--no-merges", "--topo-order", "--end-of-options", f"{base}..{head}")
        first = next(iter(repo.git("rev-list", *words).decode().split()), head)
        mails = [format_patch.one_mail(repo, base, head, landed.id if landed else first, specs)]
    return [parse_patch(f"{slug}.patch", mail) for slug, mail in mails if b"\ndiff --git " in mail]


def _with_origin(patch: Patch, slug: str, number: int, head: str, landed: Commit | None) -> Patch:
    url = pull_url(slug, number)
    status = f"Backport [https://github.com/{slug}/commit/{landed.id}]" if landed else f"Submitted [{url}]"
    origin = f"https://github.com/{slug}/pull/{number}/commits/{head}"
    added = {"Upstream-Status": status, "Origin": origin, "Upstream-PR": url, "Upstream-Head": head}
    return replace(patch, message=with_trailers(patch.message, added))


def _commits(pinned: PinnedStack, base: str, patches: Sequence[Patch]) -> list[str]:
    """Write the patches as commits on the request's own base, so that a conflict has the right base."""
    repo = pinned.repository
    files: dict[str, Blob | None] = {}
    with repo.objects() as objects:
        at = trees.read_ids(objects, [base], {path for p in patches for path in p.reads})[0]
        contents = read_blobs(repo, objects, {a[1] for a in at.values() if a})
    files = {path: Blob(a[0], contents[a[1]]) if a else None for path, a in at.items()}
    done = []
    for patch in patches:
        outcome = apply_patch(patch, files.get)
        if not isinstance(outcome, Applied):
            raise ConfigError(f"{patch.subject}: it does not apply to the request's own base: {outcome.reason}")
        files.update(outcome.files)
        done.append(outcome)
    ref = f"refs/kz/import-pr/{pinned.stack.line}-{pinned.stack.source}"
    stream = fast_import.commits_stream(base, [outcome.commit for outcome in done], ref)
    return [os.fsdecode(row) for row in repo.fast_import(stream).split()]
