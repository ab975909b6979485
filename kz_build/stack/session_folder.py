"""The folder of a rebase, an edit or an import between two commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from kz_build.core.errors import ConfigError, ConflictError
from kz_build.core.files import remove, write_atomic
from kz_build.git.worktree import Worktree, worktree_at
from kz_build.pins.project import Project
from kz_build.sources import clones
from kz_build.stack.files import RULES
from kz_build.stack.pinned import PinnedStack
from kz_build.stack.session import Session, parse_session

FILE, ENDED = "session.json", ".ended.json"
"""A session while it is open, in its folder; the same once its result is written, or it is aborted, beside the folder until that
is gone."""


@dataclass(frozen=True)
class SessionFolder:
    """A session, and where its files are."""

    session: Session
    folder: Path

    @property
    def ended(self) -> bool:
        """Whether only the remains of its folder are left."""
        return not (self.folder / FILE).exists()

    @property
    def ended_file(self) -> Path:
        """The file that says how it ended."""
        return self.folder.with_name(f"{self.folder.name}{ENDED}")

    def worktree(self, pinned: PinnedStack) -> Worktree:
        """The worktree that its user works in."""
        return worktree_at(self.folder / "tree", pinned.repository)

    @property
    def checks(self) -> Path:
        """The stack's checks as they will be at the end; the user may edit them."""
        return self.folder / "checks.yaml"

    def rules(self, slug: str) -> Path:
        """The rules of a patch as they will be at the end; the user may edit them, and leaves an empty file to remove them."""
        return self.folder / f"{slug}{RULES}"


def folder_of(project: Project, verb: str, line: str, source: str) -> Path:
    """out/<verb>/<line>/<source>"""
    return project.out(verb, line, source)


def open_sessions(project: Project, verb: str = "*") -> tuple[SessionFolder, ...]:
    """Return the open sessions of a verb, or of every verb."""
    return tuple(
        _read(project, file, file.parent) for file in sorted((project.root / "out").glob(f"{verb}/*/*/{FILE}"))
    )


def _ended_sessions(project: Project, verb: str) -> tuple[SessionFolder, ...]:
    """Return the sessions of a verb that have ended, and whose folders a killed command has not removed."""
    files = sorted((project.root / "out").glob(f"{verb}/*/*{ENDED}"))
    sessions = (_read(project, file, file.with_name(file.name.removesuffix(ENDED))) for file in files)
    return tuple(opened for opened in sessions if opened.ended)


def _read(project: Project, file: Path, folder: Path) -> SessionFolder:
    # A link in somebody's branch may lead to a device without an end.
    data = file.read_bytes() if file.is_file() else b""
    return SessionFolder(parse_session(data, str(file.relative_to(project.root))), folder)


def find_session(project: Project, verb: str, line: str, source: str, *, ended: bool = False) -> SessionFolder:
    """Return the session that `continue` means: of that line and source if they are given; with `ended` also one whose
    folder a killed command has not removed. Raises ConfigError."""

    def matching(sessions: tuple[SessionFolder, ...]) -> list[SessionFolder]:
        of_line = [o for o in sessions if line in ("", o.session.line, o.session.into)]
        return [o for o in of_line if source in ("", o.session.source)]

    matches = matching(open_sessions(project, verb)) or (matching(_ended_sessions(project, verb)) if ended else [])
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise ConfigError(f"no {verb} is in progress", hint=f"kz {verb} --help")
    names = ", ".join(f"{o.session.line} {o.session.source}" for o in matches)
    raise ConfigError(f"several are in progress: {names}", hint="say which: --line L, --source S")


def save(opened: SessionFolder, pinned: PinnedStack, session: Session) -> SessionFolder:
    """Write the session's current state; the commits that it names come into its own repository first."""
    opened = SessionFolder(session, opened.folder)
    keep_commits(opened, pinned)
    write_atomic(opened.folder / FILE, session.text())
    return opened


def keep_commits(opened: SessionFolder, pinned: PinnedStack) -> None:
    """Copy the commits that a session names into its own repository, so that nothing of it is in the store alone."""
    session = opened.session
    opened.worktree(pinned).keep((session.stack_tip, session.old_tip, session.tip), _upstream(pinned, session))


def _upstream(pinned: PinnedStack, session: Session) -> set[str]:
    """Return the session's commits that can be fetched again; those of wheels and folders cannot."""
    fetched = {pinned.base, session.base, *((session.old_base,) if session.verb == "import-pr" else ())}
    return fetched if pinned.repository.url else set()


