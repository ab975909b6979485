"""Where a rebase, an edit or an import stands, between two commands."""

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
class Open:
    """A session that is under way, and where its files are."""

    session: Session
    folder: Path

    def worktree(self, repository: Repository) -> Worktree:
        """Where its user works."""
        return Worktree(repository, self.folder / "tree")

    @property
    def checks(self) -> Path:
        """The stack's checks as they will be at the end; its user may edit them."""
        return self.folder / "checks.yaml"


def folder_of(project: Project, verb: str, line: str, source: str) -> Path:
    """out/<verb>/<line>/<source>"""
    return project.out(verb, line, source)


def under_way(project: Project, verb: str = "*") -> tuple[Open, ...]:
    """All sessions of a verb, or of every verb."""
    files = sorted((project.root / "out").glob(f"{verb}/*/*/{FILE}"))
    return tuple(Open(_read(project, file.parent), file.parent) for file in files)


def _read(project: Project, folder: Path) -> Session:
    return parse_session((folder / FILE).read_bytes(), f"{folder.relative_to(project.root)}/{FILE}")


def the_one(project: Project, verb: str, line: str, source: str) -> Open:
    """The session that a `--continue` means: of that line and source where they are given. Raises ConfigError."""
    found = [
        o
        for o in under_way(project, verb)
        if line in ("", o.session.line, o.session.into) and source in ("", o.session.source)
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(f"no {verb} is under way", hint=f"kz {verb} --help")
    said = ", ".join(f"{o.session.line} {o.session.source}" for o in found)
    raise ConfigError(f"several are under way: {said}", hint="say which: --line L, --source S")


def save(opened: Open, session: Session) -> Open:
    """Note where it stands now."""
    write_atomic(opened.folder / FILE, session.text())
    return Open(session, opened.folder)


def new(project: Project, session: Session) -> Open:
    """A new session. Raises ConfigError where one of the same verb is under way on that stack.

    Nothing is written: the caller saves it last, when its worktree and checks are complete, so that a file of a session
    always has them beside it.
    """
    folder = folder_of(project, session.verb, session.line, session.source)
    if (folder / FILE).exists():
        raise ConfigError(
            f"kz {session.verb} of {session.source} on {session.line} is under way",
            hint=f"kz {session.verb} --continue, --skip or --abort; it stands in {folder}",
        )
    return Open(session, folder)


def begin(project: Project, session: Session, repository: Repository) -> Open:
    """As `new`, in an empty folder: what one that was killed before its end left there is thrown away."""
    opened = new(project, session)
    end(opened, repository)
    return opened


def unfinished(project: Project, verb: str, line: str, source: str) -> bool:
    """Whether one was killed, or failed, before there was a session."""
    folder = folder_of(project, verb, line, source)
    return folder.exists() and not (folder / FILE).exists()


def keep_checks(project: Project, folder: str, opened: Open) -> None:
    """Have a copy of the stack's checks beside the worktree, unless there is one."""
    checks = project.root / folder / "checks.yaml"
    if checks.is_file() and not opened.checks.exists():
        write_atomic(opened.checks, checks.read_bytes())


def end(opened: Open, repository: Repository) -> None:
    """Throw a session away, worktree and all; its file first, for it says that the others are complete."""
    remove(opened.folder / FILE)
    opened.worktree(repository).remove()
    remove(opened.folder)
