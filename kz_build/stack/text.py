"""Stacks that were moved, edited and written back, as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.escape import wrap
from kz_build.patch.place import places_text
from kz_build.patch.text import explanation
from kz_build.rewrite.nearest_lines import nearest_lines
from kz_build.stack.session import Session

if TYPE_CHECKING:
    from kz_build.patch.rewrite import Mismatch
    from kz_build.sources.fetched import Tree
    from kz_build.stack.edit import EditResult
    from kz_build.stack.session import Dropped
    from kz_build.stack.submit import Ready
    from kz_build.stack.suggestion import Suggestion
    from kz_build.stack.write_back import WrittenStack

DIFF_LINES = 200
"""How much of a candidate's diff a terminal shows."""
MOST_SHOWN = 160
"""How many characters of a line of upstream's a terminal shows."""


def ready(result: Ready) -> str:
    """Say where the branch is, what linters found, and what is left to do."""
    rows = [f"{result.patch}: branch {result.branch} on {result.onto} {result.base[:10]}"]
    rows += [f"  {note}" for note in result.notes]
    rows += ["range-diff, ours to upstream's:", *(f"  {row}".rstrip() for row in result.range_diff.splitlines())]
    for check in result.checks:
        evidence = check.evidence.splitlines()
        rows.append(f"  {check.status.value} {check.name}" + (f": {evidence[0]}" if len(evidence) == 1 else ""))
        rows += [f"      {row}" for row in evidence] if len(evidence) > 1 else []
    rows += [
        f"worktree: {result.worktree}",
        f"text of the pull request: {result.text}",
        f"then, from the worktree: git push YOUR-FORK {result.branch}   (a fork of {result.url})",
    ]
    return "\n".join(rows)


def written_stack(result: WrittenStack | Session) -> str:
    """Show what was written: notes, git's range-diff, the patches with their verdicts, the files. A session was written before."""
    if isinstance(result, Session):
        where = f" on {result.version}" if result.verb == "rebase" else ""
        return f"the {result.verb} of {result.source} is done: {result.into}{where} was written by the command that was killed"
    rows = [f"{result.line} {result.source} {result.version}: tree {result.tree}"]
    rows += [f"  {note}" for note in result.notes]
    rows += [row for one in result.dropped for row in _dropped(one)]
    if result.range_diff:
        rows += ["range-diff, old to new:", *(f"  {row}".rstrip() for row in result.range_diff.splitlines())]
    for judgement in result.judged:
        rows.append(f"  {judgement.patch.removesuffix('.patch')}: {judgement.verdict.value}")
        rows += [f"      {text}" for text in explanation(judgement)]
    for head, names in (("removed:", result.removed), ("written:", sorted({*result.files} - {*result.removed}))):
        rows += [head, *(f"  {name}" for name in names)] if names else []
    rows += [] if result.files else ["nothing changed"]
    return "\n".join(rows)


def _dropped(one: Dropped) -> list[str]:
    """Say what upstream has of a patch, where, and since when."""
    name = one.patch.removesuffix(".patch")
    rows = wrap(f"{name}: dropped, upstream has it at {places_text(one.there)}", "  ", "    ")
    return rows + (wrap(f"since {one.title}", " " * 6) if one.title else [])


def edit_result(result: EditResult) -> str:
    """Say where the worktree is and what to do there."""
    rows = [f"{result.line} {result.source}: {'checked out in' if result.fresh else 'is in'} {result.worktree}"]
    if result.again:
        rows.insert(0, "The last kz edit did not finish: this one starts again.")
    rows += [f"  {commit}" for commit in result.commits] or ["  (no patches yet)"]
    rows += [
        "Commit there as you like: amend, git rebase -i, git am"
        + ("; `git sparse-checkout add DIR` adds more files." if result.commits else "."),
        *([f"Edit the checks in {result.checks}"] if result.checks.is_file() else []),
        f"Then:             kz refresh {result.source} --line {result.line}",
        f"To throw it away: kz edit abort {result.source} --line {result.line}",
    ]
    return "\n".join(rows)


