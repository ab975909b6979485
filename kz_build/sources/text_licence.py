"""Licences that users accept, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from kz_build.sources.licence_types import Licence, Pinned

WIDTH = 78


def head(found: Licence) -> str:
    """Which licence it is and where it lies."""
    return "\n".join(
        [
            f"{found.source} {found.version} of line {found.line}",
            f"  licence  {found.file}",
            f"           sha256 {found.sha256}",
            f"  wheel    {found.wheel}",
            f"           {found.place}",
        ]
    )


def body(text: str) -> str:
    """A licence's text: lines that are too long are folded, nothing else is changed."""
    rows = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
    return "\n".join(rows)


def said(found: Licence, place: Path) -> str:
    """That it is accepted, and where that is written down."""
    assert found.accepted
    return f"accepted on {found.accepted.date} ({found.accepted.how}), in {place}"


def listing(rows: Sequence[Pinned], place: Path) -> str:
    """What there is to accept, and what was."""
    if not rows:
        return "no source of this project has a licence that one has to accept"
    said = [
        f"{one.source} {one.version} ({one.line}): "
        + (
            f"accepted on {one.accepted.date}, {one.accepted.how}"
            if one.accepted
            else f"not accepted: kz accept {one.source}"
        )
        for one in rows
    ]
    return "\n".join([*said, f"in {place}"])
