"""What patches say about upstream and what is true, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kz_build.core.escape import wrap

if TYPE_CHECKING:
    from kz_build.upstream.status import StackStatus


def text(status: StackStatus) -> str:
    """Show a paragraph per patch; what is wrong is marked with `!`."""
    against = f" against {status.trunk} {status.commit[:10]} {status.date}" if status.trunk else ""
    rows = [f"{status.line} {status.source}{against}"]
    rows += [row for note in status.notes for row in wrap(note, "  ! ")]
    for claim in status.claims:
        pull = f" (#{claim.pull})" if claim.pull else ""
        rows += wrap(f"{claim.patch.removesuffix('.patch')}: {claim.status or 'no Upstream-Status'}{pull}", "  ")
        # A range-diff is indented already and keeps its form.
        rows += [row for fact in claim.facts for row in ([f"    {fact}"] if fact[:1] == " " else wrap(fact, "      "))]
        rows += [row for text in claim.wrong for row in wrap(text, "    ! ")]
    return "\n".join(rows)
