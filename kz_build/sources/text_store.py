"""The store as a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import size

if TYPE_CHECKING:
    from kz_build.core.check import Check
    from kz_build.sources.store_admin import StoreEntry


def listing(entries: Sequence[StoreEntry]) -> str:
    """Show kinds with their sizes, below each its entries and what requires them."""
    rows = []
    for kind in dict.fromkeys(e.kind for e in entries):
        of = [e for e in entries if e.kind == kind]
        rows.append(
            f"{size(sum(e.size for e in of)):>9}  {kind}/"
            + (f"  {len(of)} {'entry' if len(of) == 1 else 'entries'}" if of[0].name else "")
        )
        rows += [f"{size(e.size):>9}    {_short(e.name):40} {_who(e.needed_by)}" for e in of if e.name]
    rows.append(f"{size(sum(e.size for e in entries)):>9}  in all")
    return "\n".join(rows)


def verified(results: Sequence[Check]) -> str:
    """Show one row per entry, failures last."""
    order = sorted(results, key=lambda c: c.failed)
    return "\n".join(f"{c.status.value:5} {_named(c.subject):40} {c.evidence}" for c in order)


def _named(path: str) -> str:
    kind, _, name = path.partition("/")
    return f"{kind}/{_short(name)}"


def collected(entries: Sequence[StoreEntry], *, deleted: bool) -> str:
    """Show what was removed, or would be."""
    days = [(time.time() - e.used) / 86400 for e in entries]
    rows = [
        f"{size(e.size):>9}  {_named(f'{e.kind}/{e.name}'):40} {age:.0f} days"
        for e, age in zip(entries, days, strict=True)
    ]
    done = "removed" if deleted else "would be removed (with --delete)"
    return "\n".join([*rows, f"{size(sum(e.size for e in entries)):>9}  in {len(entries)} entries {done}"])


def _who(needed_by: Sequence[str]) -> str:
    if not needed_by:
        return "-"
    return needed_by[0] + (f" +{len(needed_by) - 1}" if len(needed_by) > 1 else "")


def _short(name: str) -> str:
    """Shorten a digest so that it can still be told from others."""
    return name[:16] + "…" + name[64:] if len(name) > 63 else name
