"""What waits for one's own branch, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kz_build.core.escape import one_line, wrap

if TYPE_CHECKING:
    from kz_build.nightly.queue import Queue

_STATE = len("not judged  ")


def text(queue: Queue) -> str:
    """Show the branch, a block for each that waits, and the pairs that break together."""
    rows = [
        f"{queue.branch} {queue.commit[:10]}: " + ("it breaks by itself" if queue.problems else "every patch holds")
    ]
    rows += _problems(queue.problems)
    for one in (one for one in queue.queued if one.relevant):
        state = "not judged" if one.unknown else "breaks" if one.problems else "holds"
        rows += wrap(f"{state:{_STATE}}{one.name} {one_line(one.title)}", "  ", " " * (_STATE + 2))
        rows += _problems((one.unknown,) if one.unknown else one.problems)
    if others := [one.name for one in queue.queued if not one.relevant]:
        rows += wrap(f"change no pin and no stack: {', '.join(others)}", "  ", "    ")
    if not queue.queued:
        rows.append("  nothing waits")
    rows += _pairs(
        "hold alone, and break together:", [(*pair[:2], pair.problems) for pair in queue.pairs if pair.problems]
    )
    rows += _pairs("not judged together:", [(*pair[:2], (pair.unknown,)) for pair in queue.pairs if pair.unknown])
    return "\n".join(rows)


def _pairs(head: str, pairs: Sequence[tuple[str, str, tuple[str, ...]]]) -> list[str]:
    rows = [head] if pairs else []
    for (first, reasons), same in groupby(pairs, key=lambda pair: (pair[0], pair[2])):
        rows += wrap(f"{first} with {', '.join(second for _, second, _ in same)}", "  ", "    ")
        rows += _problems(reasons)
    return rows


def _problems(problems: Sequence[str]) -> list[str]:
    return [row for problem in problems for row in wrap(problem, "      ")]
