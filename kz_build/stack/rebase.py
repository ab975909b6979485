"""rebase: a stack onto another version of its source. Files change at the end only, all at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.pins.pins import NAME
from kz_build.pins.project import Project
from kz_build.stack import sessions
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources
from kz_build.stack.pinned import Carried, carried, chosen, reading
from kz_build.stack.sequencer import proceed, skipped
from kz_build.stack.session import Session
from kz_build.stack.write_back import Finished, finish, unchanged

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def git_source(project: Project, line: str, source: str) -> str:
    """The source that a verb means: the one named, or the only git source of the line that has a stack."""
    project.pins.line(line)
    found = [name for name in stack_sources(project, line) if project.pins.source(name).kind == "git"]
    if not source and len(found) != 1:
        raise ConfigError(f"line {line} has {len(found)} stacks on git sources", hint="say which: --source S")
    if (kind := project.pins.source(source or found[0]).kind) != "git":
        raise ConfigError(f"{source} is a {kind}: it has versions, but no commits of upstream's")
    return source or found[0]


def rebase(
    project: Project,
    line: str,
    source: str,
    onto: str,
    into: str = "",
    keep: Sequence[str] = (),
    watch: Watch | None = None,
) -> Finished:
    """Carry a stack to another revision: its line's new pin, or that of a new line `into`.

    The patches of `keep` (file, number, name or subject) are applied also where upstream has what they change.

    Raises ConflictError at the first patch that needs a person, with a worktree to resolve it in.
    """
    name = git_source(project, line, source)
    held = carried(project, line, name, watch=watch)
    if project.pins.overridden(line, name):
        raise ConfigError(
            f"{name} is overridden in pins.local.yaml",
            hint="a rebase changes the pins of every machine: take the override out first",
        )
    if into and not re.fullmatch(NAME, into):
        raise ConfigError(f"{into!r} is no name for a line", hint="letters, digits, and ._- after the first")
    if into and into in project.pins.lines:
        raise ConfigError(
            f"pins.yaml has a line {into} already", hint=f"rebase that one: kz rebase --line {into} --onto {onto}"
        )
    if into and project.stack_folder(into, name) == held.files.folder:
        raise ConfigError(
            f"{into} would share {held.files.folder} with {line}",
            hint=f"put {{line}} into `patches` of {name} in pins.yaml",
        )
    kept = {chosen(held, patch) for patch in keep}
    return reading(project, held, lambda c: _begun(project, c, onto, into or line, kept))


def _begun(project: Project, held: Carried, onto: str, into: str, keep: Collection[int]) -> Finished:
    line, name = held.stack.line, held.stack.source
    base = refs.known_or_fetched(held.repository, onto)
    tree, _ = apply_source(project, line, name, held.repository.watch)
    # A branch moves: the pin is then the commit.
    version = onto if refs.is_tag(held.repository, onto) else base
    words = ("--reverse", "--end-of-options", f"{held.base}..{tree.commit}")
    commits = held.repository.git("rev-list", *words).decode().split()
    session = Session(
        "rebase",
        line,
        name,
        into,
        version,
        base,
        old_base=held.base,
        old_tip=tree.commit,
        stack_tip=tree.commit,
        digest=held.stack.digest,
        tip=base,
        todo=tuple(commits),
        keep=tuple(commit for number, commit in enumerate(commits) if number in keep),
    )
    return carry_on(project, held, sessions.begin(project, session, held.repository))


def carry_on(project: Project, held: Carried, opened: sessions.Open) -> Finished:
    """Pick what is left and finish. Raises ConflictError where a person is needed, and LockError where the stack changed."""
    unchanged(held, opened.session)
    sessions.keep_checks(project, held.stack.folder, opened)
    return finish(project, held, proceed(project, held, opened))


def resume(project: Project, verb: str, line: str, source: str, *, skip: bool = False) -> Finished:
    """`--continue` or `--skip` of the session that is under way."""
    opened = sessions.the_one(project, verb, line, source)
    held = carried(project, opened.session.line, opened.session.source, new=True)
    return reading(project, held, lambda c: carry_on(project, c, skipped(c, opened) if skip else opened))


def abort(project: Project, verb: str, line: str, source: str) -> Session:
    """Throw the session away; the project is as it was before."""
    opened = sessions.the_one(project, verb, line, source)
    held = carried(project, opened.session.line, opened.session.source, new=True)
    sessions.end(opened, held.repository)
    return opened.session
