"""Where a rebase, an edit or an import stands, between two commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kz_build.adapters.files import remove, write_atomic
from kz_build.adapters.git import Repository
from kz_build.adapters.worktree import Worktree
from kz_build.model.errors import ConfigError
from kz_build.model.project import Project
from kz_build.model.session import Session, parse_session

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


def begin(project: Project, session: Session) -> Open:
    """A new session. Raises ConfigError where one of the same verb is under way on that stack.

    One that was killed before anything was put before its user has nothing to lose: the new one takes its place.
    """
    folder = folder_of(project, session.verb, session.line, session.source)
    if (folder / FILE).exists() and (session.verb == "edit" or _read(project, folder).picking):
        raise ConfigError(
            f"kz {session.verb} of {session.source} on {session.line} is under way",
            hint=f"kz {session.verb} --continue, --skip or --abort; it stands in {folder}",
        )
    return save(Open(session, folder), session)


def keep_checks(project: Project, folder: str, opened: Open) -> None:
    """Have a copy of the stack's checks beside the worktree, unless there is one."""
    checks = project.root / folder / "checks.yaml"
    if checks.is_file() and not opened.checks.exists():
        write_atomic(opened.checks, checks.read_bytes())


def end(opened: Open, repository: Repository) -> None:
    """Throw a session away, worktree and all."""
    opened.worktree(repository).remove()
    remove(opened.folder)
