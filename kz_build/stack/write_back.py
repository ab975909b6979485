"""The end of a rebase, an edit or an import: commits become patch files, and pins and lock follow, in one change."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kz_build.core import transaction
from kz_build.core.errors import ConfigError, ConflictError, KzError, LockError
from kz_build.core.files import remove
from kz_build.core.paths import files_below
from kz_build.core.progress import quiet
from kz_build.core.yaml_edit import with_copy, with_value, without_keys
from kz_build.core.yaml_lines import parse
from kz_build.git import format_patch, worktree
from kz_build.git import log as history
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import Commit
from kz_build.patch.change import Patch
from kz_build.patch.mail import parse_patch
from kz_build.patch.verdict import Judgement
from kz_build.pins.load import LOCK, PINS
from kz_build.pins.lock_file import Lock
from kz_build.pins.project import Project
from kz_build.stack.apply import apply_to
from kz_build.stack.files import StackFiles, read_files, rules_name, series_text, stack_sources
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.session import Dropped, Session
from kz_build.stack.session_folder import FILE, SessionFolder, end, keep_commits, save
from kz_build.stack.text import undo_rows
from kz_build.stack.verdict_cache import judge_states


@dataclass(frozen=True)
class WrittenStack:
    """A stack as it was written: the changed files, those of them that were removed, git's range-diff of old and new, a
    verdict on each patch, and the patches that were dropped because upstream has them."""

    line: str
    source: str
    version: str
    folder: str
    tree: str
    files: tuple[str, ...]
    removed: tuple[str, ...]
    range_diff: str
    judged: tuple[Judgement, ...]
    notes: tuple[str, ...]
    dropped: tuple[Dropped, ...]


def write_back(project: Project, pinned: PinnedStack, opened: SessionFolder, *, keep: bool = False) -> WrittenStack:
    """Write the commits of the session as the stack of its line. `keep` leaves the worktree for more work.

    Raises ConfigError for commits that are no series, and ConflictError if an intent check fails on the
    result: the worktree then stays, at the stack's end, to fix it there.
    """
    session = opened.session
    files, dropped = _files(project, pinned, opened)
    folder = project.stack_folder(session.into, session.source)
    fresh = pinned._replace(
        files=_read(opened, folder, files, foreign=pinned.files.foreign),
        version=session.version,
        base=session.base,
        locked=None,
    )
    stack = fresh.stack
    tree, failures = apply_to(pinned.repository, session.base, stack.mails, None)
    if tree is None:
        raise _stop(pinned, opened, [str(problem) for problem in failures])
    if tree.tree != pinned.repository.tree_id(session.tip):
        raise KzError("the patch files give another tree than the commits they were made from; nothing was written")
    with pinned.repository.objects() as objects:
        states = trees.read_ids(objects, [session.base], stack.touched)
        rows = judge_states(fresh, project.store, objects, states)[0]
    if wrong := [(p, j) for p, j in zip(stack.patches, rows, strict=True) if p.rewrite and not j.holds]:
        problems = [f"{folder}/{patch.name}: {judgement.path}: {judgement.reason}" for patch, judgement in wrong]
        raise _stop(pinned, opened, problems, [opened.rules(patch.slug) for patch, _ in wrong])
    compared = worktree.range_diff(pinned.repository, (pinned.base, session.stack_tip), (session.base, session.tip))
    entry = _lock_entry(project, pinned, session)
    if files:
        entry["patched"] = {"commit": tree.commit, "tree": tree.tree}
    changes = _changes(project, pinned, session, folder, files, entry)
    # The session is part of the one change: it knows the files as they are, however often this is killed.
    file, ended = (p.relative_to(project.root).as_posix() for p in (opened.folder / FILE, opened.ended_file))
    if keep:
        changes[file] = replace(session, stack_tip=tree.commit, digest=stack.digest).text()
    else:
        changes[file], changes[ended] = None, replace(session, ended="written").text()
    keep_commits(opened, pinned)
    written = transaction.change_all(project.root, changes)
    if not keep:
        end(opened)
    notes = (*session.notes, *(f"checks.yaml: the checks of {slug} were removed with the patch" for slug in dropped))
    return WrittenStack(
        session.into,
        session.source,
        session.version,
        folder,
        tree.tree,
        tuple(path for path in written if path not in (file, ended)),
        tuple(path for path in written if path not in (file, ended) and changes[path] is None),
        compared,
        rows,
        notes,
        session.dropped,
    )


def require_unchanged(pinned: PinnedStack, opened: SessionFolder) -> None:
    """Raise LockError if the stack's files, or the commit below them, changed since the session began."""
    session = opened.session
    below = session.old_base if session.verb == "rebase" else session.base
    if (pinned.stack.digest, pinned.base) == (session.digest, below):
        return
    tree = opened.worktree(pinned).path
    again = f"save your commits (git format-patch in {tree}), then kz {session.verb} abort, and start again"
    raise LockError(
        f"{pinned.stack.folder} or its pin changed since this {session.verb} began", hint=f"restore it; or {again}"
    )


