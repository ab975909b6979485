"""The health of the stacks as Markdown: patches/HEALTH.md, and the issue of the nightly run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kz_build.patch.text import cell, explanation
from kz_build.patch.verdict import Verdict
from kz_build.stack.patch_history import Story
from kz_build.upstream.text_history import History
from kz_build.upstream.text_verdicts import Verified, notes

LEGEND = """\
`clean` applies as it is · `+N` applies N lines away · `upstreamed` upstream has it · `merged` only git's three-way merge finds
a result · `context` what stands around it changed · `content` lines that it changes or stands on are gone · `missing` a file
is gone · `intent` applies, but does not do what it is for."""


class Health(Protocol):
    """One stack on every revision."""

    @property
    def verified(self) -> Verified: ...
    @property
    def history(self) -> History | None: ...
    @property
    def broken(self) -> Sequence[Story]: ...


def markdown(found: Sequence[Health], date: str) -> str:
    """The whole page; `date` (YYYY-MM-DD) is the day it was written."""
    parts = [f"# Health of the patches\n\nWritten by `kz health` on {date}.\n\n{LEGEND}\n"]
    for one in found:
        parts.append(_table(one.verified))
        if one.broken and one.history:
            parts.append(f"Broken on {one.history.to}:\n\n{told(one.history, one.broken)}\n")
    return "\n".join(parts)


def _table(found: Verified) -> str:
    head = [name.removesuffix(".patch").split("-", 1)[0] for name in found.patches]
    listed = [f"- {name.removesuffix('.patch').replace('-', ' ', 1)}" for name in found.patches]
    rows = [f"## {found.line} / {found.source}\n", *listed, "", "| | | " + " | ".join(head) + " |"]
    rows.append("|---|---|" + "---|" * len(head))
    for target, row in zip(found.targets, found.rows, strict=True):
        cells = [cell(j) if j.holds else f"**{cell(j)}**" for j in row]
        rows.append(f"| {target.name} | {target.date} | " + " | ".join(cells) + " |")
    there = [(name, j, targets) for name, j, targets in notes(found) if j.verdict is Verdict.UPSTREAMED]
    if there:
        rows += ["", "Upstreamed:", ""]
    for name, judgement, targets in there:
        rows.append(f"- `{name.removesuffix('.patch')}` at {', '.join(targets)}")
        rows += [f"  - {text}" for text in explanation(judgement)]
    return "\n".join(rows) + "\n"


def told(found: History, stories: Sequence[Story]) -> str:
    """A list of patches, each with the commit since which it does not hold."""
    rows = []
    for story in stories:
        rows.append(f"- `{story.patch.removesuffix('.patch')}`: {cell(story.now)}")
        rows += [f"  - {text}" for text in explanation(story.now)]
        if story.since:
            tag = found.tags.get(story.since.commit.id)
            rows.append(f"  - since {story.since.commit.shown}" + (f", first in {tag}" if tag else ", in no tag yet"))
    return "\n".join(rows)


def issue(found: History, news: Sequence[Story], healed: Sequence[str]) -> str:
    """What the nightly run writes: what is new, then all that is broken."""
    broken = [s for s in found.stories if not s.now.holds]
    rows = [f"`{found.line}` ({found.source} {found.pin}) against {found.to} {found.commit[:10]}:\n"]
    if news:
        rows.append(f"Newly broken:\n\n{told(found, news)}\n")
    if healed:
        rows.append("Holds again, or is gone from the stack:\n\n" + "\n".join(f"- `{name}`" for name in healed) + "\n")
    old = [s for s in broken if s not in news]
    if old:
        rows.append(f"Broken before:\n\n{told(found, old)}\n")
    rows.append("`kz history --why` shows the upstream lines, `kz rebase --onto REV` carries the stack over.")
    return "\n".join(rows)
