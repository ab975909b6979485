"""A stack that follows upstream: which version is next for its line, and whether it gets there by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.git import refs
from kz_build.git.log import merge_base
from kz_build.pins.project import Project
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


def next_version(pinned: PinnedStack) -> str:
    """Return what a stack can move to, '' for nothing: of a release the newest bug-fix release, of a commit on upstream's branch
    that branch.

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
    return max(newer, key=lambda match: int(match[2]))[0] if newer else ""


def move(project: Project, pinned: PinnedStack, to: str, watch: Watch | None) -> Moved | None:
    """Move a stack of a copy of the project, whose files change. Return None, and change nothing, if a person must."""
    judged = with_files_fetched(project, pinned, lambda c: judge_history(project, c, to))
    if not all(history.now.holds for history in judged.patches):
        return None
    written = rebase(project, pinned.files.line, pinned.files.source, to, watch=watch)
    return None if isinstance(written, Session) else Moved(pinned.version, written)  # a new copy has no session
