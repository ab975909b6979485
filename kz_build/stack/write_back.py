"""The end of a rebase, an edit or an import: commits become patch files, and pins and lock follow, all as one change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kz_build.core import transaction
from kz_build.core.errors import ConfigError, ConflictError, LockError
from kz_build.core.files import remove
from kz_build.core.yaml_edit import with_copy, with_value, without_keys
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
from kz_build.stack.files import StackFiles, read_files
from kz_build.stack.pinned import Carried
from kz_build.stack.session import Dropped, Session
from kz_build.stack.sessions import FILE, Open, end, save
from kz_build.stack.verdict_cache import judged


@dataclass(frozen=True)
class Finished:
    """A stack as it was written: the files that changed, git's range-diff of old and new, a verdict on each patch, and the
    patches that were dropped because upstream has them."""

    line: str
    source: str
    version: str
    folder: str
    tree: str
    files: tuple[str, ...]
    range_diff: str
    judged: tuple[Judgement, ...]
    notes: tuple[str, ...]
    dropped: tuple[Dropped, ...]


def finish(project: Project, held: Carried, opened: Open, *, keep: bool = False) -> Finished:
    """Write the commits of the session as the stack of its line. `keep` leaves the worktree for more.

    Raises ConfigError for commits that are no series, and ConflictError where an intent check does not hold on the
    result: the worktree then stays, at the stack's end, for the mending.
    """
    session = opened.session
    files, dropped = _files(project, held, opened)
    folder = project.stack_folder(session.into, session.source)
    fresh = held._replace(
        files=_read(opened, folder, files, foreign=held.files.foreign),
        version=session.version,
        base=session.base,
        locked=None,
    )
    stack = fresh.stack
    tree, problems = apply_to(held.repository, session.base, stack, None)
    if tree is None:
        raise _broken(held, opened, [str(p) for p in problems])
    assert tree.tree == held.repository.tree_id(session.tip), "the files give another tree than the commits"
    with held.repository.objects() as objects:
        states = trees.read_ids(objects, [session.base], stack.touched)
        rows = judged(fresh, project.store, objects, states)[0]
    compared = worktree.range_diff(held.repository, (held.base, session.stack_tip), (session.base, session.tip))
    changes = _changes(project, held, session, folder, files, _entry(project, held, session, tree.commit, tree.tree))
    written = tuple(sorted(path for path, data in changes.items() if _differs(project.root / path, data)))
    # The session is a part of the one change: it knows the files as they are, however often this is killed.
    kept = replace(session, stack_tip=tree.commit, digest=stack.digest).text() if keep else None
    changes[(opened.folder / FILE).relative_to(project.root).as_posix()] = kept
    transaction.change_all(project.root, changes)
    if not keep:
        end(opened, held.repository)
    notes = (*session.notes, *(f"checks.yaml: what it asked of {slug} went with the patch" for slug in dropped))
    return Finished(
        session.into,
        session.source,
        session.version,
        folder,
        tree.tree,
        written,
        compared,
        rows,
        notes,
        session.dropped,
    )


def unchanged(held: Carried, session: Session) -> None:
    """Raise LockError where the stack's files, or what they stand on, are others than when the session began."""
    below = session.old_base if session.verb == "rebase" else session.base
    if (held.stack.digest, held.base) == (session.digest, below):
        return
    raise LockError(
        f"{held.stack.folder} or its pin changed since this {session.verb} began",
        hint=f"put it back as it was, or begin again: kz {session.verb} --abort",
    )


