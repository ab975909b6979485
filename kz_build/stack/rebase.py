"""rebase: move a stack to another version of its source. Files change only at the end, all at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.pins.pins import NAME
from kz_build.pins.project import Project
from kz_build.stack import session_folder
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources
from kz_build.stack.pinned import PinnedStack, patch_number, pinned_stack, with_files_fetched
from kz_build.stack.sequencer import pick_remaining, skip_patch
from kz_build.stack.session import Session
from kz_build.stack.write_back import WrittenStack, require_unchanged, write_back

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def git_source(project: Project, line: str, source: str) -> str:
    """Return the source that is named, or the only git source of the line that has a stack."""
    project.pins.line(line)
    sources = [name for name in stack_sources(project, line) if project.pins.source(name).kind == "git"]
    if not source and len(sources) != 1:
        raise ConfigError(f"line {line} has {len(sources)} stacks on git sources", hint="say which: --source S")
    if (kind := project.pins.source(source or sources[0]).kind) != "git":
        raise ConfigError(f"{source} is a {kind}: it has versions, but no upstream commits")
    return source or sources[0]


def rebase(
    project: Project,
    line: str,
    source: str,
    onto: str,
    into: str = "",
    keep: Sequence[str] = (),
    watch: Watch | None = None,
) -> WrittenStack:
    """Move a stack to another revision, which becomes the pin of its line or of a new line `into`.

    The patches of `keep` (file, number, name or subject) are applied even if upstream has their change.

    Raises ConflictError at the first patch that a person must resolve, with a worktree to do it in.
    """
    name = git_source(project, line, source)
    pinned = pinned_stack(project, line, name, watch=watch)
    if project.pins.overridden(line, name):
        raise ConfigError(
            f"{name} is overridden in pins.local.yaml",
            hint="a rebase changes the pins of every machine: remove the override first",
        )
    if into and not re.fullmatch(NAME, into):
        raise ConfigError(
            f"{into!r} is not a valid name for a line", hint="use letters, digits, and ._- after the first character"
        )
    if into and into in project.pins.lines:
        raise ConfigError(
            f"pins.yaml has a line {into} already", hint=f"to rebase that one: kz rebase --line {into} --onto {onto}"
        )
    if into and project.stack_folder(into, name) == pinned.files.folder:
        raise ConfigError(
            f"{into} would share {pinned.files.folder} with {line}",
            hint=f"put {{line}} into `patches` of {name} in pins.yaml",
        )
    kept = {patch_number(pinned, patch) for patch in keep}
    return with_files_fetched(project, pinned, lambda c: _start(project, c, onto, into or line, kept))


def _start(project: Project, pinned: PinnedStack, onto: str, into: str, keep: Collection[int]) -> WrittenStack:
    line, name = pinned.stack.line, pinned.stack.source
    base = refs.resolve_revision(pinned.repository, onto)
    tree, _ = apply_source(project, line, name, pinned.repository.watch)
    # A branch moves, so the commit becomes the pin.
    version = onto if refs.is_tag(pinned.repository, onto) else base
    words = ("--reverse", "--end-of-options", f"{pinned.base}..{tree.commit}")
    commits = pinned.repository.git("rev-list", *words).decode().split()
    session = Session(
        "rebase",
        line,
        name,
        into,
        version,
        base,
        old_base=pinned.base,
        old_tip=tree.commit,
        stack_tip=tree.commit,
        digest=pinned.stack.digest,
        tip=base,
        todo=tuple(commits),
        keep=tuple(commit for number, commit in enumerate(commits) if number in keep),
    )
    return carry_on(project, pinned, session_folder.begin(project, session, pinned.repository))


def carry_on(project: Project, pinned: PinnedStack, opened: session_folder.SessionFolder) -> WrittenStack:
    """Pick what is left and finish. Raises ConflictError if a person must help, LockError if the stack changed."""
    require_unchanged(pinned, opened.session)
    session_folder.keep_checks(project, pinned.stack.folder, opened)
    return write_back(project, pinned, pick_remaining(project, pinned, opened))


def resume(project: Project, verb: str, line: str, source: str, *, skip: bool = False) -> WrittenStack:
    """`continue` or `skip` the open session."""
    opened = session_folder.find_session(project, verb, line, source)
    pinned = pinned_stack(project, opened.session.line, opened.session.source, new=True)
    return with_files_fetched(
        project, pinned, lambda c: carry_on(project, c, skip_patch(c, opened) if skip else opened)
    )


def abort(project: Project, verb: str, line: str, source: str) -> Session:
    """Throw the session away; the project stays as it was before."""
    opened = session_folder.find_session(project, verb, line, source)
    pinned = pinned_stack(project, opened.session.line, opened.session.source, new=True)
    session_folder.end(opened, pinned.repository)
    return opened.session