def _files(project: Project, pinned: PinnedStack, opened: SessionFolder) -> tuple[dict[str, bytes], list[str]]:
    """Return the stack's files as they will be, and the patches whose checks are removed.

    A patch whose change and message stayed keeps its bytes; if either stayed it keeps its name but for the number.
    """
    session = opened.session
    commits = _series(pinned.repository, session)
    mails = format_patch.format_mails(pinned.repository, session.base, session.tip)
    left = _old_patches(project, pinned, session)
    files: dict[str, bytes] = {}
    rules: dict[str, bytes] = {}
    kept_from: dict[str, OldPatch] = {}
    for number, (commit, (slug, mail)) in enumerate(zip(commits, mails, strict=True), 1):
        patch = parse_patch(f"{slug}.patch", mail)
        same = next((o for o in left if _same(o, commit, patch)), None)
        alike = same or next((o for o in left if o.patch.subject == patch.subject), None)
        alike = alike or next((o for o in left if o.commit.changes == commit.changes), None)
        name = f"{number:04d}-{alike.patch.slug if alike else slug}.patch"
        if pinned.files.foreign:
            name = alike.patch.name if alike else _free_name(slug, {*files, *(old.patch.name for old in left)})
        files[name] = same.data if same else mail
        if alike:
            kept_from[name] = alike
            left = [old for old in left if old is not alike]
            rules.update(_rules(pinned, opened, alike.patch, name))
    series = project.root / pinned.stack.folder / "series"
    slugs = {_slug(name) for name in files}
    empty_before = series.is_file() and not pinned.stack.patches
    # The last patch takes the series along, but pins.yaml names the folder of somebody else's.
    if files or pinned.files.foreign or empty_before:
        files["series"] = series_text(
            series.read_bytes().decode("utf-8", "surrogateescape") if series.is_file() else "",
            files,
            {name: (old.patch.name, old.data) for name, old in kept_from.items()},
        )
    files |= rules
    dropped: list[str] = []
    if checks := _checks(project, pinned, opened):
        text, dropped = without_keys(checks, slugs)
        if any(row.strip() and not row.startswith("#") for row in text.splitlines()):
            files["checks.yaml"] = text.encode()
    return files, dropped


def _free_name(slug: str, taken: Collection[str]) -> str:
    """Return a name for a new patch of a stack without numbers, where several commits may have one subject."""
    names = (f"{slug}{end}.patch" for end in ("", *(f"-{number}" for number in range(2, len(taken) + 3))))
    return next(name for name in names if name not in taken)


def _rules(pinned: PinnedStack, opened: SessionFolder, patch: Patch, name: str) -> dict[str, bytes]:
    """Return the file of a patch's rules as the user left it, beside the patch's new name; none if it is empty by now."""
    if not patch.rewrite:
        return {}
    own = opened.rules(patch.slug)
    data = own.read_bytes() if own.is_file() else pinned.files.files[rules_name(patch.name)]
    return {rules_name(name): data} if data.strip() else {}


def _checks(project: Project, pinned: PinnedStack, opened: SessionFolder) -> str:
    """Return the stack's checks as the user left them. Raises ConfigError if their file is gone, or no YAML."""
    if opened.checks.is_file():
        data = opened.checks.read_bytes()
        parse(data, str(opened.checks))
        return data.decode()
    before = project.root / pinned.stack.folder / "checks.yaml"
    if before.is_file():
        raise ConfigError(
            f"{opened.checks} is gone, and the checks of the stack would go with it",
            hint=f"to keep them: cp {before} {opened.checks}. To remove them all: leave that file there, empty",
        )
    return ""


def _slug(name: str) -> str:
    return re.sub(r"^\d+-|\.patch$", "", name)


@dataclass(frozen=True)
class OldPatch:
    """A patch of the stack as it was: its commit, the mail of that commit, and its file."""

    patch: Patch
    commit: Commit
    mail: Patch
    data: bytes


def _old_patches(project: Project, pinned: PinnedStack, session: Session) -> list[OldPatch]:
    """Return the patches of the stack as it was, on its own base."""
    if not pinned.stack.patches:
        return []
    folder = project.root / pinned.stack.folder
    commits = history.log(pinned.repository, pinned.base, session.stack_tip, ())
    written = pinned.stack.patches
    if pinned.files.foreign:  # somebody else's headers differ from what git makes of them
        mails = format_patch.format_mails(pinned.repository, pinned.base, session.stack_tip)
        written = tuple(parse_patch(slug, mail) for slug, mail in mails)
    return [
        OldPatch(patch, commit, mail, (folder / patch.name).read_bytes())
        for patch, commit, mail in zip(pinned.stack.patches, commits, written, strict=True)
    ]


def _same(old: OldPatch, commit: Commit, patch: Patch) -> bool:
    headers = [(p.author, p.date, p.message) for p in (old.mail, patch)]
    return old.commit.changes == commit.changes and headers[0] == headers[1]


