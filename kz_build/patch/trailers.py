"""Trailers of a commit message, and what those of a patch say of upstream."""

from __future__ import annotations

import re
from collections.abc import Collection

OURS = ("Upstream-Status", "Upstream-PR", "Upstream-Head", "Origin")
"""What a stack notes on its patches and upstream has no use for."""

_TRAILER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)")
_PULL = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/pull/(\d+)")


def trailers(message: str) -> tuple[tuple[str, str], ...]:
    """(key, value) of the message's last paragraph, where all its lines are trailers."""
    return tuple((m[1], m[2].strip()) for m in _block(message)[1])


def trailer(message: str, key: str) -> str:
    """The first trailer of that key, '' where there is none."""
    return next((value for k, value in trailers(message) if k.lower() == key.lower()), "")


def with_trailers(message: str, added: dict[str, str]) -> str:
    """The message with these trailers; those of the same keys go."""
    kept = without_trailers(message, added)
    glue = "\n" if _block(kept)[1] else "\n\n"
    return kept.rstrip("\n") + glue + "".join(f"{key}: {value}\n" for key, value in added.items())


def without_trailers(message: str, keys: Collection[str]) -> str:
    """The message without the trailers of these keys."""
    lowered = {key.lower() for key in keys}
    body, found = _block(message)
    rows = [f"{m[0]}\n" for m in found if m[1].lower() not in lowered]
    return body.rstrip("\n") + "\n" + ("\n" + "".join(rows) if rows else "")


def pull_of(message: str, slug: str) -> int:
    """Number of the pull request of repository `slug` that `Upstream-PR:` names, 0 for none."""
    found = _PULL.fullmatch(trailer(message, "Upstream-PR"))
    return int(found[2]) if found and found[1].lower() == slug.lower() else 0


def _block(message: str) -> tuple[str, list[re.Match[str]]]:
    """(what stands before the trailers, the trailers)"""
    body, gap, last = message.rstrip("\n").rpartition("\n\n")
    rows = [_TRAILER.fullmatch(line) for line in last.split("\n")]
    found = [row for row in rows if row]
    return (body, found) if gap and len(found) == len(rows) else (message, [])
