"""The folder of a rebase, an edit or an import between two commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import ConfigError
from kz_build.core.files import remove, write_atomic
from kz_build.git.repository import Repository
from kz_build.git.worktree import Worktree
from kz_build.pins.project import Project
from kz_build.stack.session import Session, parse_session

FILE = "session.json"


@dataclass(frozen=True)
class SessionFolder:
    """An open session, and where its files are."""

    session: Session
    folder: Path

    def worktree(self, repository: Repository) -> Worktree:
        """The worktree that its user works in."""
        return Worktree(repository, self.folder / "tree")

    @property
    def checks(self) -> Path:
        """The stack's checks as they will be at the end; the user may edit them."""
        return self.folder / "checks.yaml"


def folder_of(project: Project, verb: str, line: str, source: str) -> Path:
    """out/<verb>/<line>/<source>"""
    return project.out(verb, line, source)


def open_sessions(project: Project, verb: str = "*") -> tuple[SessionFolder, ...]:
    """Return the open sessions of a verb, or of every verb."""
    files = sorted((project.root / "out").glob(f"{verb}/*/*/{FILE}"))
    return tuple(SessionFolder(_read(project, file.parent), file.parent) for file in files)


def _read(project: Project, folder: Path) -> Session:
    return parse_session((folder / FILE).read_bytes(), f"{folder.relative_to(project.root)}/{FILE}")


def find_session(project: Project, verb: str, line: str, source: str) -> SessionFolder:
    """Return the session that `continue` means: of that line and source if they are given. Raises ConfigError."""
    matches = [
        o
        for o in open_sessions(project, verb)
        if line in ("", o.session.line, o.session.into) and source in ("", o.session.source)
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise ConfigError(f"no {verb} is in progress", hint=f"kz {verb} --help")
    names = ", ".join(f"{o.session.line} {o.session.source}" for o in matches)
    raise ConfigError(f"several are in progress: {names}", hint="say which: --line L, --source S")


def save(opened: SessionFolder, session: Session) -> SessionFolder:
    """Write the session's current state."""
    write_atomic(opened.folder / FILE, session.text())
    return SessionFolder(session, opened.folder)


def new(project: Project, session: Session) -> SessionFolder:
    """Return a new session. Raises ConfigError if one of the same verb is open on that stack.

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


def begin(project: Project, session: Session, repository: Repository) -> SessionFolder:
    """Return a new session in an empty folder: the remains of a killed one are thrown away."""
    opened = new(project, session)
    end(opened, repository)
    return opened


def unfinished(project: Project, verb: str, line: str, source: str) -> bool:
    """Return whether one was killed, or failed, before there was a session."""
    folder = folder_of(project, verb, line, source)
    return folder.exists() and not (folder / FILE).exists()


def keep_checks(project: Project, folder: str, opened: SessionFolder) -> None:
    """Copy the stack's checks beside the worktree, unless a copy is there."""
    checks = project.root / folder / "checks.yaml"
    if checks.is_file() and not opened.checks.exists():
        write_atomic(opened.checks, checks.read_bytes())


def end(opened: SessionFolder, repository: Repository) -> None:
    """Throw a session away with its worktree; its file first, because it says that the others are complete."""
    remove(opened.folder / FILE)
    opened.worktree(repository).remove()
    remove(opened.folder)
