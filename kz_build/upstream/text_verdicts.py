"""Verdicts on patches: tables for a terminal, for GitHub's pages, and its annotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from kz_build.patch.text import WIDTH, cell, explanation, wrap
from kz_build.patch.verdict import Judgement, Verdict


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


def table(found: Verified) -> str:
    """Patches down, revisions across, then one paragraph for each thing to know."""
    widths = [max(len(_name(t)), 10) + 1 for t in found.targets]
    room = max(30, WIDTH - 2 - sum(widths))  # few revisions leave more of it to the names
    label = max((len(_label(name, room)) for name in found.patches), default=0)
    blocks = []
    for part in _parts(widths, WIDTH - label - 2):
        heads = [
            " " * (label + 3) + "".join(f"{fact(found.targets[i]):{widths[i]}}" for i in part)
            for fact in (_name, lambda t: t.commit[:10], lambda t: t.date)
        ]
        rows = [
            f"  {_label(name, room):{label}}" + "".join(f" {_marked(found.rows[i][k]):{widths[i] - 1}}" for i in part)
            for k, name in enumerate(found.patches)
        ]
        blocks.append("\n".join(row.rstrip() for row in [*heads, *rows] if row.strip()))
    if any(j.without for row in found.rows for j in row):
        blocks.append(f"  {FOOTNOTE}")
    return "\n".join([f"{found.line} {found.source}", *blocks, *_notes(found)])


FOOTNOTE = "* judged without earlier patches on the same files, which do not hold there"


def _marked(judgement: Judgement) -> str:
    return cell(judgement) + ("*" if judgement.without else "")


def _name(target: Target) -> str:
    return target.name[:10] if target.name == target.commit else target.name


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
            merged = re.sub(r"^@@.*", "", j.merged, flags=re.MULTILINE)  # the same result some lines away is the same
            key = (name, j.verdict, j.path, j.reason, j.without, j.intents, j.there, merged)
            said.setdefault(key, (name, j, []))[2].append(_name(target))
    return list(said.values())


def _notes(found: Verified) -> list[str]:
    rows = []
    for name, judgement, targets in notes(found):
        rows += wrap(f"{name.removesuffix('.patch')}: {cell(judgement)} at {', '.join(targets)}", "  ")
        rows += [row for text in explanation(judgement) for row in wrap(text, "      ")]
        rows += [f"        {line}" for line in judgement.merged.splitlines()]
    return rows


def conclusion(found: Sequence[Verified]) -> str:
    """How many patches do not hold, and where."""
    failed = [
        (f.line, f.source, j.patch, _name(t))
        for f in found
        for t, row in zip(f.targets, f.rows, strict=True)
        for j in row
        if not j.holds
    ]
    patches = len({row[:3] for row in failed})
    names = list(dict.fromkeys(row[3] for row in failed))
    where = ", ".join(names) if len(names) <= 6 else f"{names[0]} … {names[-1]}, {len(names)} revisions"
    return f"{patches} patch{'es do' if patches > 1 else ' does'} not hold on {where}"


def markdown(found: Verified) -> str:
    """The same for a page that renders Markdown."""
    head = f"| {found.line} / {found.source} | " + " | ".join(_name(t) for t in found.targets) + " |"
    rows = [head, "|" + "---|" * (len(found.targets) + 1)]
    for k, name in enumerate(found.patches):
        cells = [
            (cell(row[k]) if row[k].holds else f"**{cell(row[k])}**") + "\\*" * bool(row[k].without)
            for row in found.rows
        ]
        rows.append(f"| {name.removesuffix('.patch')} | " + " | ".join(cells) + " |")
    listed = [f"\\{FOOTNOTE}", ""] if any(j.without for row in found.rows for j in row) else []
    for name, judgement, targets in notes(found):
        listed.append(f"- `{name.removesuffix('.patch')}`: {cell(judgement)} at {', '.join(targets)}")
        listed += [f"  - {text}" for text in explanation(judgement)]
        if judgement.merged:
            listed += ["", "  ```diff", *(f"  {line}" for line in judgement.merged.splitlines()), "  ```"]
    return "\n".join([*rows, "", *listed]) + "\n"


def workflow_commands(found: Verified, root: str = "") -> list[str]:
    """GitHub's workflow commands: an error at the hunk that fails, a notice for a patch to drop.

    `root` is the project's folder as the repository's root sees it, where it is not that.
    """
    rows = []
    for name, j, targets in notes(found):
        kind = "error" if not j.holds else "notice"
        text = "; ".join([f"{cell(j)} at {', '.join(targets)}", *explanation(j)])
        file = "/".join(part for part in (root, found.folder, name) if part)
        title = f"{found.source} {cell(j)}"
        rows.append(f"::{kind} file={_property(file)},line={max(j.line, 1)},title={_property(title)}::{_data(text)}")
    return rows


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
