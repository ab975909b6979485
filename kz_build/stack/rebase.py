"""rebase: move a stack to another version of its source. Files change only at the end, all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.core.rules import bad_version
from kz_build.git import refs
from kz_build.pins.pins import NAME
from kz_build.pins.project import Project
from kz_build.sources.request import deviates
from kz_build.stack import session_folder
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources
from kz_build.stack.pinned import PinnedStack, patch_number, pinned_stack, with_files_fetched
from kz_build.stack.resolution import suggested, undo_answer
from kz_build.stack.sequencer import pick_remaining
from kz_build.stack.session import Session
from kz_build.stack.write_back import WrittenStack, require_unchanged, write_back

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.stack.suggestion import Suggestion


def git_source(project: Project, line: str, source: str) -> str:
    """Return the source that is named, or the only git source of the line that has a stack."""
    project.pins.line(line)
    sources = [name for name in stack_sources(project, line) if project.pins.source(name).kind == "git"]
    if not source and len(sources) != 1:
        raise ConfigError(
            f"line {line} has {len(sources) or 'no'} stacks on git sources",
            hint=f"name one: {', '.join(sources)}" if sources else "kz edit SOURCE begins one",
        )
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
    take_above: float = 0,
    watch: Watch | None = None,
) -> WrittenStack | Session:
    """Move a stack to another revision, which becomes the pin of its line or of a new line `into`.

    The patches of `keep` (file, number, name or subject) are applied even if upstream has their change. Return the session
    itself if a killed command had written this very rebase. A candidate whose confidence is at least `take_above` is taken
    unasked, unless that is 0.

    Raises ConflictError at the first patch that a person must resolve, with a worktree to do it in.
    """
    project.pins.line(line)
    wheel = source in stack_sources(project, line) and project.pins.source(source).kind == "wheel"
    name = source if wheel else git_source(project, line, source)
    pinned = pinned_stack(project, line, name, watch=watch)
    before = session_folder.remove_ended(project, "rebase", line, name)
    if before and (before.into, before.base) == (into or line, _version(project, pinned, onto)[1]):
        return before
    if deviates(project, line, name):
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
    return with_files_fetched(project, pinned, lambda c: _start(project, c, onto, into or line, kept, take_above))


def _version(project: Project, pinned: PinnedStack, onto: str) -> tuple[str, str]:
    """Return the version that becomes the pin, and its commit: of a wheel that of its content, which is fetched."""
    if pinned.source.kind == "wheel":
        from kz_build.core.progress import quiet
        from kz_build.stack.resolve_lock import resolve_wheel

        if wrong := bad_version(onto):
            raise ConfigError(f"{onto!r} is no version of {pinned.source.name}: it {wrong}")
        watch = pinned.repository.watch or quiet
        return onto, str(resolve_wheel(project, pinned.files.line, pinned.source.name, onto, watch)["commit"])
    base = refs.resolve_revision(pinned.repository, onto)
    # A branch moves, so the commit becomes the pin.
    return onto if refs.is_tag(pinned.repository, onto) else base, base


def _start(
    project: Project, pinned: PinnedStack, onto: str, into: str, keep: Collection[int], take_above: float
) -> WrittenStack:
    line, name = pinned.stack.line, pinned.stack.source
    session_folder.require_no_edit(project, pinned, into, "rebase")
    version, base = _version(project, pinned, onto)
    tree, _ = apply_source(project, line, name, pinned.repository.watch)
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
        take_above=take_above,
    )
    return carry_on(project, *session_folder.begin(project, pinned, session))


def carry_on(project: Project, pinned: PinnedStack, opened: session_folder.SessionFolder) -> WrittenStack:
    """Pick what is left and finish, in the session's repository. Raises ConflictError if a person must help."""
    session_folder.keep_checks(project, pinned.stack.folder, opened)
    return write_back(project, pinned, pick_remaining(project, pinned, opened))


Change = Callable[[PinnedStack, session_folder.SessionFolder], session_folder.SessionFolder]


def resume(project: Project, verb: str, line: str, source: str, change: Change) -> WrittenStack | Session:
    """Go on with the open session after a change of it: `unchanged`, `skip_patch`, `undo_answer` or `take`. Return the session itself if a
    killed command had written it."""
    opened = session_folder.find_session(project, verb, line, source, ended=True)
    if opened.ended:
        if opened.session.ended == "written" and change is undo_answer:
            raise _too_late(project, opened)
        session_folder.end(opened)
        if opened.session.ended == "written":
            return opened.session
        raise ConfigError(f"no {verb} is in progress: the last one was aborted", hint=f"kz {verb} --help")
    pinned = pinned_stack(project, opened.session.line, opened.session.source, new=True)

    def go_on(fetched: PinnedStack) -> WrittenStack:
        require_unchanged(fetched, opened)
        own = session_folder.in_worktree(project, fetched, opened)
        return carry_on(project, own, change(own, opened))

    return with_files_fetched(project, pinned, go_on)


def suggest(project: Project, line: str, source: str) -> Suggestion:
    """Return candidates for the patch at which the open rebase stopped."""
    opened = session_folder.find_session(project, "rebase", line, source)
    pinned = pinned_stack(project, opened.session.line, opened.session.source, new=True)
    return with_files_fetched(
        project, pinned, lambda c: suggested(project, session_folder.in_worktree(project, c, opened), opened)
    )


def abort(project: Project, verb: str, line: str, source: str) -> Session:
    """Throw the session away; the project stays as it was before. Raises ConfigError if a killed command had written it."""
    opened = session_folder.find_session(project, verb, line, source, ended=True)
    session = opened.session
    if opened.ended and session.ended == "written":
        raise _too_late(project, opened)
    session_folder.abort(opened)
    return session


def _too_late(project: Project, opened: session_folder.SessionFolder) -> ConfigError:
    """Remove what a killed command left of a session whose result was written, and say how to undo that."""
    session_folder.end(opened)
    session = opened.session
    folder = project.stack_folder(session.into, session.source)
    return ConfigError(
        f"the {session.verb} of {session.source} on {session.into} is done: {folder}, pins.yaml and pins.lock were written",
        hint=f"to undo it, if they are in git: git checkout -- {folder} pins.yaml pins.lock",
    )
