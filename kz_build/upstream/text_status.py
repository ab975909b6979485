"""What patches say of upstream and what is so, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kz_build.patch.text import wrap


class Claim(Protocol):
    """One patch's trailers against upstream."""

    @property
    def patch(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def pull(self) -> int: ...
    @property
    def facts(self) -> tuple[str, ...]: ...
    @property
    def wrong(self) -> tuple[str, ...]: ...


class Status(Protocol):
    """The patches of one stack."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def trunk(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def date(self) -> str: ...
    @property
    def claims(self) -> Sequence[Claim]: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


def text(found: Status) -> str:
    """A paragraph a patch; what is wrong is marked with `!`."""
    against = f" against {found.trunk} {found.commit[:10]} {found.date}" if found.trunk else ""
    rows = [f"{found.line} {found.source}{against}"]
    rows += [row for note in found.notes for row in wrap(note, "  ! ")]
    for claim in found.claims:
        pull = f" (#{claim.pull})" if claim.pull else ""
        rows += wrap(f"{claim.patch.removesuffix('.patch')}: {claim.status or 'no status'}{pull}", "  ")
        # A range-diff is indented already and keeps its form.
        rows += [row for fact in claim.facts for row in ([f"    {fact}"] if fact[:1] == " " else wrap(fact, "      "))]
        rows += [row for text in claim.wrong for row in wrap(text, "    ! ")]
    return "\n".join(rows)
