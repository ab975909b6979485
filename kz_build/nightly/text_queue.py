"""What waits for one's own branch, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import one_line
from kz_build.patch.text import wrap

if TYPE_CHECKING:
    from kz_build.nightly.queue import Queue


def text(queue: Queue) -> str:
    """Show the branch, a block for each that waits, and the pairs that break together."""
    rows = [
        f"{queue.branch} {queue.commit[:10]}: " + ("it breaks by itself" if queue.problems else "every patch holds")
    ]
    rows += _problems(queue.problems)
    for one in queue.queued:
        state = "breaks" if one.problems else "holds" if one.relevant else "changes no pin and no stack"
        rows += wrap(f"{one.name} {one_line(one.title)}: {state}", "  ", "    ")
        rows += _problems(one.problems)
    if not queue.queued:
        rows.append("  nothing waits")
    if queue.pairs:
        rows.append("hold alone, and break together:")
    for pair in queue.pairs:
        rows.append(f"  {pair.first} and {pair.second}")
        rows += _problems(pair.problems)
    return "\n".join(rows)


def _problems(problems: Sequence[str]) -> list[str]:
    return [row for problem in problems for row in wrap(problem, "      ")]
