"""nightly: the newest line against upstream's branch, in one issue that is its own memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kz_build.core import github
from kz_build.core.env import variable
from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.github_types import Issue
from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import Story
from kz_build.stack.pinned import carried, reading
from kz_build.stack.walk import History, walked

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

_BROKEN = re.compile(r"<!-- kz-broken: (\{.*\}) -->")


@dataclass(frozen=True)
class Nightly:
    """What was found, and what was done about it: `did` is opened, updated or nothing; `news` the patches that newly broke."""

    history: History
    news: tuple[Story, ...]
    healed: tuple[str, ...]
    did: str
    url: str


def nightly(project: Project, body: Any, watch: Watch | None = None) -> Nightly:
    """Walk the newest line with a stack on a git source to upstream's branch, and write the issue of GITHUB_REPOSITORY where
    something is new. `body(history, news, healed)` gives its text.
    """
    slug = variable("GITHUB_REPOSITORY")
    if not slug:
        missing = Missing(
            "GITHUB_REPOSITORY", "the nightly run writes to its issues", "kz history shows the same anywhere"
        )
        raise MissingError((missing,))
    line, name = _newest(project)
    held = carried(project, line, name, watch=watch)

    def walk(c: Any) -> History:
        refs.fetch_names(c.repository)
        return walked(project, c, refs.trunk(c.repository))

    found = reading(project, held, walk)
    marker = f"kz-nightly {line} {name}"
    issue = github.find_issue(project.store, slug, marker)
    known = _known(issue)
    broken = {s.patch: s.since.commit.id if s.since else "" for s in found.stories if not s.now.holds}
    news = tuple(s for s in found.stories if s.patch in broken and known.get(s.patch) != broken[s.patch])
    healed = tuple(patch for patch in known if patch not in broken)
    if not (news or healed):
        return Nightly(found, news, healed, "nothing", issue.url if issue else "")
    text = f"{body(found, news, healed)}\n<!-- kz-broken: {json.dumps(broken)} -->\n"
    if issue is None:
        made = github.create_issue(slug, f"{line}: patches break on {found.to}", text, marker)
        return Nightly(found, news, healed, "opened", made.url)
    # First the comment: where the body cannot be written then, the next night says it again instead of never.
    github.comment(slug, issue.number, body(found, news, healed))
    github.update_issue(slug, issue.number, text, marker)
    return Nightly(found, news, healed, "updated", issue.url)


def _newest(project: Project) -> tuple[str, str]:
    for line in reversed(project.pins.lines):
        for name in stack_sources(project, line):
            if project.pins.source(name).kind == "git":
                return line, name
    raise ConfigError("no line has a stack on a git source")


def _known(issue: Issue | None) -> Mapping[str, str]:
    found = _BROKEN.search(issue.body) if issue else None
    try:
        known = json.loads(found[1]) if found else {}
    except ValueError:
        known = {}
    return known if isinstance(known, dict) else {}
