"""One issue for each stack that needs a person. It stores what is known to be broken, so that nobody is told twice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core import github
from kz_build.core.github_types import Issue
from kz_build.nightly import text
from kz_build.nightly.pull_request import Done
from kz_build.patch.text import cell, explanation
from kz_build.report.diff import Change, Kind
from kz_build.stack.stack_history import StackHistory

if TYPE_CHECKING:
    from kz_build.stack.suggestion import Suggestion

_BROKEN = re.compile(r"<!-- [^\n]* -->\r?\n<!-- kz-broken: (\{.*\}) -->\r?\n")
"""The first two lines of the issue: kz's marker and what was known to be broken. Names and subjects come below them."""


@dataclass(frozen=True)
class Trouble:
    """A stack on a version of upstream, where some patches may not hold. `hunks` are what upstream did to the lines of each,
    `command` is what a person types next, and `suggestion` has candidates for the patch at which that stops."""

    history: StackHistory
    hunks: Mapping[str, str]
    command: str
    suggestion: Suggestion | None = None

    @property
    def broken(self) -> dict[str, str]:
        """The patches that do not hold, each with the commit since which it does not."""
        return {s.patch: s.since.commit.id if s.since else "" for s in self.history.patches if not s.now.holds}


@dataclass(frozen=True)
class Told:
    """What changed since the last time, the text about it, and what was done with it."""

    changes: tuple[Change, ...]
    text: str
    done: Done


def reported(store: Path, slug: str, line: str, source: str) -> bool:
    """Return whether a stack has an issue that says that something is broken."""
    return bool(_known(_issue(store, slug, _marker(line, source))))


def _marker(line: str, source: str) -> str:
    return f"kz-nightly {line} {source}"


def _issue(store: Path, slug: str, marker: str) -> Issue | None:
    return github.find_issue(store, slug, marker) if slug else None


def tell(store: Path, slug: str, trouble: Trouble, *, dry_run: bool) -> Told:
    """Open or update the issue of a stack if something is new. Without a slug there is none yet."""
    history, broken = trouble.history, trouble.broken
    marker = _marker(history.line, history.source)
    issue = _issue(store, slug, marker)
    known = _known(issue)
    changes = _changes(trouble, known)
    url = issue.url if issue else ""
    if all(known.get(patch) == commit for patch, commit in broken.items()) and not known.keys() - broken.keys():
        return Told(changes, "", Done("nothing", url))
    body = text.issue(trouble, changes)
    if dry_run:
        return Told(changes, body, Done("would be updated" if issue else "would be opened", url))
    known_now = json.dumps(broken).replace("<", "\\u003c").replace(">", "\\u003e")  # no name in it ends the comment
    stored = f"<!-- kz-broken: {known_now} -->\n{body}\n"
    if issue is None:
        return Told(
            changes, body, Done("opened", github.create_issue(slug, text.issue_title(history), stored, marker).url)
        )
    # The comment comes first: if the body cannot be written then, the next night repeats it instead of losing it.
    github.comment(slug, issue.number, body)
    github.update_issue(slug, issue.number, stored, marker)
    return Told(changes, body, Done("updated", url))


def _changes(trouble: Trouble, known: Mapping[str, str]) -> tuple[Change, ...]:
    """Return a row for each patch that is broken, or was when the issue was written."""
    history, broken = trouble.history, trouble.broken
    where = f"{history.line} {history.source}"
    rows = []
    for one in history.patches:
        if one.patch in broken:
            kind = Kind.STILL if known.get(one.patch) == broken[one.patch] else Kind.WORSE
            evidence = "; ".join(explanation(one.now))
            rows.append(Change(kind, "patches", where, _name(one.patch), cell(one.pin), cell(one.now), evidence))
    now = {one.patch: cell(one.now) for one in history.patches}
    for patch in known.keys() - broken.keys():
        rows.append(Change(Kind.FIXED, "patches", where, _name(patch), "broken", now.get(patch, "")))
    return tuple(sorted(rows, key=lambda row: (list(Kind).index(row.kind), row.what)))


def _name(patch: str) -> str:
    return patch.removesuffix(".patch")


def _known(issue: Issue | None) -> Mapping[str, str]:
    match = _BROKEN.match(issue.body) if issue else None
    try:
        known = json.loads(match[1]) if match else {}
    except ValueError:
        known = {}
    return known if isinstance(known, dict) else {}
