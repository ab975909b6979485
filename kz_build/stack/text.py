"""Stacks that are carried over, edited and written back, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kz_build.core.result import CheckResult
from kz_build.patch.place import places_text
from kz_build.patch.text import explanation, wrap
from kz_build.patch.verdict import Judgement
from kz_build.sources.fetched import Tree
from kz_build.stack.session import Dropped, Session


class Finished(Protocol):
    """A stack as it was written."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def tree(self) -> str: ...
    @property
    def files(self) -> tuple[str, ...]: ...
    @property
    def range_diff(self) -> str: ...
    @property
    def judged(self) -> tuple[Judgement, ...]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def dropped(self) -> Sequence[Dropped]: ...


class Editing(Protocol):
    """A stack laid out in a worktree."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def worktree(self) -> Path: ...
    @property
    def checks(self) -> Path: ...
    @property
    def commits(self) -> tuple[str, ...]: ...
    @property
    def fresh(self) -> bool: ...
    @property
    def again(self) -> bool: ...


class Ready(Protocol):
    """A patch made ready for upstream."""

    @property
    def patch(self) -> str: ...
    @property
    def onto(self) -> str: ...
    @property
    def base(self) -> str: ...
    @property
    def branch(self) -> str: ...
    @property
    def worktree(self) -> Path: ...
    @property
    def text(self) -> Path: ...
    @property
    def url(self) -> str: ...
    @property
    def checks(self) -> Sequence[CheckResult]: ...
    @property
    def range_diff(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def ready(found: Ready) -> str:
    """Where the branch is, what linters say, and what is left to a person."""
    rows = [f"{found.patch}: branch {found.branch} on {found.onto} {found.base[:10]}"]
    rows += [f"  {note}" for note in found.notes]
    rows += ["range-diff, ours to upstream's:", *(f"  {row}".rstrip() for row in found.range_diff.splitlines())]
    for check in found.checks:
        said = check.evidence.splitlines()
        rows.append(f"  {check.status.value} {check.check}" + (f": {said[0]}" if len(said) == 1 else ""))
        rows += [f"      {row}" for row in said] if len(said) > 1 else []
    rows += [
        f"worktree: {found.worktree}",
        f"text of the pull request: {found.text}",
        f"then, from the worktree: git push YOUR-FORK {found.branch}   (a fork of {found.url})",
    ]
    return "\n".join(rows)


def finished(found: Finished) -> str:
    """What was written: notes, git's range-diff, the patches with their verdicts, the files."""
    rows = [f"{found.line} {found.source} {found.version}: tree {found.tree}"]
    rows += [f"  {note}" for note in found.notes]
    rows += [row for one in found.dropped for row in _dropped(one)]
    if found.range_diff:
        rows += ["range-diff, old to new:", *(f"  {row}".rstrip() for row in found.range_diff.splitlines())]
    for judgement in found.judged:
        rows.append(f"  {judgement.patch.removesuffix('.patch')}: {judgement.verdict.value}")
        rows += [f"      {text}" for text in explanation(judgement)]
    rows += ["written:", *(f"  {name}" for name in found.files)] if found.files else ["nothing changed"]
    return "\n".join(rows)


def _dropped(one: Dropped) -> list[str]:
    """What upstream has of a patch, where, and since when."""
    name = one.patch.removesuffix(".patch")
    rows = wrap(f"{name}: dropped, upstream has it at {places_text(one.there)}", "  ", "    ")
    return rows + (wrap(f"since {one.title}", " " * 6) if one.title else [])


def editing(found: Editing) -> str:
    """Where the worktree is and what to do there."""
    rows = [f"{found.line} {found.source}: {'laid out in' if found.fresh else 'lies in'} {found.worktree}"]
    if found.again:
        rows.insert(0, "The last kz edit did not finish: this one is made anew.")
    rows += [f"  {commit}" for commit in found.commits] or ["  (no patches yet)"]
    rows += [
        "Commit there as you like: amend, git rebase -i, git am;",
        "`git sparse-checkout add DIR` brings more files.",
        *([f"Checks are edited in {found.checks}"] if found.checks.is_file() else []),
        f"Then:             kz refresh {found.source} --line {found.line}",
        f"To throw it away: kz edit {found.source} --line {found.line} --abort",
    ]
    return "\n".join(rows)


def standing(sessions: Sequence[tuple[Session, Path]]) -> str:
    """What is under way, a paragraph each."""
    rows = []
    for session, folder in sessions:
        where = f" onto {session.version} as {session.into}" if session.verb == "rebase" else ""
        rows.append(f"{session.verb} {session.line} {session.source}{where}: in {folder / 'tree'}")
        if session.verb == "edit":
            rows.append("  kz refresh writes it back, kz edit --abort throws it away")
            continue
        if session.picking:
            rows.append(f"  stopped at: {session.stopped}; {len(session.todo)} to come")
        rows += [f"  {note}" for note in session.notes]
        rows += [row for one in session.dropped for row in _dropped(one)]
        rows.append(
            f"  kz {session.verb} --continue, " + ("" if session.verb == "upstream" else "--skip, ") + "or --abort"
        )
    return "\n".join(rows) or "nothing is under way"


def trees(line: str, found: Sequence[Tree]) -> str:
    """One block per patched source."""
    if not found:
        return f"{line}: no stacks"
    rows = []
    for tree in found:
        rows.append(
            f"{line} {tree.source}: tree {tree.tree}  " + ("(overridden)" if tree.locked is None else "= pins.lock")
        )
        width = max(len(name) for name, _ in tree.patches)
        rows += [f"  {name:{width}}  {state}" for name, state in tree.patches]
    return "\n".join(rows)
