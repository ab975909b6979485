"""Carrying patches onto another commit, one by one, on git objects; a worktree is made at the first that does not go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kz_build.core import locks
from kz_build.core.errors import ConfigError, ConflictError
from kz_build.git import fast_import, format_patch
from kz_build.git import log as history
from kz_build.git import tree_lookup as trees
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
from kz_build.stack.blame import lines_changed
from kz_build.stack.pinned import Carried
from kz_build.stack.session import Dropped, Session
from kz_build.stack.sessions import Open, save
from kz_build.stack.verdict_cache import read_blobs
from kz_build.stack.walk import walked


class Stop(NamedTuple):
    """A patch that needs a person. `missed` is what a check says without it, `kept` that it must not be dropped, and `applies`
    that it would apply."""

    patch: Patch
    missed: str
    kept: bool
    applies: bool


@dataclass(frozen=True)
class Picked:
    """What became of the patches: `notes` has a sentence for each that moved or was kept."""

    tip: str
    left: tuple[str, ...]
    notes: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    stopped: Stop | None


def proceed(project: Project, held: Carried, opened: Open) -> Open:
    """Pick what is left to pick. Raises ConflictError at the first patch that needs a person."""
    session = opened.session
    if session.picking:
        opened = _settled(held, opened)
        session = opened.session
    patches = _patches(held, session)
    picked = _pick(project, held, session, patches)
    dropped = _with_commits(project, held, session, picked.dropped)
    opened = Open(
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
    raise _stop(held, opened, picked.stopped)


def _patches(held: Carried, session: Session) -> dict[str, Patch]:
    """The patches to pick, by the commits that hold them."""
    if session.verb == "rebase" and not held.files.foreign:
        return _own(held, session)
    if not session.todo:
        return {}
    base, tip = session.old_base, session.old_tip
    commits = held.repository.git("rev-list", "--reverse", "--end-of-options", f"{base}..{tip}").decode().split()
    made = format_patch.format_mails(held.repository, base, tip)
    return {commit: parse_patch(slug, mail) for commit, (slug, mail) in zip(commits, made, strict=True)}


def _pick(project: Project, held: Carried, session: Session, patches: dict[str, Patch]) -> Picked:
    own = _own(held, session)
    checks = [check for check in held.stack.checks if check.slug in {patch.slug for patch in own.values()}]
    paths = {path for commit in session.todo for path in patches[commit].reads}.union(c.file for c in checks)
    files = _files(held, session.tip, paths)
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
            missed = _missed(checks, patch, files, outcomes) if outcome.upstreamed else ""
            if missed or not outcome.upstreamed:
                stopped = Stop(outcome.patch, missed, number in keep, outcome.applies)
                break
            dropped.append(Dropped(patch.name, _there(held, session, files, outcome)))
        left.pop(0)
    tip = _written(project, held, session, done)
    return Picked(tip, tuple(left), tuple(notes), tuple(dropped), stopped)


def _own(held: Carried, session: Session) -> dict[str, Patch]:
    """The patches of the stack that a rebase has left to pick, by their commits: the last ones."""
    if session.verb != "rebase" or not session.todo:
        return {}
    return dict(zip(session.todo, held.stack.patches[-len(session.todo) :], strict=True))


def _notes(outcome: Applied, *, kept: bool) -> list[str]:
    moved = max((offset for _, _, offset in outcome.offsets), key=abs, default=0)
    said = [*(["kept"] if kept else []), *([f"moved by {moved:+d} lines"] if moved else [])]
    return [f"{outcome.patch.subject}: {', '.join(said)}"] if said else []


def _missed(
    checks: Sequence[IntentCheck], patch: Patch, files: Mapping[str, Blob | None], outcomes: Sequence[Applied | Refused]
) -> str:
    """What the checks of a patch say of the result without it; '' where they hold, or there are none."""
    result = {**files, **{path: blob for o in outcomes if isinstance(o, Applied) for path, blob in o.files.items()}}
    told = ((c, evaluate(c, content(result.get(c.file)))) for c in checks if c.slug == patch.slug)
    return "; ".join(f"{check.kind} ({check.where}): {said}" for check, said in told if said)


def _there(held: Carried, session: Session, files: Mapping[str, Blob | None], refused: Refused) -> tuple[str, ...]:
    """The lines of upstream's files that have what a patch changes."""
    upstreams = _files(held, session.base, {place.path for place in refused.there})
    return tuple(str(place) for place in in_target(refused.there, upstreams.get, files.get))