def _series(repository: git.Repository, session: Session) -> tuple[Commit, ...]:
    """Return the session's commits. Raises ConfigError if they are not one line on its base."""
    words = ("--reverse", "--parents", "--end-of-options", f"{session.base}..{session.tip}")
    rows = repository.git("rev-list", *words).decode().splitlines()
    below = session.base
    for row in rows:
        commit, *parents = row.split(" ")
        if parents != [below]:
            raise ConfigError(
                f"commit {commit[:10]} is a merge, or is not on {session.base[:10]}",
                hint=f"a stack is one commit on another: git rebase {session.base[:10]} in the worktree makes it so",
            )
        below = commit
    if below != session.tip:
        raise ConfigError(f"the worktree's commits are not on {session.base[:10]}", hint="git rebase them onto it")
    commits = history.log(repository, session.base, session.tip, ())
    if empty := [c for c in commits if not c.changes]:
        raise ConfigError(f"commit {empty[0].shown} changes nothing", hint="drop it: git rebase -i in the worktree")
    return commits


def _read(opened: SessionFolder, folder: str, files: Mapping[str, bytes], *, foreign: bool) -> StackFiles:
    """Read these files as every stack is read."""
    root = opened.folder / "new"
    remove(root)
    for name, data in files.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    into, source = opened.session.into, opened.session.source
    files_read = read_files(root, into, source, folder, foreign=foreign)
    return files_read or StackFiles(into, source, folder, (), {}, "", foreign)


def _stop(
    pinned: PinnedStack, opened: SessionFolder, problems: Sequence[str], rules: Sequence[Path] = ()
) -> ConflictError:
    """Leave the stack's end in the worktree, to be fixed there; `rules` are the files of rules that do not give it."""
    session = opened.session
    tree = opened.worktree(pinned)
    again = "kz refresh" if session.verb == "edit" else f"kz {session.verb} continue"
    checks = f", or the check in {opened.checks}" if opened.checks.is_file() and not rules else ""
    checks += "".join(f", or the rules in {path} (an empty file removes them)" for path in rules)
    lead = f"the patches apply, but their {'rules do not give' if rules else 'checks fail on'} the result:"
    rows, then = [f"  {p}" for p in problems], f"amend the commits in {tree.path}{checks}, then {again}"
    if session.verb != "edit":
        from kz_build.stack.sequencer import checkout

        checkout(pinned, tree, session.tip, set())
        at_end = replace(session, picking=session.tip, stopped="the checks of the result", before=session.base)
        save(opened, pinned, replace(at_end, stop=(*rows, then)))
    return ConflictError("\n".join([lead, *rows, *undo_rows(session)]), hint=then)


def _lock_entry(project: Project, pinned: PinnedStack, session: Session) -> dict[str, Any]:
    """Return the lock's facts on the source without its stack: those of the new base if it changed, with null for what only a fetch knows."""
    old: dict[str, Any] = dict(project.lock.entry(session.line, session.source) or {})
    entry: dict[str, Any] = {**old, "version": session.version}
    if session.base != session.old_base and pinned.source.kind == "wheel":
        from kz_build.stack.resolve_lock import resolve_wheel

        watch = pinned.repository.watch or quiet
        entry = resolve_wheel(project, session.line, session.source, session.version, watch)
    entry.pop("patched", None)
    if session.base != session.old_base and pinned.source.kind == "git":
        from kz_build.stack.lock_submodules import submodules_at

        entry["commit"], entry["tree"] = session.base, pinned.repository.tree_id(session.base)
        entry["submodules"] = submodules_at(project, pinned.source, pinned.repository, session.base, old)
    return entry


def _changes(
    project: Project,
    pinned: PinnedStack,
    session: Session,
    folder: str,
    files: Mapping[str, bytes],
    entry: Mapping[str, Any],
) -> dict[str, bytes | None]:
    """Return every file of the project that changes, with its new content; None if it is removed."""
    root = project.root
    changes: dict[str, bytes | None] = {f"{folder}/{name}": data for name, data in files.items()}
    if session.into == session.line:
        changes.update({f"{folder}/{name}": None for name in pinned.files.files if name not in files})
    lines = {name: dict(entries) for name, entries in project.lock.lines.items()}
    pins = (root / PINS).read_bytes().decode()  # its line ends stay as they are
    if session.into != session.line:
        for name in stack_sources(project, session.line):
            place, to = (project.stack_folder(line, name) for line in (session.line, session.into))
            others = files_below(root / place) if name != session.source and place != to else ()
            changes |= {f"{to}/{path.relative_to(root / place).as_posix()}": path.read_bytes() for path in others}
        pins = with_copy(pins, ("lines", session.line), session.into, **{session.source: session.version})
        lines[session.into] = dict(lines.get(session.line, {}))
    elif session.version != project.pins.line(session.line)[session.source]:
        pins = with_value(pins, ("lines", session.line, session.source), session.version)
    lines.setdefault(session.into, {})[session.source] = dict(entry)
    changes[PINS] = pins.encode()
    changes[LOCK] = Lock(lines).text().encode()
    return changes
