"""edit and refresh: a stack as ordinary commits in a worktree, and those commits written back as patch files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError, ConflictError
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.worktree import Worktree
from kz_build.pins.project import Project
from kz_build.stack import session_folder
from kz_build.stack.apply import stack_tip
from kz_build.stack.pinned import PinnedStack, pinned_stack, with_files_fetched
from kz_build.stack.rebase import git_source
from kz_build.stack.sequencer import checkout
from kz_build.stack.session import Session
from kz_build.stack.write_back import WrittenStack, require_unchanged, write_back

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


@dataclass(frozen=True)
class EditResult:
    """A stack in a worktree: `commits` are `id subject`, oldest first; `fresh` unless the worktree was there already,
    `again` if an unfinished one was thrown away for it."""

    line: str
    source: str
    worktree: Path
    checks: Path
    base: str
    commits: tuple[str, ...]
    fresh: bool
    again: bool


def edit(project: Project, line: str, source: str, watch: Watch | None = None) -> EditResult:
    """Check a stack out as commits in a worktree, or return the worktree that is there."""
    pinned = pinned_stack(project, line, source, new=True, watch=watch)
    return with_files_fetched(project, pinned, lambda c: _edit(project, c))


def _edit(project: Project, pinned: PinnedStack) -> EditResult:
    line, name = pinned.stack.line, pinned.stack.source
    if not pinned.repository.has(pinned.base):
        raise ObjectsMissing(f"{name} is not fetched yet")
    session_folder.remove_ended(project, "edit", line, name)
    open_edits = [
        o for o in session_folder.open_sessions(project, "edit") if (o.session.line, o.session.source) == (line, name)
    ]
    if open_edits and not _untouched(pinned, open_edits[0]):
        own = session_folder.in_worktree(project, pinned, open_edits[0])
        return _result(own, open_edits[0], fresh=False, again=False)
    if open_edits:
        session_folder.end(open_edits[0])
    tip = stack_tip(project, pinned)
    where = (line, name, line, pinned.version, pinned.base)
    session = Session("edit", *where, pinned.base, tip, stack_tip=tip, digest=pinned.stack.digest, tip=tip)
    again = session_folder.unfinished_edit(project, line, name)
    if again:
        _require_no_work(session_folder.require_none(project, session), pinned)
    own, opened = session_folder.begin(project, pinned, session)
    checkout(own, opened.worktree(own), tip, set())
    session_folder.keep_checks(project, pinned.stack.folder, opened)
    return _result(own, session_folder.save(opened, own, session), fresh=True, again=again)


def _require_no_work(opened: session_folder.SessionFolder, pinned: PinnedStack) -> None:
    """Raise ConflictError if there is work in the worktree of an unfinished edit."""
    tree = opened.worktree(pinned)
    if tree.exists() and (tree.head() != opened.session.tip or tree.dirty() or tree.work()):
        raise ConflictError(
            f"the last kz edit did not finish, and there is work in {tree.path}",
            hint=f"copy it (git format-patch there), then rm -r {shlex.quote(str(opened.folder))} and kz edit again",
        )


def _untouched(pinned: PinnedStack, opened: session_folder.SessionFolder) -> bool:
    """Return whether the worktree is as kz left it, while the stack's files changed."""
    tree = opened.worktree(pinned)
    if not tree.path.exists():
        return True
    stale = opened.session.digest != pinned.stack.digest or opened.session.base != pinned.base
    return stale and tree.head() == opened.session.tip and not (tree.dirty() or tree.busy() or tree.work())


def _result(pinned: PinnedStack, opened: session_folder.SessionFolder, *, fresh: bool, again: bool) -> EditResult:
    session = opened.session
    tree = opened.worktree(pinned)
    rows = tree.output("log", "--reverse", "--format=%h %s", "--end-of-options", f"{session.base}..HEAD").split("\n")[
        :-1
    ]
    return EditResult(session.line, session.source, tree.path, opened.checks, session.base, tuple(rows), fresh, again)


def meant_edit(project: Project, line: str, source: str) -> tuple[str, str]:
    """Return the line and source whose worktree is meant where one of them is '': the only open edit that fits, else the defaults.

    Raises ConfigError if the line has several stacks on git sources.
    """
    open_edits = [o.session for o in session_folder.open_sessions(project, "edit")]
    fit = [o for o in open_edits if line in ("", o.line) and source in ("", o.source)]
    if len(fit) == 1:
        return fit[0].line, fit[0].source
    line = line or project.pins.default
    return line, source or git_source(project, line, "")


def refresh(project: Project, line: str, source: str) -> WrittenStack:
    """Write the worktree's commits as the stack's files. Raises ConflictError for uncommitted changes."""
    if session_folder.unfinished_edit(project, line, source):
        raise ConfigError(
            f"there is no complete edit of {source} on {line}: the last kz edit did not finish",
            hint=f"kz edit {source} --line {line} starts it again",
        )
    opened = session_folder.find_session(project, "edit", line, source)
    pinned = pinned_stack(project, opened.session.line, opened.session.source, new=True)
    require_unchanged(pinned, opened)
    return with_files_fetched(project, pinned, lambda c: _refresh(project, c, opened))


def _refresh(project: Project, pinned: PinnedStack, opened: session_folder.SessionFolder) -> WrittenStack:
    own = session_folder.in_worktree(project, pinned, opened)
    tree = opened.worktree(own)
    _require_committed(tree)
    _require_folded(tree, opened.session.base)
    session = replace(opened.session, tip=tree.head())
    return write_back(project, own, session_folder.SessionFolder(session, opened.folder), keep=True)


def _require_committed(tree: Worktree) -> None:
    if busy := tree.busy():
        raise ConflictError(
            f"a {busy} is in progress in {tree.path}", hint=f"git {busy} --continue or --abort there first"
        )
    if files := tree.dirty():
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {name}" for name in files)]),
            hint=f"commit them in {tree.path} (git commit --amend, or a new one), then kz refresh",
        )


def _require_folded(tree: Worktree, base: str) -> None:
    """Raise ConfigError for a commit of `git commit --fixup` or `--squash`: it corrects a patch, and is none itself."""
    for row in tree.output("log", "--format=%h %s", "--end-of-options", f"{base}..HEAD").split("\n"):
        if row.partition(" ")[2].startswith(("fixup! ", "squash! ", "amend! ")):
            hint = f"git rebase -i --autosquash {base[:10]} in the worktree makes them one"
            raise ConfigError(f"commit {row} belongs in another commit", hint=hint)