def require_none(project: Project, session: Session) -> SessionFolder:
    """Return a new session's folder. Raises ConfigError if one of the same verb is open on that stack.

    Nothing is written: the caller saves it last, when its worktree and checks are complete, so that a session's file
    always has them beside it.
    """
    folder = folder_of(project, session.verb, session.line, session.source)
    if (folder / FILE).exists():
        raise ConfigError(
            f"kz {session.verb} of {session.source} on {session.line} is in progress",
            hint=f"kz {session.verb} continue, skip or abort; it is in {folder}",
        )
    return SessionFolder(session, folder)


def begin(project: Project, pinned: PinnedStack, session: Session) -> tuple[PinnedStack, SessionFolder]:
    """Return a new session in an empty folder, and its stack in a repository of its own: the remains of a killed one are thrown away."""
    opened = require_none(project, session)
    end(opened)
    _forget_unresolved(project, session.source)
    opened.worktree(pinned).create(rerere_folder(project, session.source))
    return in_worktree(project, pinned, opened), opened


def rerere_folder(project: Project, source: str) -> Path:
    """Return where git remembers how conflicts of a source were resolved."""
    return project.out("rerere", source)


def _forget_unresolved(project: Project, source: str) -> None:
    """Remove what git remembers of conflicts that nobody resolved, and never will: no session of the source is open."""
    if any(opened.session.source == source for opened in open_sessions(project)):
        return
    for preimage in rerere_folder(project, source).glob("*/preimage*"):
        if not preimage.with_name(preimage.name.replace("pre", "post")).exists():
            remove(preimage)


def in_worktree(project: Project, pinned: PinnedStack, opened: SessionFolder) -> PinnedStack:
    """Return the stack with the repository of the session's worktree. Upstream's commits are fetched again if the store was deleted.

    Raises ConfigError if the worktree is gone.
    """
    session, clone = opened.session, pinned.repository
    tree = opened.worktree(pinned)
    if not tree.repository.path.is_dir():
        raise ConfigError(f"the worktree {tree.path} is gone", hint=f"kz {session.verb} abort, and start again")
    for commit in sorted(_upstream(pinned, session)):
        if not clone.has(commit):
            clones.fetch_commit(
                project.store, pinned.source.name, clone.url, commit, commit, history=True, watch=clone.watch
            )
    tree.borrow()
    keep_commits(opened, pinned)
    return pinned._replace(repository=tree.repository)


def unfinished_edit(project: Project, line: str, source: str) -> bool:
    """Return whether an edit was killed, or failed, before there was a session."""
    folder = folder_of(project, "edit", line, source)
    return folder.exists() and not (folder / FILE).exists()


def require_no_edit(project: Project, pinned: PinnedStack, line: str, verb: str) -> None:
    """Raise ConflictError if somebody has an edit of this stack open with work that is not in its files: it would no longer fit them."""
    for opened in open_sessions(project, "edit"):
        tree = opened.worktree(pinned)
        if (opened.session.line, opened.session.source) != (line, pinned.source.name) or not tree.path.exists():
            continue
        in_worktree(project, pinned, opened)
        if tree.dirty() or tree.head() != opened.session.tip:
            raise ConflictError(
                f"kz edit has work in {tree.path} that is not in the patches yet, and this {verb} changes them",
                hint="kz refresh writes it, kz edit abort throws it away",
            )


def keep_checks(project: Project, folder: str, opened: SessionFolder) -> None:
    """Copy the stack's checks, and the rules of its patches, beside the worktree, unless a copy is there."""
    place = project.root / folder
    copies = {place / "checks.yaml": opened.checks}
    copies |= {
        path: opened.rules(re.sub(r"^\d+-", "", path.name.removesuffix(RULES))) for path in place.glob(f"*{RULES}")
    }
    for path, copy in copies.items():
        if path.is_file() and not copy.exists():
            write_atomic(copy, path.read_bytes())


def remove_ended(project: Project, verb: str, line: str, source: str) -> Session | None:
    """Remove what a killed command left of a session that had ended; return it if its result was written."""
    folder = folder_of(project, verb, line, source)
    for opened in _ended_sessions(project, verb):
        if opened.folder == folder:
            end(opened)
            return opened.session if opened.session.ended == "written" else None
    return None


def abort(opened: SessionFolder) -> None:
    """Throw a session away, even if this is killed: the next command goes on with it."""
    write_atomic(opened.ended_file, replace(opened.session, ended="aborted").text())
    end(opened)


def end(opened: SessionFolder) -> None:
    """Remove a session's folder: its file first, because it says that the others are complete; last what says how it ended."""
    remove(opened.folder / FILE)
    remove(opened.folder)
    remove(opened.ended_file)
