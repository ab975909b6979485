"""Which findings of a log follow from which others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kz_build.diagnose.signature import Signature


def with_consequences(
    found: Sequence[Signature], possible: Sequence[str], unsure: Collection[str]
) -> list[tuple[str, str]]:
    """Return (id, the one it follows from, or '') of each finding: a cause before its consequences, what is possible after all causes.

    `found` are in the order of their lines, harmless ones last; `possible` are the ids that are no causes, the likeliest first,
    and `unsure` those among them whose signature is a cause elsewhere: they explain another only if no other does.
    """
    by_id = {one.id: one for one in found}
    why: dict[str, str] = {}
    for one in sorted(found, key=lambda one: one.id in unsure):
        for other in one.explains:
            if other in by_id:
                why.setdefault(other, one.id)
    cause = ""
    for one in (one for one in found if one.id not in why and not one.harmless):
        if cause and one.consequence:
            why[one.id] = cause
        else:
            cause = one.id
    last = [*(one.id for one in found if one.consequence and one.id not in possible), *possible]
    roots = sorted(
        (one for one in found if one.id not in why),
        key=lambda one: (one.harmless, last.index(one.id) + 1 if one.id in last else 0),
    )
    placed = [
        pair for one in roots for pair in ((one.id, ""), *((id, one.id) for id in by_id if _root(id, why) == one.id))
    ]
    # Signatures that explain each other have no root: show them in their order.
    return placed + [(id, "") for id in by_id if id not in {id for id, _ in placed}]


def _root(id: str, why: dict[str, str]) -> str:
    """Return what a finding follows from in the end; '' for itself or a circle."""
    seen = {id}
    at = id
    while at in why:
        at = why[at]
        if at in seen:
            return ""
        seen.add(at)
    return at if at != id else ""
