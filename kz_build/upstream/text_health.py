"""The health of the stacks as Markdown: patches/HEALTH.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import cell as table_cell
from kz_build.core.escape import code
from kz_build.patch.text import cell, explanation
from kz_build.patch.verdict import Verdict
from kz_build.upstream.text_verdicts import notes

if TYPE_CHECKING:
    from kz_build.stack.patch_history import PatchHistory
    from kz_build.stack.stack_history import StackHistory
    from kz_build.upstream.health import Health
    from kz_build.upstream.verify import VerifyResult

LEGEND = """\
`clean` applies as it is · `+N` applies N lines away · `upstreamed` upstream has it · `merged` only git's three-way merge finds
a result · `context` only lines around it changed · `content` lines that it changes or requires are gone · `missing` a file
is gone · `intent` applies, but does not do what it is for."""


def markdown(stacks: Sequence[Health], date: str) -> str:
    """Return the whole page; `date` (YYYY-MM-DD) is the day it was written."""
    parts = [f"# Health of the patches\n\nWritten by `kz health` on {date}.\n\n{LEGEND}\n"]
    for one in stacks:
        parts.append(_table(one.verified))
        if one.broken and one.history:
            rows = [f"Broken on {code(one.history.to)}:", ""]
            for patch in one.broken:
                rows.append(f"- {code(patch.patch.removesuffix('.patch'))}: {cell(patch.now)}")
                rows += [f"  - {reason}" for reason in reasons(one.history, patch)]
            parts.append("\n".join([*rows, ""]))
    return "\n".join(parts)


def _table(result: VerifyResult) -> str:
    head = [_number(name) for name in result.patches]
    listed = [f"- {code(name.removesuffix('.patch'))}" for name in result.patches]
    rows = [f"## {result.line} / {result.source}\n", *listed, "", "| | | " + " | ".join(head) + " |"]
    rows.append("|---|---|" + "---|" * len(head))
    for target, row in zip(result.targets, result.rows, strict=True):
        cells = [cell(j) if j.holds else f"**{cell(j)}**" for j in row]
        rows.append(f"| {table_cell(target.name)} | {target.date} | " + " | ".join(cells) + " |")
    upstreamed = [(name, j, targets) for name, j, targets in notes(result) if j.verdict is Verdict.UPSTREAMED]
    if upstreamed:
        rows += ["", "Upstreamed:", ""]
    for name, judgement, targets in upstreamed:
        rows.append(f"- {code(name.removesuffix('.patch'))} at {', '.join(map(code, targets))}")
        rows += [f"  - {code(text)}" for text in explanation(judgement)]
    return "\n".join(rows) + "\n"


def _number(name: str) -> str:
    """Return the number that a patch's name begins with, or the whole name."""
    number = name.removesuffix(".patch").split("-", 1)[0]
    return number if number.isalnum() else table_cell(number)


def reasons(history: StackHistory, one: PatchHistory) -> list[str]:
    """Say why a patch does not hold, and since which commit."""
    rows = [code(text) for text in explanation(one.now)]
    if one.since:
        tag = history.tags.get(one.since.commit.id)
        first = f"first in {code(tag)}" if tag else "in no tag yet"
        rows.append(f"since {code(one.since.commit.shown)}, {first}")
    return rows