def _with_commits(project: Project, held: Carried, session: Session, dropped: Sequence[Dropped]) -> tuple[Dropped, ...]:
    """The dropped patches with the commits since which upstream has them, where its history tells."""
    if (
        not dropped
        or session.verb != "rebase"
        or not history.merge_base(held.repository, session.old_base, session.base)
    ):
        return tuple(dropped)
    steps = {story.patch: story.upstreamed for story in walked(project, held, session.base).stories}
    commits = {patch: step.commit for patch, step in steps.items() if step}
    return tuple(
        one._replace(commit=commits[one.patch].id, title=commits[one.patch].shown) if one.patch in commits else one
        for one in dropped
    )


def _files(held: Carried, commit: str, paths: Collection[str]) -> dict[str, Blob | None]:
    with held.repository.objects() as objects:
        at = trees.read_ids(objects, [commit], paths)[0]
        contents = read_blobs(held.repository, objects, {a[1] for a in at.values() if a})
    return {path: Blob(a[0], contents[a[1]]) if a else None for path, a in at.items()}


def _written(project: Project, held: Carried, session: Session, done: Sequence[Applied]) -> str:
    if not done:
        return session.tip
    ref = f"refs/kz/{session.verb}/{session.line}-{session.source}"
    with locks.locked(project.store, held.repository.path.name):
        stream = fast_import.commits_stream(session.tip, [outcome.commit for outcome in done], ref)
        return held.repository.fast_import(stream).decode().split()[-1]


def _stop(held: Carried, opened: Open, stop: Stop) -> ConflictError:
    """Begin the patch in the worktree, and say what is to be done there."""
    session, patch = opened.session, stop.patch
    tree = opened.worktree(held.repository)
    lay(held, tree, session.tip, patch.reads)
    picked = tree.git("cherry-pick", "--allow-empty", commit_id(session.todo[0]))
    opened = save(
        opened,
        replace(session, picking=session.todo[0], stopped=patch.subject, before=session.tip, todo=session.todo[1:]),
    )
    rows = [f"{patch.subject}: {_why(held, session, patch)}"]
    if stop.missed:
        rows.append(f"  it is not dropped, for without it a check fails: {stop.missed}")
    if stop.kept:
        rows.append("  it is to be kept, but does not apply, or would change nothing")
    then = f"then kz {session.verb} --continue, or --skip to drop the patch, or --abort"
    files = tree.unmerged()
    if picked.code == 0:
        rows.append("  git's three-way merge finds a result, committed in the worktree.")
        rows.append("  It may be wrong: look at it (git show) and amend it there if it is.")
    elif files:
        rows += [f"  conflict in {name}" for name in files]
        said = (picked.stdout + picked.stderr).decode("utf-8", "replace").splitlines()
        rows += [f"  {line}" for line in said if line.startswith("Resolved '")]
        then = f"resolve it there, `git add` the files, then kz {session.verb} --continue; or --skip, or --abort"
    elif tree.picking():
        rows.append("  git's three-way merge finds nothing left to change")
        then = f"change there what is missing, `git add` it, {then}"
    if stop.applies and session.verb == "rebase":
        then += "; to apply it as it is: --abort, and begin again with --keep PATCH"
    return ConflictError(
        "\n".join([*rows, *_culprits(held, session, patch), f"  worktree: {tree.path}"]),
        hint=f"{then}. Nothing of the project has changed",
    )


