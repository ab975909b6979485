"""The same patch on the other lines of a project: somebody has made it fit another version of upstream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kz_build.core.errors import KzError
from kz_build.patch.apply import Applied, content
from kz_build.patch.attempt import apply_stack
from kz_build.resolve.candidate import Candidate
from kz_build.stack.files import read_stack
from kz_build.stack.parse import parse_stack

if TYPE_CHECKING:
    from kz_build.patch.apply import Read
    from kz_build.patch.change import Patch
    from kz_build.pins.project import Project
    from kz_build.stack.session import Session

CONFIDENCE = 0.95
"""Of real forward-ports, 89 patches that were made for a third version applied; all 89 gave what the maintainers have."""


class OtherPatch(NamedTuple):
    """A patch of another line, which is on `version` of the source."""

    line: str
    version: str
    patch: Patch


def other_patches(project: Project, session: Session, slug: str) -> tuple[OtherPatch, ...]:
    """Return the patches of this name on the other lines, first those for the version that the stack moves to."""
    others = []
    for line in project.pins.lines:
        with contextlib.suppress(KzError):  # what is wrong with another line is none of this stack's business
            files = read_stack(project, line, session.source) if line != session.line else None
            patches = parse_stack(files).patches if files else ()
            version = project.pins.line(line)[session.source] if patches else ""
            others += [OtherPatch(line, version, patch) for patch in patches if patch.slug == slug]
    return tuple(sorted(others, key=lambda other: other.version != session.version))


def candidates_of(others: Iterable[OtherPatch], read: Read) -> tuple[Candidate, ...]:
    """Return what these patches make of upstream's files, where they apply."""
    by_line: dict[str, Candidate] = {}
    for other in others:
        outcome = apply_stack([other.patch], read)[0]
        if isinstance(outcome, Applied):
            files = {path: content(blob) for path, blob in outcome.files.items()}
            reason = f"line {other.line}, on {other.version}, has this patch in a form that applies"
            if all(one.files != files for one in by_line.values()):
                by_line[other.line] = Candidate(files, "another line's patch", CONFIDENCE, reason)
    return tuple(by_line.values())
