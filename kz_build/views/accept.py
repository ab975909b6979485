"""Licences that users accept, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kz_build.model.licence import Accepted, Licence

WIDTH = 78


def head(found: Licence) -> str:
    """Which licence it is and where it lies."""
    return "\n".join(
        [
            f"{found.source} {found.version}, line {found.line}",
            f"  licence  {found.file}",
            f"           of {found.wheel}",
            f"  sha256   {found.sha256}",
            f"  as it is unzip -p {found.place} \\",
            f"             {found.file} >/tmp/licence",
        ]
    )


def body(found: Licence) -> str:
    """Its text: lines that are too long are folded, nothing else is changed."""
    rows = [part for line in found.text.splitlines() for part in textwrap.wrap(line, WIDTH) or [""]]
    return "\n".join(rows)


def listing(rows: Sequence[tuple[str, str, str, Accepted | None]], place: str) -> str:
    """What there is to accept, and what was."""
    if not rows:
        return "no source of this project has a licence that one has to accept"
    said = [
        f"{name} {version} ({line}): " + (f"accepted on {one.date}, {one.how}" if one else "not accepted")
        for line, name, version, one in rows
    ]
    return "\n".join([*said, f"in {place}"])
