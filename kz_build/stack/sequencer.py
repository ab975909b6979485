"""Pick patches onto another commit one by one, on git objects; a worktree is made at the first that does not apply."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConflictError
from kz_build.core.process import require_success
from kz_build.git import format_patch
from kz_build.git import log as history
from kz_build.git.object_types import Blob
from kz_build.git.repository import commit_id
from kz_build.git.worktree import Worktree
from kz_build.patch.apply import Applied, Refused, Stack, content
from kz_build.patch.attempt import apply_stack, in_target
from kz_build.patch.change import Patch
from kz_build.patch.intent_checks import IntentCheck, evaluate
from kz_build.patch.judge import judge
from kz_build.patch.mail import parse_patch
from kz_build.patch.place import places_text
from kz_build.patch.verdict import Verdict
from kz_build.pins.project import Project
from kz_build.stack.blame import UpstreamsOwn, lines_changed, made_upstream
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.resolution import mismatches, suggested, take_best, take_resolution, take_rules, write_commits
from kz_build.stack.session import Dropped, Session
from kz_build.stack.session_folder import SessionFolder, save
from kz_build.stack.stack_history import judge_history
from kz_build.stack.text import mismatch_rows, offer_rows, undo_rows
from kz_build.stack.verdict_cache import files_at

MOST_LINES = 50
"""How many lines of the diff of one upstream commit a stop shows."""


class Stop(NamedTuple):
    """A patch that needs a person. `missed` is the check that fails without it, `kept`: it must not be dropped, `applies`: it
    would apply, `by_rules`: its rules do not match."""

    patch: Patch
    missed: str
    kept: bool
    applies: bool
    by_rules: bool


@dataclass(frozen=True)
class PickResult:
    """The result of picking: `notes` has a sentence for each patch that moved or was kept."""

    tip: str
    left: tuple[str, ...]
    notes: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    stopped: Stop | None


def pick_remaining(project: Project, pinned: PinnedStack, opened: SessionFolder) -> SessionFolder:
    """Pick the remaining patches. Raises ConflictError at the first that a person must resolve."""
    session = opened.session
    if session.picking:
        opened = take_rules(pinned, opened) or take_resolution(pinned, opened)
    while True:
        session = opened.session
        picked = _pick(pinned, session, _patches(pinned, session))
        dropped = _with_commits(project, pinned, session, picked.dropped)
        opened = SessionFolder(
            replace(
                session,
                tip=picked.tip,
                todo=picked.left,
                notes=(*session.notes, *picked.notes),
                dropped=(*session.dropped, *dropped),
            ),
            opened.folder,
        )
        if picked.stopped is None:
            return opened
        stop = picked.stopped
        by_hand = stop.missed or stop.kept or stop.by_rules
        own = None
        if session.verb == "rebase" and not by_hand:
            # In a folder that is not of kz, a file's name does not follow from the subject, as that of stop.patch does.
            by_its_file = _own_patches(pinned, opened.session)[opened.session.todo[0]]
            own = made_upstream(project, pinned, session.base, by_its_file)
        unasked = session.take_above and not (by_hand or own)
        taken = take_best(project, pinned, opened) if unasked else None
        if taken is None:
            raise _stop(project, pinned, opened, stop, own)
        opened = save(opened, pinned, taken)


def _patches(pinned: PinnedStack, session: Session) -> dict[str, Patch]:
    """Return the patches to pick, by their commits."""
    if session.verb == "rebase" and not pinned.files.foreign:
        return _own_patches(pinned, session)
    if not session.todo:
        return {}
    base, tip = session.old_base, session.old_tip
    commits = pinned.repository.git("rev-list", "--reverse", "--end-of-options", f"{base}..{tip}").decode().split()
    mails = format_patch.format_mails(pinned.repository, base, tip)
    return {commit: parse_patch(slug, mail) for commit, (slug, mail) in zip(commits, mails, strict=True)}


def _pick(pinned: PinnedStack, session: Session, patches: dict[str, Patch]) -> PickResult:
    own = _own_patches(pinned, session)
    checks = [check for check in pinned.stack.checks if check.slug in {patch.slug for patch in own.values()}]
    paths = {path for commit in session.todo for path in patches[commit].reads}.union(c.file for c in checks)
    files = files_at(pinned, session.tip, paths)
    keep = [number for number, commit in enumerate(session.todo) if commit in session.keep]
    outcomes = apply_stack([patches[commit] for commit in session.todo], files.get, keep)
    done: list[Applied] = []
    notes: list[str] = []
    dropped: list[Dropped] = []
    stopped = None
    left = list(session.todo)
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Applied):
            done.append(outcome)
            notes += _notes(outcome, kept=number in keep)
        else:
            patch = own.get(left[0], outcome.patch)
            missed = _failed_checks(checks, patch, files, outcomes) if outcome.upstreamed else ""
            if missed or not outcome.upstreamed:
                stopped = Stop(outcome.patch, missed, number in keep, outcome.applies, outcome.by_rules)
                break
            dropped.append(Dropped(patch.name, _upstream_lines(pinned, session, files, outcome)))
        left.pop(0)
    tip = write_commits(pinned, session, done)
    return PickResult(tip, tuple(left), tuple(notes), tuple(dropped), stopped)


def _own_patches(pinned: PinnedStack, session: Session) -> dict[str, Patch]:
    """Return the patches of the stack that a rebase still has to pick, by their commits: the last ones."""
    if session.verb != "rebase" or not session.todo:
        return {}
    return dict(zip(session.todo, pinned.stack.patches[-len(session.todo) :], strict=True))


def _notes(outcome: Applied, *, kept: bool) -> list[str]:
    moved = max((offset for _, _, offset in outcome.offsets), key=abs, default=0)
    remarks = [*(["kept"] if kept else []), *([f"moved by {moved:+d} lines"] if moved else [])]
    remarks += [outcome.remark] if outcome.remark else []
    return [f"{outcome.patch.subject}: {', '.join(remarks)}"] if remarks else []


def _failed_checks(
    checks: Sequence[IntentCheck], patch: Patch, files: Mapping[str, Blob | None], outcomes: Sequence[Applied | Refused]
) -> str:
    """Return which checks of a patch fail on the result without it; '' if all hold, or it has none."""
    result = {**files, **{path: blob for o in outcomes if isinstance(o, Applied) for path, blob in o.files.items()}}
    results = ((c, evaluate(c, content(result.get(c.file)))) for c in checks if c.slug == patch.slug)
    return "; ".join(f"{check.kind} ({check.where}): {problem}" for check, problem in results if problem)


def _upstream_lines(
    pinned: PinnedStack, session: Session, files: Mapping[str, Blob | None], refused: Refused
) -> tuple[str, ...]:
    """Return the lines of upstream's files that have a patch's change."""
    upstreams = files_at(pinned, session.base, {place.path for place in refused.there})
    return tuple(str(place) for place in in_target(refused.there, upstreams.get, files.get))


def _with_commits(
    project: Project, pinned: PinnedStack, session: Session, dropped: Sequence[Dropped]
) -> tuple[Dropped, ...]:
    """Add to the dropped patches the commits since which upstream has them, where its history says so."""
    if (
        not dropped
        or session.verb != "rebase"
        or not history.merge_base(pinned.repository, session.old_base, session.base)
    ):
        return tuple(dropped)
    steps = {story.patch: story.upstreamed for story in judge_history(project, pinned, session.base).patches}
    commits = {patch: step.commit for patch, step in steps.items() if step}
    return tuple(
        one._replace(commit=commits[one.patch].id, title=commits[one.patch].shown) if one.patch in commits else one
        for one in dropped
    )


def _stop(
    project: Project, pinned: PinnedStack, opened: SessionFolder, stop: Stop, made: UpstreamsOwn | None
) -> ConflictError:
    """Start the patch in the worktree, and say what to do there; `made` is the commit by which upstream made its change."""
    session, patch = opened.session, stop.patch
    tree = opened.worktree(pinned)
    checkout(pinned, tree, session.tip, patch.reads)
    words = ("cherry-pick", "--allow-empty", commit_id(session.todo[0]))
    if (picked := tree.git(*words)).code != 1:  # 1 is a conflict, or nothing left to change
        require_success(["git", *words], picked)
    rows = [f"  {_reason(pinned, session, patch)}"]
    rules = opened.rules(patch.slug)
    rows += _remarks(pinned, session, stop, rules)
    then = f"kz {session.verb} continue, or skip to drop the patch, or abort"
    files = tree.unmerged()
    if picked.code == 0:
        rows.append("  git's three-way merge finds a result, committed in the worktree.")
        rows.append("  It may be wrong: look at it (git show) and amend it there if it is.")
    elif files:
        rows += [f"  conflict in {name}" for name in files]
        if any(answer.commit == session.todo[0] for answer in session.answers):  # and `undo` took it back
            tree.forget_resolutions(files)
        else:
            output = (picked.stdout + picked.stderr).decode("utf-8", "replace").splitlines()
            rows += [f"  {line}" for line in output if line.startswith("Resolved '")]
        then = f"resolve it there, `git add` the files, then kz {session.verb} continue, or skip, or abort"
    elif tree.picking():
        rows.append("  git's three-way merge finds nothing left to change")
        then = f"make the missing change there, `git add` it, then {then}"
    if stop.applies and session.verb == "rebase":
        then += "; to apply it as it is: abort, and start again with --keep PATCH"
    rows += _culprits(pinned, session, patch, made.commit if made and made.certain else "")
    if made:
        how = "made this change itself, by" if made.certain else "has a commit with the subject of the patch:"
        rows += [f"  upstream {how} {made.commit}", "  What is there now differs from what the patch makes."]
        then = f"kz rebase skip if upstream's is enough, or {then}"
    if stop.by_rules:
        then = f"edit {rules}, then kz rebase continue; or {then}"
    stopped = replace(
        session,
        picking=session.todo[0],
        stopped=patch.subject,
        before=session.tip,
        merged="" if picked.code else tree.head(),
        todo=session.todo[1:],
        shown=(),
        stop=(*rows, then),
        # What an undo takes back is forgotten here: it must not go back twice.
        answers=tuple(answer for answer in session.answers if answer.commit not in session.todo),
    )
    opened = save(
        opened, pinned, stopped
    )  # at once: of a run that was killed before, the next one does all of this again
    certain = made is not None and made.certain
    if session.verb == "rebase" and not certain and (suggestion := suggested(project, pinned, opened)).shown:
        rows += offer_rows(suggestion, diffs=1)
        if suggestion.offers and not stop.by_rules:
            then = f"kz rebase --take 1, or {then}"
    rows += [f"  worktree: {tree.path}", *undo_rows(opened.session)]
    lead = f"{patch.subject}: {rows.pop(0).strip()}"
    return ConflictError("\n".join([lead, *rows]), hint=f"{then}. The project has not changed")


def _remarks(pinned: PinnedStack, session: Session, stop: Stop, rules: Path) -> list[str]:
    """Say what a stop has to do with the patch's rules in the file `rules`, its checks and --keep."""
    patch = stop.patch
    rows: list[str] = []
    if stop.by_rules:
        rows += mismatch_rows(mismatches(patch, files_at(pinned, session.tip, patch.reads).get))
        rows.append(f"  edit its rules in {rules}: kz rebase continue then writes the mail from them")
    if patch.rewrite:
        rows.append(f"  what you resolve by hand must be what its rules give: an empty {rules.name} removes them")
    if stop.missed:
        rows.append(f"  it is not dropped, because without it a check fails: {stop.missed}")
    if stop.kept:
        rows.append("  --keep names it, but it does not apply, or would change nothing")
    return rows


