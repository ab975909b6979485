"""A stack and its pinned upstream: the start of every verb about patches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kz_build.core.errors import ConfigError, LockError, similar
from kz_build.git import repository as git
from kz_build.git.cat_file import ObjectsMissing
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources.request import deviates
from kz_build.stack.files import StackFiles, read_stack, require_stacks_of_lock, stack_sources

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.patch.apply import Stack

T = TypeVar("T")


class _PinnedStackFields(NamedTuple):
    files: StackFiles
    source: Source
    version: str
    repository: git.Repository
    base: str
    locked: str | None


class PinnedStack(_PinnedStackFields):
    """A stack, its source and the commit it is pinned to ('' if only a fetch can tell).

    `locked` is the tree that pins.lock has for the stack, None if an override makes it one that no lock knows.
    """

    @cached_property
    def stack(self) -> Stack:
        """The stack, parsed. Raises ConfigError with file and line."""
        from kz_build.stack.parse import (
            parse_stack,  # with the patch engine 10 ms; cached verdicts need neither
        )

        return parse_stack(self.files)


def pinned_stack(
    project: Project, line: str, name: str, *, new: bool = False, watch: Watch | None = None
) -> PinnedStack:
    """Return the stack of a source on a line, with `new` an empty one if there is none.

    Raises ConfigError if there is none, LockError if the pin is not locked.
    """
    names = sorted(project.pins.line(line))
    if name not in names:
        folder = f"patches/{line}/{name}"
        where = f", and there is a folder {folder}" if (project.root / folder).is_dir() else ""
        raise ConfigError(
            f"line {line} pins no source {name}{where}{similar(name, names)}", hint=f"it has: {', '.join(names)}"
        )
    files = read_stack(project, line, name)
    if files is None and new:
        files = StackFiles(line, name, f"patches/{line}/{name}", (), {}, "")
    if files is None:
        raise ConfigError(
            f"{name} has no stack on line {line}", hint=f"a stack has a file patches/{line}/{name}/series"
        )
    overridden = deviates(project, line, name)
    entry: Any = project.lock.entry(line, name) if overridden else project.locked(line, name)
    source = project.pins.source(name)
    url = "" if source.kind == "wheel" else project.git_url(source)
    path = git.repository_path(project.store, source.name, url) if url else git.contents_path(project.store)
    base = "" if overridden else str(entry.get("commit") or "")
    locked = str(((entry or {}).get("patched") or {}).get("tree") or "")
    return PinnedStack(files, source, project.pins.line(line)[name], git.Repository(path, watch, url), base, locked)


def pinned_stacks(
    project: Project, line: str, watch: Watch | None = None, sources: Collection[str] = ()
) -> list[PinnedStack]:
    """Return every stack of a line, or those on `sources`. Raises ConfigError for an unknown line, LockError for a stack that only
    the lock has, and as `pinned_stack` does."""
    require_stacks_of_lock(project, line, sources or None)
    names = [name for name in stack_sources(project, line) if not sources or name in sources]
    return [pinned_stack(project, line, name, watch=watch) for name in names]


def require_stacks(project: Project, lines: Sequence[str], sources: Collection[str]) -> None:
    """Raise ConfigError unless each source has a stack on one of the lines."""
    names = {name for line in lines if project.pins.line(line) for name in stack_sources(project, line)}
    if unknown := [source for source in sources if source not in names]:
        raise ConfigError(
            f"{', '.join(unknown)}: no stack on {'line' if len(lines) == 1 else 'lines'} {', '.join(lines)}",
            hint=f"there are stacks on: {', '.join(sorted(names)) or 'nothing'}",
        )


class AbsentRevision(NamedTuple):
    """A stack whose upstream lacks the revision that the other stacks were judged on, and what upstream said."""

    line: str
    source: str
    absent: str


def judge_each(
    project: Project, stacks: Sequence[PinnedStack], judge: Callable[[PinnedStack], T]
) -> tuple[tuple[T, ...], tuple[AbsentRevision, ...]]:
    """Judge stacks, and return those whose upstream lacks the revision. Raises UnknownRevisionError if all of them do."""
    from kz_build.git.refs import UnknownRevisionError

    results: list[T] = []
    absent: list[AbsentRevision] = []
    for number, pinned in enumerate(stacks, 1):
        try:
            results.append(with_files_fetched(project, pinned, judge))
        except UnknownRevisionError as error:
            if number == len(stacks) and not results:
                raise
            absent.append(AbsentRevision(pinned.files.line, pinned.files.source, str(error)))
    return tuple(results), tuple(absent)


def patch_number(pinned: PinnedStack, name: str) -> int:
    """Return the place in the stack, from 0, of the patch with this file, number, name or subject. Raises ConfigError."""
    patches = pinned.stack.patches
    for i, p in enumerate(patches):
        if name in (p.name, p.name.removesuffix(".patch"), p.slug, p.subject, p.name.split("-", 1)[0], str(i + 1)):
            return i
    raise ConfigError(
        f"{pinned.stack.folder} has no patch {name!r}", hint="there are: " + ", ".join(p.name for p in patches)
    )


def with_files_fetched(project: Project, pinned: PinnedStack, do: Callable[[PinnedStack], T]) -> T:
    """Call `do`, which reads the pinned files; fetch what is missing and call it again only if it fails for that."""
    try:
        if pinned.base and pinned.repository.exists():
            return do(pinned)
    except ObjectsMissing:
        pass
    return do(_fetch(project, pinned))


def _fetch(project: Project, pinned: PinnedStack) -> PinnedStack:
    from kz_build.core.progress import quiet
    from kz_build.sources import clones, fetch
    from kz_build.sources.archive import wheel_files
    from kz_build.sources.request import Request

    name = pinned.source.name
    if pinned.source.kind == "git" and pinned.source.options.get("upstream"):  # a wheel's: no stage fetches that
        clones.fill(project.store, pinned.repository, pinned.base, (), frozenset(pinned.stack.touched))
        return pinned
    request = Request(
        pinned.stack.line, (name,), paths={name: pinned.stack.touched}, watch=pinned.repository.watch or quiet
    )
    fetched = fetch.fetch(project, request)[0]
    if fetched.trees:
        at = fetched.trees[0]
    else:
        if fetched.file is None:
            raise LockError(f"{name} is a {fetched.kind}, and no file of it was fetched")
        content = wheel_files(fetched.file)
        at = clones.import_files(project.store, "", content, fetched.identity, pinned.repository.watch)
    url = pinned.repository.url if at.repository == pinned.repository.path else ""
    return pinned._replace(
        repository=git.Repository(at.repository, pinned.repository.watch, url),
        base=at.commit,
        locked=None if fetched.note else pinned.locked,
    )