def _files(project: Project, held: Carried, opened: Open) -> tuple[dict[str, bytes], list[str]]:
    """The stack's files as they will be, and the patches whose checks go with them.

    A patch whose change and message stayed keeps its bytes; one of which either stayed keeps its name but for the number.
    """
    session = opened.session
    commits = _series(held.repository, session)
    made = format_patch.format_mails(held.repository, session.base, session.tip)
    old = _old(project, held, session)
    files: dict[str, bytes] = {}
    was: dict[str, Old] = {}
    for number, (commit, (slug, mail)) in enumerate(zip(commits, made, strict=True), 1):
        patch = parse_patch(f"{slug}.patch", mail)
        left = [o for o in old if o not in was.values()]
        same = next((o for o in left if _same(o, commit, patch)), None)
        alike = same or next((o for o in left if o.patch.subject == patch.subject), None)
        alike = alike or next((o for o in left if o.commit.changes == commit.changes), None)
        name = f"{number:04d}-{alike.patch.slug if alike else slug}.patch"
        if held.files.foreign:
            name = alike.patch.name if alike else f"{slug}.patch"
        files[name] = same.data if same else mail
        if alike:
            was[name] = alike
    series = project.root / held.stack.folder / "series"
    slugs = {_slug(name) for name in files}
    if files:
        files["series"] = _series_text(series.read_text() if series.is_file() else "", files, was)
    dropped: list[str] = []
    if checks := _checks(project, held, opened):
        text, dropped = without_keys(checks, slugs)
        if any(row.strip() and not row.startswith("#") for row in text.splitlines()):
            files["checks.yaml"] = text.encode()
    return files, dropped


def _checks(project: Project, held: Carried, opened: Open) -> str:
    """The stack's checks as they were left. Raises ConfigError where their file is gone."""
    if opened.checks.is_file():
        return opened.checks.read_text()
    before = project.root / held.stack.folder / "checks.yaml"
    if before.is_file():
        raise ConfigError(
            f"{opened.checks} is gone, and the checks of the stack would go with it",
            hint=f"to keep them: cp {before} {opened.checks}. To remove them all: leave that file there, empty",
        )
    return ""


def _slug(name: str) -> str:
    return re.sub(r"^\d+-|\.patch$", "", name)


@dataclass(frozen=True)
class Old:
    """A patch of the stack as it was: its commit, what that says as a mail, and its file."""

    patch: Patch
    commit: Commit
    mail: Patch
    data: bytes


def _old(project: Project, held: Carried, session: Session) -> list[Old]:
    """The stack as it was, on its own base."""
    if not held.stack.patches:
        return []
    folder = project.root / held.stack.folder
    commits = history.log(held.repository, held.base, session.stack_tip, ())
    said = held.stack.patches
    if held.files.foreign:  # others' headers are not yet what git makes of them
        made = format_patch.format_mails(held.repository, held.base, session.stack_tip)
        said = tuple(parse_patch(slug, mail) for slug, mail in made)
    return [
        Old(patch, commit, mail, (folder / patch.name).read_bytes())
        for patch, commit, mail in zip(held.stack.patches, commits, said, strict=True)
    ]


def _same(old: Old, commit: Commit, patch: Patch) -> bool:
    said = [(p.author, p.date, p.message) for p in (old.mail, patch)]
    return old.commit.changes == commit.changes and said[0] == said[1]


def _series(repository: git.Repository, session: Session) -> tuple[Commit, ...]:
    """The session's commits. Raises ConfigError where they are not one line on its base."""
    words = ("--reverse", "--parents", "--end-of-options", f"{session.base}..{session.tip}")
    rows = repository.git("rev-list", *words).decode().splitlines()
    below = session.base
    for row in rows:
        commit, *parents = row.split(" ")
        if parents != [below]:
            raise ConfigError(
                f"commit {commit[:10]} is a merge, or does not stand on {session.base[:10]}",
                hint="a stack is one commit on another: git rebase in the worktree straightens it",
            )
        below = commit
    if below != session.tip:
        raise ConfigError(f"the worktree's commits do not stand on {session.base[:10]}", hint="git rebase them onto it")
    found = history.log(repository, session.base, session.tip, ())
    if empty := [c for c in found if not c.changes]:
        raise ConfigError(f"commit {empty[0].shown} changes nothing", hint="drop it: git rebase -i in the worktree")
    return found


