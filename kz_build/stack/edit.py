"""edit and refresh: a stack as ordinary commits in a worktree, and those commits as the stack's files again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError, ConflictError
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.worktree import Worktree
from kz_build.pins.project import Project
from kz_build.stack import sessions
from kz_build.stack.apply import apply_source
from kz_build.stack.pinned import Carried, carried, reading
from kz_build.stack.sequencer import lay
from kz_build.stack.session import Session
from kz_build.stack.write_back import Finished, finish, unchanged

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


@dataclass(frozen=True)
class Editing:
    """A stack laid out: `commits` are `id subject`, oldest first; `fresh` unless it lay there already,
    `again` where one that did not finish was thrown away for it."""

    line: str
    source: str
    worktree: Path
    checks: Path
    base: str
    commits: tuple[str, ...]
    fresh: bool
    again: bool


def edit(project: Project, line: str, source: str, watch: Watch | None = None) -> Editing:
    """Lay a stack out as commits in a worktree, or find the one that is there."""
    held = carried(project, line, source, new=True, watch=watch)
    return reading(project, held, lambda c: _edit(project, c))


def _edit(project: Project, held: Carried) -> Editing:
    line, name = held.stack.line, held.stack.source
    if not held.repository.has(held.base):
        raise ObjectsMissing(f"{name} is not fetched yet")
    found = [o for o in sessions.under_way(project, "edit") if (o.session.line, o.session.source) == (line, name)]
    if found and not _untouched(held, found[0]):
        return _shown(held, found[0], fresh=False, again=False)
    if found:
        sessions.end(found[0], held.repository)
    tip = apply_source(project, line, name, held.repository.watch)[0].commit if held.stack.patches else held.base
    session = Session(
        "edit",
        line,
        name,
        line,
        held.version,
        held.base,
        held.base,
        tip,
        stack_tip=tip,
        digest=held.stack.digest,
        tip=tip,
    )
    again = sessions.unfinished(project, "edit", line, name)
    opened = sessions.new(project, session)
    if again:
        _unworked(opened, held)
    sessions.end(opened, held.repository)
    # Without patches nothing says which folders: the top of the tree is a beginning.
    lay(held, opened.worktree(held.repository), tip, set() if held.stack.patches else {""})
    sessions.keep_checks(project, held.stack.folder, opened)
    return _shown(held, sessions.save(opened, session), fresh=True, again=again)


def _unworked(opened: sessions.Open, held: Carried) -> None:
    """Raise ConflictError where somebody worked in the worktree of an edit that did not finish."""
    tree = opened.worktree(held.repository)
    if tree.exists() and (tree.head() != opened.session.tip or tree.dirty()):
        raise ConflictError(
            f"the last kz edit did not finish, and there is work in {tree.path}",
            hint=f"keep it (git branch NAME there, or copy it), then rm -r {opened.folder} and kz edit again",
        )


def _untouched(held: Carried, opened: sessions.Open) -> bool:
    """Whether nothing was done in the worktree since the stack was laid out or refreshed, while the stack's files changed."""
    tree = opened.worktree(held.repository)
    if not tree.path.exists():
        return True
    _there(tree)
    stale = opened.session.digest != held.stack.digest or opened.session.base != held.base
    return stale and tree.head() == opened.session.tip and not tree.dirty() and not tree.busy()


def _shown(held: Carried, opened: sessions.Open, *, fresh: bool, again: bool) -> Editing:
    session = opened.session
    tree = opened.worktree(held.repository)
    rows = tree.said("log", "--reverse", "--format=%h %s", "--end-of-options", f"{session.base}..HEAD").splitlines()
    return Editing(session.line, session.source, tree.path, opened.checks, session.base, tuple(rows), fresh, again)


def refresh(project: Project, line: str, source: str) -> Finished:
    """Write the worktree's commits as the stack's files. Raises ConflictError where it holds what is no commit yet."""
    if sessions.unfinished(project, "edit", line, source):
        raise ConfigError(
            f"there is no complete edit of {source} on {line}: the last kz edit did not finish",
            hint=f"kz edit {source} --line {line} makes it anew",
        )
    opened = sessions.the_one(project, "edit", line, source)
    held = carried(project, opened.session.line, opened.session.source, new=True)
    unchanged(held, opened.session)
    return reading(project, held, lambda c: _refresh(project, c, opened))


def _refresh(project: Project, held: Carried, opened: sessions.Open) -> Finished:
    tree = opened.worktree(held.repository)
    _settled(tree)
    session = replace(opened.session, tip=tree.head())
    return finish(project, held, sessions.Open(session, opened.folder), keep=True)


def _settled(tree: Worktree) -> None:
    _there(tree)
    if busy := tree.busy():
        raise ConflictError(
            f"a {busy} is under way in {tree.path}", hint=f"git {busy} --continue or --abort there first"
        )
    if files := tree.dirty():
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {name}" for name in files)]),
            hint=f"commit them in {tree.path} (git commit --amend, --fixup), then kz refresh",
        )


def _there(tree: Worktree) -> None:
    if not tree.exists():
        raise ConfigError(
            f"the worktree {tree.path} is gone, or its repository in the store",
            hint="keep what you need of its files, then kz edit --abort, and begin again",
        )
