"""How a patch that stopped goes on: a resolution in the worktree, a candidate, another tool's answer, or without the patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kz_build.core.errors import ConfigError, ConflictError
from kz_build.git import fast_import
from kz_build.git.log import renamed
from kz_build.git.repository import commit_id
from kz_build.git.worktree import Worktree
from kz_build.patch.apply import Applied, Read, Refused, content
from kz_build.patch.attempt import attempt
from kz_build.patch.change import Patch
from kz_build.patch.intent_checks import IntentCheck
from kz_build.patch.rewrite import Mismatch
from kz_build.pins.project import Project
from kz_build.stack.files import rules_name
from kz_build.stack.parse import parse_checks, with_edited_rules
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.session import Session
from kz_build.stack.session_folder import SessionFolder, save
from kz_build.stack.suggestion import Suggestion, answer, require_taken, stopped_patch, suggestion, write
from kz_build.stack.text import mismatch_rows
from kz_build.stack.verdict_cache import files_at


def take_resolution(pinned: PinnedStack, opened: SessionFolder) -> SessionFolder:
    """Take the user's resolution from the worktree. Raises ConflictError if it is not finished."""
    session = opened.session
    tree = opened.worktree(pinned)
    again = f"kz {session.verb} continue"
    if tree.picking():
        if files := tree.unmerged():
            raise ConflictError(
                "\n".join(["not resolved yet:", *(f"  {name}" for name in files)]),
                hint=f"in {tree.path}: edit, `git add`, then {again}",
            )
        if files := tree.marked():
            raise ConflictError(
                "\n".join(["conflict markers are left in:", *(f"  {name}" for name in files)]),
                hint=f"remove them, then {again}",
            )
        unchanged = not tree.dirty()
        if unchanged and tree.head() == session.before:
            raise _nothing_committed(session)
        # Unchanged, but at another commit: a git that was killed had committed it. Not `cherry-pick --continue`, which takes
        # the lines that begin with # out of the message.
        commit = ("commit", "--quiet", "-C", commit_id(session.picking))
        result = tree.git(*(("cherry-pick", "--quit") if unchanged else commit))
        if result.code:
            message = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
            raise ConflictError(
                f"git cannot commit it:\n{message}", hint=f"fix that in {tree.path}, then {again}, or skip"
            )
    elif files := tree.dirty():
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {name}" for name in files)]),
            hint=f"commit them in {tree.path} (git commit --amend), then {again}",
        )
    tip = tree.head()
    if tip == session.before:
        raise _nothing_committed(session)
    return save(opened, pinned, session.answered(tip))


def take_rules(pinned: PinnedStack, opened: SessionFolder) -> SessionFolder | None:
    """Make the patch's commit from the rules that the user edited; None if they are as they were, or the worktree has a resolution.

    Raises ConflictError if they do not match, with the lines that are nearest.
    """
    session = opened.session
    patch = stopped_at(pinned, session)
    if patch is None or patch.rewrite is None or not opened.rules(patch.slug).is_file():
        return None
    file, tree = opened.rules(patch.slug), opened.worktree(pinned)
    data = file.read_bytes()
    if not data.strip() or data == pinned.files.files[rules_name(patch.name)] or _resolved(tree, session):
        return None
    patch, moved = with_edited_rules(patch, data, str(file), _renames(pinned, session, patch))
    read = files_at(pinned, session.before, patch.reads).get
    outcome = attempt(patch, read)
    if isinstance(outcome, Refused):
        rows = mismatch_rows(mismatches(patch, read)) or [f"  {outcome.path}: {outcome.reason}"]
        rows += [f"  upstream renamed {old} to {new}: name that in the rules" for old, new in moved.items()]
        raise ConflictError(
            "\n".join([f"{patch.subject}: its rules do not give a result yet:", *rows]),
            hint=f"edit {file}, or resolve it in {tree.path} and `git add` the files; then kz rebase continue, skip or abort",
        )
    commit = write_commits(pinned, replace(session, tip=session.before), [outcome])
    tree.reset_to(commit)
    note = f"{patch.subject}: made again from its rules, as you edited them"
    return save(opened, pinned, session.answered(commit, note))


def stopped_at(pinned: PinnedStack, session: Session) -> Patch | None:
    """Return the patch of the stack that a rebase stopped at; None if it stopped at the end, or is none."""
    if session.verb != "rebase" or session.picking in ("", session.tip):
        return None
    return pinned.stack.patches[-len(session.todo) - 1]


def _resolved(tree: Worktree, session: Session) -> bool:
    """Return whether somebody resolved the patch in the worktree: what is there is not what kz left there, killed or not."""
    if tree.picking():
        return not tree.unmerged() and (bool(tree.dirty()) or tree.head() != session.before)
    return bool(tree.dirty()) or tree.head() not in (session.before, session.merged)


def _renames(pinned: PinnedStack, session: Session, patch: Patch) -> dict[str, str]:
    """Return where upstream moved files of a patch, by git's own measure."""
    gone = patch.reads.difference(files_at(pinned, session.before, patch.reads))
    moves = {path: renamed(pinned.repository, session.old_base, session.base, path) for path in sorted(gone)}
    return {path: move[1] for path, move in moves.items() if move and move[1]}


def mismatches(patch: Patch, read: Read) -> dict[str, Mismatch]:
    """Return by file what the rules of a patch say that do not match."""
    rules = patch.rewrite
    contents = {path: content(read(path)) for path in sorted(rules.paths)} if rules else {}
    results = {path: rules.generate(path, data) for path, data in contents.items() if rules and data is not None}
    return {path: result for path, result in results.items() if isinstance(result, Mismatch)}


