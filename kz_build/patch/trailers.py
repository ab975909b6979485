"""Trailers of a commit message, and what those of a patch say about upstream."""

from __future__ import annotations

import re
from collections.abc import Collection

OURS = ("Upstream-Status", "Upstream-PR", "Upstream-Head", "Origin", "Resolved-By")
"""Trailers that a stack keeps on its patches and upstream has no use for."""

_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)")
_MADE_FROM = re.compile(
    r"^\(cherry picked from commit ([0-9a-f]{40})\)$"
    r"|^(?:Origin|Applied-Upstream|Upstream-Status):.*?(?:\bcommits?[:/=]|[?&;](?:id|h)=)([0-9a-f]{7,40})\b",
    re.MULTILINE,
)
_PULL = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/pull/(\d+)")


def trailers(message: str) -> tuple[tuple[str, str], ...]:
    """Return (key, value) of the message's last paragraph if all its lines are trailers."""
    return tuple((m[1], m[2].strip()) for m in _block(message)[1])


def trailer(message: str, key: str) -> str:
    """Return the first trailer with that key, '' if there is none."""
    return next((value for k, value in trailers(message) if k.lower() == key.lower()), "")


def with_trailers(message: str, added: dict[str, str]) -> str:
    """Return the message with these trailers in place of those with the same keys."""
    kept = without_trailers(message, added)
    glue = "\n" if _block(kept)[1] else "\n\n"
    return kept.rstrip("\n") + glue + "".join(f"{key}: {value}\n" for key, value in added.items())


def without_trailers(message: str, keys: Collection[str]) -> str:
    """Return the message without the trailers of these keys."""
    lowered = {key.lower() for key in keys}
    body, matches = _block(message)
    rows = [f"{m[0]}\n" for m in matches if m[1].lower() not in lowered]
    return body.rstrip("\n") + "\n" + ("\n" + "".join(rows) if rows else "")


def pull_of(message: str, slug: str) -> int:
    """Return the number of the pull request of repository `slug` that `Upstream-PR:` names, 0 for none."""
    match = _PULL.fullmatch(trailer(message, "Upstream-PR"))
    return int(match[2]) if match and match[1].lower() == slug.lower() else 0


def made_from(message: str) -> tuple[str, ...]:
    """Return the ids of the commits that a patch was made from, as its message says, the last first; they may be abbreviated.

    `git cherry-pick -x` says so, DEP-3's Origin and Applied-Upstream (https://dep-team.pages.debian.net/deps/dep3/), and
    Yocto's `Upstream-Status: Backport`.
    """
    return tuple(match[1] or match[2] for match in reversed(list(_MADE_FROM.finditer(message))))


def _block(message: str) -> tuple[str, list[re.Match[str]]]:
    """Return the text before the trailers, and the trailers."""
    body, gap, last = message.rstrip("\n").rpartition("\n\n")
    rows = [_TRAILER.fullmatch(line) for line in last.split("\n")]
    matches = [row for row in rows if row]
    return (body, matches) if gap and len(matches) == len(rows) else (message, [])
