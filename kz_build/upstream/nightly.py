"""nightly: the newest line against upstream's branch, in one issue that stores the last result."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kz_build.core import github
from kz_build.core.env import variable
from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.escape import one_line
from kz_build.core.github_types import Issue
from kz_build.git import refs
from kz_build.pins.project import Project
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import PatchHistory
from kz_build.stack.pinned import pinned_stack, with_files_fetched
from kz_build.stack.stack_history import StackHistory, judge_history
from kz_build.upstream.text_health import issue as issue_text

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.stack.pinned import PinnedStack

_BROKEN = re.compile(r"<!-- [^\n]* -->\r?\n<!-- kz-broken: (\{.*\}) -->\r?\n")
"""The first two lines of the issue: kz's marker and what was known to be broken. Names and subjects come below them."""


@dataclass(frozen=True)
class Nightly:
    """The result, and what was done about it: `did` is opened, updated or nothing; `news` the patches that newly broke."""

    history: StackHistory
    news: tuple[PatchHistory, ...]
    healed: tuple[str, ...]
    did: str
    url: str


def nightly(project: Project, watch: Watch | None = None) -> Nightly:
    """Judge the newest line with a stack on a git source up to upstream's branch; write the issue of GITHUB_REPOSITORY if
    something is new."""
    slug = variable("GITHUB_REPOSITORY")
    if not slug:
        missing = Missing(
            "GITHUB_REPOSITORY", "the nightly run writes to its issues", "kz history shows the same anywhere"
        )
        raise MissingError((missing,))
    line, name = _newest(project)
    pinned = pinned_stack(project, line, name, watch=watch)

    def walk(pinned: PinnedStack) -> StackHistory:
        refs.fetch_names(pinned.repository)
        return judge_history(project, pinned, "")

    history = with_files_fetched(project, pinned, walk)
    marker = f"kz-nightly {line} {name}"
    issue = github.find_issue(project.store, slug, marker)
    known = _known(issue)
    broken = {s.patch: s.since.commit.id if s.since else "" for s in history.patches if not s.now.holds}
    news = tuple(s for s in history.patches if s.patch in broken and known.get(s.patch) != broken[s.patch])
    healed = tuple(patch for patch in known if patch not in broken)
    if not (news or healed):
        return Nightly(history, news, healed, "nothing", issue.url if issue else "")
    known_now = json.dumps(broken).replace("<", "\\u003c").replace(">", "\\u003e")  # no name in it ends the comment
    text = f"<!-- kz-broken: {known_now} -->\n{issue_text(history, news, healed)}\n"
    if issue is None:
        issue_made = github.create_issue(slug, f"{line}: patches break on {one_line(history.to)}", text, marker)
        return Nightly(history, news, healed, "opened", issue_made.url)
    # The comment comes first: if the body cannot be written then, the next night repeats it instead of losing it.
    github.comment(slug, issue.number, issue_text(history, news, healed))
    github.update_issue(slug, issue.number, text, marker)
    return Nightly(history, news, healed, "updated", issue.url)


def _newest(project: Project) -> tuple[str, str]:
    for line in reversed(project.pins.lines):
        for name in stack_sources(project, line):
            if project.pins.source(name).kind == "git":
                return line, name
    raise ConfigError("no line has a stack on a git source")


def _known(issue: Issue | None) -> Mapping[str, str]:
    match = _BROKEN.match(issue.body) if issue else None
    try:
        known = json.loads(match[1]) if match else {}
    except ValueError:
        known = {}
    return known if isinstance(known, dict) else {}
