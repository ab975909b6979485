"""What was fetched, as lines for people."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.sources.fetched import Fetched


def sources(fetched: Sequence[Fetched]) -> str:
    """Show one line per source."""
    width = max(len(s.name) for s in fetched)
    rows = []
    for s in fetched:
        more = f", {len(s.trees) - 1} submodules" if len(s.trees) > 1 else ""
        rows.append(f"{s.name:{width}}  {s.version:14} {s.identity[:31]}{more}" + (f"  ({s.note})" if s.note else ""))
    return "\n".join(rows)
