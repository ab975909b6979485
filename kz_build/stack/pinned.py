"""A stack and the upstream that it stands on: what every verb about patches begins with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kz_build.core.errors import ConfigError
from kz_build.git import repository as git
from kz_build.git.cat_file import ObjectsMissing
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.stack.files import StackFiles, read_stack

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.patch.apply import Stack

T = TypeVar("T")


class _Held(NamedTuple):
    files: StackFiles
    source: Source
    version: str
    repository: git.Repository
    base: str
    locked: str | None


class Carried(_Held):
    """A stack, its source and the commit it is pinned to ('' where only a fetch will tell).

    `locked` is the tree that pins.lock has for the stack, None where an override makes it one that no lock knows.
    """

    @cached_property
    def stack(self) -> Stack:
        """The stack as its files say it. Raises ConfigError naming file and line."""
        from kz_build.stack.parse import (
            parse_stack,  # with the patch engine 10 ms; what is remembered needs neither
        )

        return parse_stack(self.files)


def carried(project: Project, line: str, name: str, *, new: bool = False, watch: Watch | None = None) -> Carried:
    """The stack of a source on a line, with `new` an empty one where there is none.

    Raises ConfigError where there is none, LockError where the pin is not locked.
    """
    files = read_stack(project, line, name)
    if files is None and new:
        if name not in project.pins.line(line):
            raise ConfigError(
                f"line {line} pins no source {name}", hint=f"it has: {', '.join(sorted(project.pins.line(line)))}"
            )
        files = StackFiles(line, name, f"patches/{line}/{name}", (), {}, "")
    if files is None:
        raise ConfigError(f"{name} has no stack on line {line}", hint=f"patches/{line}/{name}/series would be it")
    overridden = project.pins.overridden(line, name)
    entry: Any = project.lock.entry(line, name) if overridden else project.locked(line, name)
    source = project.pins.source(name)
    url = "" if source.kind == "wheel" else project.git_url(source)
    path = git.repository_path(project.store, source.name, url) if url else git.contents_path(project.store)
    base = "" if overridden else str(entry.get("commit") or "")
    locked = str(((entry or {}).get("patched") or {}).get("tree") or "")
    return Carried(files, source, project.pins.line(line)[name], git.Repository(path, watch, url), base, locked)


def chosen(held: Carried, name: str) -> int:
    """Place in the stack, from 0, of the patch that a person means by its file, number, name or subject. Raises ConfigError."""
    patches = held.stack.patches
    for i, p in enumerate(patches):
        if name in (p.name, p.name.removesuffix(".patch"), p.slug, p.subject, p.name.split("-", 1)[0], str(i + 1)):
            return i
    raise ConfigError(
        f"{held.stack.folder} has no patch {name!r}", hint="there are: " + ", ".join(p.name for p in patches)
    )


def reading(project: Project, held: Carried, do: Callable[[Carried], T]) -> T:
    """Do something that reads the pinned files; what is not here yet of them is fetched first, and only then."""
    try:
        if held.base and held.repository.exists():
            return do(held)
    except ObjectsMissing:
        pass
    return do(_fetched(project, held))


def _fetched(project: Project, held: Carried) -> Carried:
    from kz_build.core.progress import quiet
    from kz_build.sources import clones, fetch, store
    from kz_build.sources.request import Request

    name = held.source.name
    request = Request(held.stack.line, (name,), paths={name: held.stack.touched}, watch=held.repository.watch or quiet)
    found = fetch.fetch(project, request)[0]
    if found.kind in ("git", "folder"):
        at = found.trees[0]
    else:
        assert found.file is not None
        content = store.wheel_files(found.file)
        at = clones.import_files(project.store, "", content, found.identity, held.repository.watch)
    return held._replace(
        repository=git.Repository(at.repository, held.repository.watch),
        base=at.commit,
        locked=None if found.note else held.locked,
    )
