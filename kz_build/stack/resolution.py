"""How a patch that stopped goes on: a resolution in the worktree, a candidate, another tool's answer, or without the patch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kz_build.core.errors import ConfigError, ConflictError
from kz_build.patch.intent_checks import IntentCheck
from kz_build.pins.project import Project
from kz_build.stack.parse import parse_checks
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.session import Session
from kz_build.stack.session_folder import SessionFolder, save
from kz_build.stack.suggestion import Suggestion, answer, require_taken, stopped_patch, suggestion, write


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
        # Unchanged, but at another commit: a git that was killed had committed it.
        result = tree.git("-c", "commit.gpgSign=false", "cherry-pick", "--quit" if unchanged else "--continue")
        if result.code:
            message = result.stderr.decode("utf-8", "replace").strip()
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
    return save(opened, pinned, replace(session, tip=tip, picking="", before=""))


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
    words = ("-1", "--format=%s", "--end-of-options", session.picking)
    subject = pinned.repository.git("log", *words).decode().strip()
    return save(
        opened,
        pinned,
        replace(session, tip=session.before, picking="", before="", notes=(*session.notes, f"{subject}: skipped")),
    )


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
    """Return candidates for the patch that a session stopped at. Raises ConfigError if there is none."""
    session = opened.session
    if not session.picking:
        raise ConfigError("no patch is in the worktree: there is nothing to suggest", hint=f"kz {session.verb} status")
    checks = _checks(pinned, opened)
    return suggestion(stopped_patch(project, pinned, session.picking, session.before, session, checks))


def take(pinned: PinnedStack, opened: SessionFolder, project: Project, choice: str) -> SessionFolder:
    """Put a candidate, by its number, or the answer in a file into the worktree, as the patch's commit.

    Raises ConflictError if it must not be taken, and ConfigError if there is none.
    """
    session, found = opened.session, suggested(project, pinned, opened)
    if choice.isdecimal():
        offer = dict(zip(map(str, range(1, len(found.offers) + 1)), found.offers, strict=True)).get(choice)
        if not offer:
            raise ConfigError(f"there is no candidate {choice}", hint="kz rebase --suggest shows those that there are")
        commit, note = offer.commit, f"candidate {choice} was taken: {offer.candidate.reason}"
    else:
        files = answer(Path(choice))
        hint = f"nothing was changed; if a check asks for what upstream no longer has: {opened.checks}"
        require_taken(found.stopped, files, choice, hint)
        commit, note = write(found.stopped, files), f"the answer in {Path(choice).name} was taken"
    opened.worktree(pinned).reset_to(commit)
    notes = (*session.notes, f"{session.stopped}: {note}")
    return save(opened, pinned, replace(session, tip=commit, picking="", before="", notes=notes))
