"""A stack that follows upstream: which version is next for its line, and whether it gets there by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.core.errors import ConfigError
from kz_build.git import refs
from kz_build.git.log import merge_base
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources.package_index import find_wheel
from kz_build.sources.replaced import index_address
from kz_build.stack.git_upstream import pin_of
from kz_build.stack.pinned import PinnedStack, with_files_fetched
from kz_build.stack.rebase import rebase
from kz_build.stack.session import Session
from kz_build.stack.stack_history import judge_history
from kz_build.stack.write_back import WrittenStack

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

_SERIES = re.compile(r"(\D*\d+\.\d+\.)(\d+)")
"""A release by what it shares with its bug-fix releases, and its own number among them."""


@dataclass(frozen=True)
class Moved:
    """A stack on the next version of its line, as a copy of the project has it now."""

    was: str
    written: WrittenStack


def next_version(project: Project, pinned: PinnedStack) -> str:
    """Return what a stack can move to, '' for nothing: of a release the newest bug-fix release, of a wheel the newest that its
    index has, of a commit on upstream's branch that branch.

    Another series of releases is another line, which a person begins; and nobody knows what a commit on another branch follows.
    """
    if pinned.version == pinned.base:
        trunk = refs.trunk(pinned.repository)
        tip = refs.commit_of(pinned.repository, trunk)
        return trunk if pinned.base != tip and merge_base(pinned.repository, pinned.base, tip) == pinned.base else ""
    own = _SERIES.fullmatch(pinned.version)
    if not own:
        return ""
    others = (match for name in refs.releases(pinned.repository) if (match := _SERIES.fullmatch(name)))
    newer = [match for match in others if match[1] == own[1] and int(match[2]) > int(own[2])]
    names = [match[0] for match in sorted(newer, key=lambda match: int(match[2]), reverse=True)]
    return next((name for name in names if _is_there(project.pins.source(pinned.files.source), project, name)), "")


def _is_there(source: Source, project: Project, release: str) -> bool:
    """Return whether a release can be pinned: of a wheel, whether the index has it. Upstream sets its tag first."""
    if source.kind == "git":
        return True
    try:
        version = pin_of(source, release)
        return bool(find_wheel(index_address(project, source), source.location, version, source.options["tag"]))
    except ConfigError:
        return False


def move(project: Project, pinned: PinnedStack, to: str, watch: Watch | None) -> Moved | None:
    """Move a stack of a copy of the project, whose files change; `pinned` is it on its upstream's git history, `to` a revision of that.

    Return None, and change nothing, if a person must.
    """
    judged = with_files_fetched(project, pinned, lambda c: judge_history(project, c, to))
    if not all(history.now.holds for history in judged.patches):
        return None
    line, name = pinned.files.line, pinned.files.source
    written = rebase(project, line, name, pin_of(project.pins.source(name), to), watch=watch)
    if isinstance(written, Session):
        return None  # a new copy has no session
    return Moved(project.pins.line(line)[name], written)