def session_list(sessions: Sequence[tuple[Session, Path]]) -> str:
    """List the open sessions, a paragraph each."""
    rows = []
    for session, folder in sessions:
        where = f" onto {session.version} as {session.into}" if session.verb == "rebase" else ""
        rows.append(f"{session.verb} {session.line} {session.source}{where}: in {folder / 'tree'}")
        if session.verb == "edit":
            rows.append("  kz refresh writes it back, kz edit abort throws it away")
            continue
        rows += [f"  {note}" for note in session.notes]
        rows += [row for one in session.dropped for row in _dropped(one)]
        if session.picking:
            rows.append(f"  stopped at: {session.stopped}; {len(session.todo)} left")
            rows += [f"  {row}" for row in session.stop[:-1]]
        if session.picking and session.shown:
            rows.append("    kz rebase --suggest shows its candidates")
        steps = f"kz {session.verb} continue, " + ("" if session.verb == "upstream" else "skip, ") + "or abort"
        rows.append(f"  -> {session.stop[-1] if session.picking and session.stop else steps}")
        rows += undo_rows(session)
    return "\n".join(rows) or "nothing is in progress"


def undo_rows(session: Session) -> list[str]:
    """Say which stop `undo` goes back to, if one was answered."""
    if not session.answers or session.verb == "edit":
        return []
    return [f"  kz {session.verb} undo takes back the last answer, to: {session.answers[-1].subject}"]


def mismatch_rows(found: Mapping[str, Mismatch]) -> list[str]:
    """List the rules that do not match, by their files, each with the lines that are nearest to what it looks for."""
    rows: list[str] = []
    for path, mismatch in found.items():
        rows += wrap(f"{path}: {mismatch.reason}", "  ", "    ")
        line, lines = nearest_lines(mismatch.wanted, mismatch.content)
        if line:
            rows.append(f"    nearest, at {path}:{line}:")
            rows += [f"      {text.decode('utf-8', 'replace')[:MOST_SHOWN]}".rstrip() for text in lines]
    return rows


def offer_rows(found: Suggestion, *, diffs: int) -> list[str]:
    """List candidates for a conflict, the first `diffs` of them with their diffs against upstream's files."""
    rows = ["  candidates, each a whole result for the patch's files:"]
    if not found.offers:
        rows = ["  kz is not sure; one of these may be right, each a whole result for the patch's files:"]
    for number, offer in enumerate(found.shown, 1):
        one = offer.candidate
        rows += wrap(f"{number}. confidence {one.confidence:.2f}, by {one.rule}: {one.reason}", "    ", "       ")
        diff = offer.diff.splitlines() if number <= diffs else []
        rows += [f"       {line}".rstrip() for line in diff[:DIFF_LINES]]
        if len(diff) > DIFF_LINES:
            rows.append(f"       … {len(diff) - DIFF_LINES} lines more: kz rebase --suggest --json")
    return rows


def suggestion(result: Suggestion) -> str:
    """Show all candidates for the patch that stopped a rebase, with their diffs."""
    patch = result.stopped.patch
    if not result.shown:
        return f"{patch.subject}: kz finds no candidate"
    rows = offer_rows(result, diffs=len(result.shown))
    return "\n".join([patch.subject, *rows, "  kz rebase --take N continues with one of them"])


def aborted(session: Session) -> str:
    """Say what an abort undid."""
    of = f"{session.verb} of {session.source} on {session.line}"
    if session.verb == "edit":
        return f"{of} is aborted: its worktree is deleted, with what was not refreshed"
    at = f", which stopped at: {session.stopped}" if session.picking else ""
    return f"{of} is aborted: its worktree is deleted{at}. No patch, pin or lock was changed"


def trees(line: str, trees: Sequence[Tree]) -> str:
    """Show one block per patched source."""
    if not trees:
        return f"{line}: no stacks"
    rows = []
    for tree in trees:
        rows.append(
            f"{line} {tree.source}: tree {tree.tree}  " + ("(overridden)" if tree.locked is None else "= pins.lock")
        )
        width = max((len(name) for name, _ in tree.patches), default=0)
        rows += [f"  {name:{width}}  {state}" for name, state in tree.patches]
    return "\n".join(rows)
