"""Verdicts on patches: tables for a terminal, for GitHub's pages, and its annotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kz_build.model.judgement import Judgement, Verdict

WIDTH = 80


class Target(Protocol):
    """A version of upstream."""

    @property
    def name(self) -> str: ...
    @property
    def commit(self) -> str: ...
    @property
    def date(self) -> str: ...


class Verified(Protocol):
    """One stack against its targets."""

    @property
    def line(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def patches(self) -> tuple[str, ...]: ...
    @property
    def targets(self) -> Sequence[Target]: ...
    @property
    def rows(self) -> tuple[tuple[Judgement, ...], ...]: ...


def cell(judgement: Judgement) -> str:
    """A verdict in a word."""
    if judgement.verdict.holds and judgement.intents:
        return "intent"
    return f"{judgement.offset:+d}" if judgement.verdict is Verdict.OFFSET else judgement.verdict.value


def table(found: Verified) -> str:
    """Patches down, revisions across, then one paragraph for each thing to know."""
    label = max(len(_label(name, 30)) for name in found.patches) if found.patches else 0
    widths = [max(len(t.name), 10) + 1 for t in found.targets]
    blocks = []
    for part in _parts(widths, WIDTH - label - 2):
        head = " " * (label + 2) + "".join(f"{found.targets[i].name:{widths[i]}}" for i in part)
        rows = [
            f"  {_label(name, 30):{label}}" + "".join(f"{' ' + cell(found.rows[i][k]):{widths[i]}}" for i in part)
            for k, name in enumerate(found.patches)
        ]
        blocks.append("\n".join(row.rstrip() for row in [head, *rows]))
    title = f"{found.line} {found.source}" + _dated(found.targets)
    return "\n".join([title, *blocks, *_notes(found)])


def _dated(targets: Sequence[Target]) -> str:
    shown = [f"{t.name} {t.commit[:10]} {t.date}".rstrip() for t in targets if t.name != t.commit]
    return f" ({shown[0]})" if len(shown) == 1 else f" ({shown[0]} … {shown[-1]})" if shown else ""


def _label(name: str, width: int) -> str:
    text = name.removesuffix(".patch")
    return text if len(text) <= width else text[: width - 1] + "…"


def _parts(widths: Sequence[int], room: int) -> Iterable[list[int]]:
    part: list[int] = []
    for i, width in enumerate(widths):
        if part and sum(widths[k] for k in part) + width > room:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def notes(found: Verified) -> list[tuple[str, Judgement, list[str]]]:
    """(patch, judgement, names of the targets) for everything that is not clean or an offset, alike ones together."""
    said: dict[tuple[object, ...], tuple[str, Judgement, list[str]]] = {}
    for k, name in enumerate(found.patches):
        for target, row in zip(found.targets, found.rows, strict=True):
            j = row[k]
            if j.verdict in (Verdict.CLEAN, Verdict.OFFSET) and not j.intents:
                continue
            key = (name, j.verdict, j.path, j.reason, j.without, j.intents)
            said.setdefault(key, (name, j, []))[2].append(target.name)
    return list(said.values())


def explained(judgement: Judgement) -> list[str]:
    """What a judgement says, in sentences."""
    rows = []
    if not judgement.verdict.holds:
        where = f" (hunk at line {judgement.line} of the patch)" if judgement.line else ""
        rows.append(f"{judgement.path}: {judgement.reason}{where}")
    elif judgement.verdict is Verdict.UPSTREAMED:
        rows.append(f"{judgement.path}: {judgement.reason}; drop the patch there")
    rows += [f"intent: {text}" for text in judgement.intents]
    if judgement.without:
        rows.append(f"judged without {', '.join(name.split('-', 1)[0] for name in judgement.without)}")
    return rows


def _notes(found: Verified) -> list[str]:
    rows = []
    for name, judgement, targets in notes(found):
        rows.append(f"  {name.removesuffix('.patch')}: {cell(judgement)} at {', '.join(targets)}")
        rows += [f"      {text}" for text in explained(judgement)]
    return rows


def markdown(found: Verified) -> str:
    """The same for a page that renders Markdown."""
    head = f"| {found.line} / {found.source} | " + " | ".join(t.name for t in found.targets) + " |"
    rows = [head, "|" + "---|" * (len(found.targets) + 1)]
    for k, name in enumerate(found.patches):
        cells = [f"{cell(row[k])}" if row[k].holds else f"**{cell(row[k])}**" for row in found.rows]
        rows.append(f"| {name.removesuffix('.patch')} | " + " | ".join(cells) + " |")
    listed = []
    for name, judgement, targets in notes(found):
        listed.append(f"- `{name.removesuffix('.patch')}`: {cell(judgement)} at {', '.join(targets)}")
        listed += [f"  - {text}" for text in explained(judgement)]
    return "\n".join([*rows, "", *listed]) + "\n"


def workflow_commands(found: Verified) -> list[str]:
    """GitHub's workflow commands: an error at the hunk that fails, a notice for a patch to drop."""
    rows = []
    for name, j, targets in notes(found):
        kind = "error" if not j.holds else "notice"
        text = "; ".join([f"{cell(j)} at {', '.join(targets)}", *explained(j)])
        text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        rows.append(f"::{kind} file={found.folder}/{name},line={max(j.line, 1)},title={found.source} {cell(j)}::{text}")
    return rows