def write_commits(pinned: PinnedStack, session: Session, done: Sequence[Applied]) -> str:
    """Write patches as commits on the session's tip, and return the last."""
    if not done:
        return session.tip
    ref = f"refs/kz/{session.verb}/{session.line}-{session.source}"
    stream = fast_import.commits_stream(session.tip, [outcome.commit for outcome in done], ref)
    return pinned.repository.fast_import(stream).decode().split()[-1]


def _nothing_committed(session: Session) -> ConflictError:
    return ConflictError("nothing was committed for the patch", hint=f"kz {session.verb} skip drops it")


def unchanged(pinned: PinnedStack, opened: SessionFolder) -> SessionFolder:
    """Go on with what is in the worktree."""
    return opened


def skip_patch(pinned: PinnedStack, opened: SessionFolder) -> SessionFolder:
    """Drop the patch in the worktree. Raises ConfigError if there is none; none was taken up since a skip that was killed."""
    session = opened.session
    if not session.picking:
        return opened
    if session.picking == session.tip:
        raise ConfigError("no patch is in the worktree: there is nothing to skip", hint=f"kz {session.verb} status")
    opened.worktree(pinned).reset_to(session.before)
    return save(opened, pinned, session.answered(session.before, f"{session.stopped}: skipped"))


def undo_answer(pinned: PinnedStack, opened: SessionFolder) -> SessionFolder:
    """Return to before the stop that was answered last. Raises ConfigError if there is none.

    The answer itself is kept until kz stops there again: an undo that was killed before goes back to the same stop.
    """
    session = opened.session
    if not session.answers:
        raise ConfigError(
            f"nothing was answered yet in this {session.verb}: there is nothing to undo",
            hint=f"kz {session.verb} abort gives it up",
        )
    last = session.answers[-1]
    words = ("--reverse", "--end-of-options", f"{session.old_base}..{session.old_tip}")
    commits = pinned.repository.git("rev-list", *words).decode().split()
    if last.commit not in commits:
        raise ConfigError(
            f"the last answer of this {session.verb} is to a commit that the stack does not have: {last.commit}",
            hint=f"its session was not written by kz. kz {session.verb} abort gives it up",
        )
    session = replace(
        session,
        tip=last.before,
        todo=tuple(commits[commits.index(last.commit) :]),
        picking="",
        before="",
        notes=session.notes[: last.notes],
        dropped=session.dropped[: last.dropped],
    )
    return save(opened, pinned, session)


def take_best(project: Project, pinned: PinnedStack, opened: SessionFolder) -> Session | None:
    """Take the best candidate for the next patch if its confidence is high enough for the session; the patch's trailer and a note say so.

    None if a person must look.
    """
    session = opened.session
    stopped = stopped_patch(project, pinned, session.todo[0], session.tip, session, _checks(pinned, opened))
    offers = suggestion(stopped).offers
    if not offers or offers[0].candidate.confidence < session.take_above:
        return None
    best = offers[0].candidate
    commit = write(stopped, best.files, {"Resolved-By": f"kz rebase, by {best.rule}, confidence {best.confidence:.2f}"})
    note = f"{stopped.patch.subject}: conflict resolved unasked, confidence {best.confidence:.2f}: {best.reason}"
    return replace(session, tip=commit, todo=session.todo[1:], notes=(*session.notes, note))


def _checks(pinned: PinnedStack, opened: SessionFolder) -> tuple[IntentCheck, ...]:
    """Return the stack's checks as its user left them beside the worktree."""
    if not opened.checks.is_file():
        return pinned.stack.checks
    slugs = {patch.slug for patch in pinned.stack.patches}
    return parse_checks(opened.checks.read_bytes(), str(opened.checks), slugs)


def suggested(project: Project, pinned: PinnedStack, opened: SessionFolder) -> Suggestion:
    """Return candidates to show for the patch that a session stopped at; `take` then takes only these. Raises ConfigError if there is no such patch."""
    suggestion = _suggestion(project, pinned, opened)
    save(opened, pinned, replace(opened.session, shown=tuple(offer.commit for offer in suggestion.shown)))
    return suggestion


def _suggestion(project: Project, pinned: PinnedStack, opened: SessionFolder) -> Suggestion:
    session = opened.session
    if not session.picking:
        raise ConfigError("no patch is in the worktree: there is nothing to suggest", hint=f"kz {session.verb} status")
    checks = _checks(pinned, opened)
    return suggestion(stopped_patch(project, pinned, session.picking, session.before, session, checks))


def take(pinned: PinnedStack, opened: SessionFolder, project: Project, choice: str) -> SessionFolder:
    """Put a candidate, by the number with which it was shown, or the answer in a file into the worktree, as the patch's commit.

    Raises ConflictError if it must not be taken, and ConfigError if there is none.
    """
    session, found = opened.session, _suggestion(project, pinned, opened)
    if choice.isdecimal():
        shown = dict(zip(map(str, range(1, len(session.shown) + 1)), session.shown, strict=True))
        hint = "kz rebase --suggest shows those that there are"
        if choice not in shown:
            raise ConfigError(f"there is no candidate {choice}", hint=hint)
        # Checks and other lines may have changed since; what its user saw is taken, or nothing.
        offer = next((offer for offer in found.shown if offer.commit == shown[choice]), None)
        if not offer:
            raise ConflictError(f"candidate {choice} is no longer what was shown", hint=hint)
        commit, note = offer.commit, f"candidate {choice} was taken: {offer.candidate.reason}"
    else:
        files = answer(Path(choice))
        hint = f"nothing was changed; if a check asks for what upstream no longer has: {opened.checks}"
        require_taken(found.stopped, files, choice, hint)
        commit, note = write(found.stopped, files), f"the answer in {Path(choice).name} was taken"
    opened.worktree(pinned).reset_to(commit)
    return save(opened, pinned, session.answered(commit, f"{session.stopped}: {note}"))