def _series_text(text: str, files: Mapping[str, bytes], was: Mapping[str, Old]) -> bytes:
    """The series file, with the comments that stood above each patch that stays, and options of those that kept their bytes."""
    above: dict[str, list[str]] = {}
    rows: dict[str, str] = {}
    comments: list[str] = []
    for row in text.splitlines():
        words = row.split("#", 1)[0].split()
        if words:
            above[words[0]], comments = comments, []
            rows[words[0]] = row
        else:
            comments.append(row)
    made = []
    for name, data in files.items():
        old = was.get(name)
        made += above.get(old.patch.name, []) if old else []
        made.append(rows[name] if old and old.patch.name == name and old.data == data else name)
    return "".join(f"{row}\n" for row in (*made, *comments)).encode()


def _read(opened: Open, folder: str, files: Mapping[str, bytes], *, foreign: bool) -> StackFiles:
    """The stack that these files are, read as every stack is."""
    root = opened.folder / "new"
    remove(root)
    for name, data in files.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    into, source = opened.session.into, opened.session.source
    found = read_files(root, into, source, folder, foreign=foreign)
    return found or StackFiles(into, source, folder, (), {}, "", foreign)


def _broken(held: Carried, opened: Open, problems: Sequence[str]) -> ConflictError:
    """Leave the stack's end in the worktree, to be mended there."""
    session = opened.session
    tree = opened.worktree(held.repository)
    again = "kz refresh"
    if session.verb != "edit":
        from kz_build.stack.sequencer import lay

        lay(held, tree, session.tip, set())
        save(opened, replace(session, picking=session.tip, stopped="the checks of the result", before=session.base))
        again = f"kz {session.verb} --continue"
    checks = f", or the check in {opened.checks}" if opened.checks.is_file() else ""
    return ConflictError(
        "\n".join(["the patches apply, but the result is not what they are for:", *(f"  {p}" for p in problems)]),
        hint=f"amend the commits in {tree.path}{checks}, then {again}",
    )


def _entry(project: Project, held: Carried, session: Session, commit: str, tree: str) -> dict[str, Any]:
    """The lock's facts on the source: those of the new base where it changed, what only a fetch can tell left unknown."""
    old: dict[str, Any] = dict(project.lock.entry(session.line, session.source) or {})
    entry: dict[str, Any] = {**old, "version": session.version}
    if session.tip == session.base:
        entry.pop("patched", None)
    else:
        entry["patched"] = {"commit": commit, "tree": tree}
    if session.base != session.old_base and held.source.kind == "git":
        from kz_build.stack.resolve_lock import submodules_at

        entry["commit"], entry["tree"] = session.base, held.repository.tree_id(session.base)
        entry["submodules"] = submodules_at(project, held.source, held.repository, session.base, old)
    return entry


def _changes(
    project: Project,
    held: Carried,
    session: Session,
    folder: str,
    files: Mapping[str, bytes],
    entry: Mapping[str, Any],
) -> dict[str, bytes | None]:
    """Every file of the project that changes, with its new content; None where it goes."""
    root = project.root
    changes: dict[str, bytes | None] = {f"{folder}/{name}": data for name, data in files.items()}
    if session.into == session.line:
        old = (*(p.name for p in held.stack.patches), "series", "checks.yaml")
        changes.update({f"{folder}/{name}": None for name in old if name not in files})
    lines = {name: dict(entries) for name, entries in project.lock.lines.items()}
    pins = (root / PINS).read_text()
    if session.into != session.line:
        for path in sorted((root / "patches" / session.line).glob("*/*")):
            name = path.parent.name
            if name != session.source and path.is_file():
                changes[f"patches/{session.into}/{name}/{path.name}"] = path.read_bytes()
        place = ("lines", session.line)
        pins = with_copy(pins, place, session.into, **{session.source: session.version})
        lines[session.into] = dict(lines.get(session.line, {}))
    elif session.version != project.pins.line(session.line)[session.source]:
        pins = with_value(pins, ("lines", session.line, session.source), session.version)
    lines.setdefault(session.into, {})[session.source] = dict(entry)
    changes[PINS] = pins.encode()
    changes[LOCK] = Lock(lines).text().encode()
    return changes


def _differs(path: Path, data: bytes | None) -> bool:
    try:
        return path.read_bytes() != data
    except FileNotFoundError:
        return data is not None
