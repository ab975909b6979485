"""Licences that users accept, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from kz_build.sources.licence_types import Licence, PinnedLicence

WIDTH = 78


def head(licence: Licence) -> str:
    """Say which licence it is and where it is."""
    return "\n".join(
        [
            f"{licence.source} {licence.version} of line {licence.line}",
            f"  licence  {licence.file}",
            f"           sha256 {licence.sha256}",
            f"  wheel    {licence.wheel}",
            f"           {licence.place}",
        ]
    )


def body(text: str) -> str:
    """Wrap the lines of a licence's text that are too long; nothing else is changed."""
    rows = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
    return "\n".join(rows)


def accepted_text(licence: Licence, place: Path) -> str:
    """Say that it is accepted, and where that is recorded."""
    return (
        f"accepted on {licence.accepted.date} ({licence.accepted.how}), in {place}"
        if licence.accepted
        else "not accepted"
    )


def listing(rows: Sequence[PinnedLicence], place: Path) -> str:
    """List the licences to accept, and those accepted."""
    if not rows:
        return "no source of this project has a licence that must be accepted"
    lines = [
        f"{one.source} {one.version} ({one.line}): "
        + (
            f"accepted on {one.accepted.date}, {one.accepted.how}"
            if one.accepted
            else f"not accepted: kz accept {one.source}"
        )
        for one in rows
    ]
    return "\n".join([*lines, f"in {place}"])
