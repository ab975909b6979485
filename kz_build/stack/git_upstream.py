"""Stacks against the git history of their upstream: that of a git source, or the repository that a wheel was built from."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.stack.pinned import PinnedStack, pinned_stacks, with_files_fetched

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


def git_stacks(
    project: Project, line: str, watch: Watch | None = None, sources: Collection[str] = ()
) -> list[PinnedStack]:
    """Return the stacks of a line on git sources, and those on wheels that `sources` names and that have an `upstream:`.

    A revision is of one repository: a wheel's is asked only where somebody means it.
    """
    stacks = [s for s in pinned_stacks(project, line, watch, sources) if s.source.kind == "git" or sources]
    return [upstream for pinned in stacks if (upstream := git_upstream(project, pinned))]


def git_upstream(project: Project, pinned: PinnedStack) -> PinnedStack | None:
    """Return the stack as one on a git repository: itself, or a wheel's on its `upstream:`; None for a wheel without one.

    A wheel's files lie at the same paths in its repository, with the same content, at the tag of its version: those that
    the stack touches are compared. Raises ConfigError if one differs, or if upstream lacks the tag.
    """
    if pinned.source.kind == "git":
        return pinned
    if not (upstream := pinned.source.options.get("upstream")):
        return None
    url, tag = project.address(upstream["git"]), upstream["tag"].replace("{version}", pinned.version)
    watch = pinned.repository.watch
    repository = git.Repository(git.repository_path(project.store, pinned.source.name, url), watch, url)
    if not repository.exists():
        from kz_build.core import locks

        with locks.lock(project.store, repository.path.name, watch):
            repository.create()
        refs.fetch_names(repository)
    base = refs.resolve_revision(repository, f"refs/tags/{tag}")
    with_files_fetched(project, pinned, lambda wheel: _require_same(wheel, repository, base, tag))
    source = pinned.source._replace(kind="git", location=upstream["git"])
    return pinned._replace(source=source, version=tag, repository=repository, base=base, locked=None)


def pin_of(source: Source, revision: str) -> str:
    """Return what pins.yaml says for a revision of a source's upstream: of a wheel the version that has this tag, '' if none can."""
    if source.kind == "git":
        return revision
    template: str = source.options["upstream"]["tag"]
    match = re.fullmatch(re.escape(template).replace(re.escape("{version}"), r"(\d.*)"), revision)
    return match[1] if match and match.groups() else ""


def _require_same(wheel: PinnedStack, repository: git.Repository, base: str, tag: str) -> None:
    paths = wheel.stack.touched
    with wheel.repository.objects() as objects:
        (ours,) = trees.read_ids(objects, [wheel.base], paths)
    with repository.objects() as objects:
        (theirs,) = trees.read_ids(objects, [base], paths)
    differ = sorted(path for path in paths if (ours[path] or ("", ""))[1] != (theirs[path] or ("", ""))[1])
    if differ:
        raise ConfigError(
            f"{wheel.source.name} {wheel.version}: {', '.join(differ[:3])} of the wheel is not what {tag} of its upstream has there",
            hint=f"is sources.{wheel.source.name}.upstream in pins.yaml the wheel's repository and tag?",
        )