def checkout(pinned: PinnedStack, tree: Worktree, commit: str, paths: Collection[str]) -> None:
    """Check a commit out in the worktree, with the folders of the stack and of these paths."""
    if tree.exists():
        tree.reset_to(commit)
    else:
        tree.add(commit, pinned.stack.touched.union(paths), pinned.source.list("exclude"))


def _reason(pinned: PinnedStack, session: Session, patch: Patch) -> str:
    stack = Stack("", "", "", (patch,), (), "")
    files = files_at(pinned, session.tip, patch.reads)
    judgement = judge(stack, files.get, {}, lambda *_: None, {})[0]
    reason = f"{judgement.path}: {judgement.reason}" + (
        f", at {places_text(judgement.there)}" if judgement.there else ""
    )
    if judgement.verdict is Verdict.MISSING and (
        move := history.renamed(pinned.repository, session.old_base, session.base, judgement.path)
    ):
        commit, path = move
        reason = f"{judgement.path}: " + (
            f"renamed to {path} by {commit.shown}" if path else f"removed by {commit.shown}"
        )
    return reason


def _culprits(pinned: PinnedStack, session: Session, patch: Patch, own: str) -> list[str]:
    """Return the upstream commits between the two bases that changed the patch's lines, with their diffs of those lines; that of
    `own`, by which upstream made the patch's change, would show the patch again."""
    parted = history.merge_base(pinned.repository, session.old_base, session.base)
    if not parted:
        return []
    culprits = []
    for tip, later, lead in (
        (session.base, True, "  upstream changed its lines in:"),
        (session.old_base, False, "  it requires lines that are not there yet, from:"),
    ):
        rows = []
        for commit in history.log(pinned.repository, parted, tip, patch.reads):
            if commit.shown == own:
                rows.append(f"  {commit.shown}: the patch's own change")
            elif diff := lines_changed(pinned, patch, commit, later=later):
                lines = diff.split("\n")
                rows += [f"  {commit.shown}", *(f"    {line}" for line in lines[:MOST_LINES])]
                more = len(lines) - MOST_LINES
                rows += [f"    … and {more} more lines of its diff"] if more > 0 else []
        culprits += [lead, *rows] if rows else []
    return culprits