def lay(held: Carried, tree: Worktree, commit: str, paths: Collection[str]) -> None:
    """Have the worktree at a commit, with the folders of the stack and of these paths."""
    if tree.exists():
        tree.at(commit)
    else:
        tree.add(commit, held.stack.touched.union(paths), held.source.list("exclude"))


def _why(held: Carried, session: Session, patch: Patch) -> str:
    stack = Stack("", "", "", (patch,), (), "")
    with held.repository.objects() as objects:
        at = trees.read_ids(objects, [session.tip], patch.reads)[0]
        contents = read_blobs(held.repository, objects, {a[1] for a in at.values() if a})
    files = {path: Blob(a[0], contents[a[1]]) if a else None for path, a in at.items()}
    found = judge(stack, files.get, {}, lambda *_: None, {})[0]
    said = f"{found.path}: {found.reason}" + (f", at {places_text(found.there)}" if found.there else "")
    if found.verdict is Verdict.MISSING and (
        went := history.renamed(held.repository, session.old_base, session.base, found.path)
    ):
        commit, path = went
        said = f"{found.path}: " + (f"renamed to {path} by {commit.shown}" if path else f"removed by {commit.shown}")
    return said


def _culprits(held: Carried, session: Session, patch: Patch) -> list[str]:
    """The upstream commits between the two bases that changed the patch's lines, with their diffs of those."""
    parted = history.merge_base(held.repository, session.old_base, session.base)
    if not parted:
        return []
    found = []
    for tip, later, lead in (
        (session.base, True, "  upstream changed its lines in:"),
        (session.old_base, False, "  it stands on lines that are not there yet, from:"),
    ):
        rows = []
        for commit in history.log(held.repository, parted, tip, patch.reads):
            if said := lines_changed(held, patch, commit, later=later):
                rows += [f"  {commit.shown}", *(f"    {line}" for line in said.split("\n"))]
        found += [lead, *rows] if rows else []
    return found


def _settled(held: Carried, opened: Open) -> Open:
    """Take what the user made of the patch in the worktree. Raises ConflictError where that is not finished."""
    session = opened.session
    tree = opened.worktree(held.repository)
    if not tree.exists():
        raise ConfigError(f"the worktree {tree.path} is gone", hint=f"kz {session.verb} --abort, and begin again")
    again = f"kz {session.verb} --continue"
    if tree.picking():
        if files := tree.unmerged():
            raise ConflictError(
                "\n".join(["not resolved yet:", *(f"  {name}" for name in files)]),
                hint=f"in {tree.path}: edit, `git add`, then {again}",
            )
        if files := tree.marked():
            raise ConflictError(
                "\n".join(["conflict markers are left in:", *(f"  {name}" for name in files)]),
                hint=f"mend them, then {again}",
            )
        done = tree.git("-c", "commit.gpgSign=false", "cherry-pick", "--continue")
        if done.code:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise ConflictError(
                f"git cannot commit it:\n{said}", hint=f"mend that in {tree.path}, then {again}; or --skip"
            )
    elif files := tree.dirty():
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {name}" for name in files)]),
            hint=f"commit them in {tree.path} (git commit --amend), then {again}",
        )
    tip = tree.head()
    if tip == session.before:
        raise ConflictError("nothing was committed for the patch", hint=f"kz {session.verb} --skip drops it")
    return save(opened, replace(session, tip=tip, picking="", before=""))


def skipped(held: Carried, opened: Open) -> Open:
    """Drop the patch in the worktree. Raises ConfigError where none is under way."""
    session = opened.session
    if session.picking in ("", session.tip):
        raise ConfigError("no patch is in the worktree: there is nothing to skip", hint=f"kz {session.verb} --status")
    opened.worktree(held.repository).at(session.before)
    words = ("-1", "--format=%s", "--end-of-options", session.picking)
    subject = held.repository.git("log", *words).decode().strip()
    return save(
        opened,
        replace(session, tip=session.before, picking="", before="", notes=(*session.notes, f"{subject}: skipped")),
    )
