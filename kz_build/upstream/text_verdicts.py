"""Verdicts on patches: tables for a terminal, for GitHub's pages, and its annotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kz_build.core.escape import cell as table_cell
from kz_build.core.escape import code, code_block, text_width, wrap
from kz_build.patch.text import cell, explanation
from kz_build.patch.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from kz_build.upstream.verify import TrialBuild, VerifyResult, Version


def table(result: VerifyResult) -> str:
    """Show patches down, revisions across, then one paragraph for each remark."""
    widths = [max(len(_name(t)), 10) + 1 for t in result.targets]
    columns = text_width()
    room = max(30, columns - 2 - sum(widths))  # few revisions leave more room for the names
    names = [*result.patches, *([BUILD] if result.builds else [])]
    label = max((len(_label(name, room)) for name in names), default=0)
    blocks = []
    for part in _parts(widths, columns - label - 2) if widths else ():
        heads = [
            " " * (label + 3) + "".join(f"{fact(result.targets[i]):{widths[i]}}" for i in part)
            for fact in (_name, lambda t: t.commit[:10], lambda t: t.date)
        ]
        rows = [
            f"  {_label(name, room):{label}}" + "".join(f" {_marked(result.rows[i][k]):{widths[i] - 1}}" for i in part)
            for k, name in enumerate(result.patches)
        ]
        if result.builds:
            cells = (result.builds[i] for i in part)
            rows.append(
                f"  {_label(BUILD, room):{label}}"
                + "".join(f" {_built(b):{widths[i] - 1}}" for i, b in zip(part, cells, strict=True))
            )
        blocks.append("\n".join(row.rstrip() for row in [*heads, *rows] if row.strip()))
    if any(j.without for row in result.rows for j in row):
        blocks.append(f"  {FOOTNOTE}")
    return "\n".join(
        [
            f"{result.line} {result.source}",
            *blocks,
            *_notes(result),
            *_build_notes(result),
            *(wrap(_absent(result), "  ")),
        ]
    )


def _absent(result: VerifyResult) -> str:
    """Say which revisions only other stacks were judged on."""
    names = ", ".join(result.absent)
    return f"upstream of {result.source} has no {names}: only the other stacks were judged there" if names else ""


BUILD = "(the build)"
_OUTSIDE = "the stack does not touch it: this version may need other versions of the line's other sources"


def _built(build: TrialBuild | None) -> str:
    return build.outcome if build else "-"


def build_notes(result: VerifyResult) -> Iterator[tuple[str, list[str]]]:
    """Yield a sentence, and the log's lines, for each build: it builds, or why not."""
    for target, build in zip(result.targets, result.builds, strict=False):
        if build is None:
            yield f"{_name(target)}: not built, for not all patches hold there", []
        elif build.outcome == "builds":
            objects = f"{build.units} object{'' if build.units == 1 else 's'}"
            yield f"{_name(target)}: {build.target} builds in {build.seconds:.0f} s; the stack touches {objects}", []
        else:
            at = f", at {build.failed}" if build.failed else ""
            yield (
                f"{_name(target)}: {build.target} does not {build.outcome}{at}",
                [*build.errors, *([_OUTSIDE] if build.outside_stack else []), f"the whole log: {build.log}"],
            )


def _build_notes(result: VerifyResult) -> list[str]:
    rows = []
    for sentence, lines in build_notes(result):
        rows += wrap(sentence, "  ")
        rows += [f"      {line}" for line in lines]
    return rows


FOOTNOTE = "* judged without earlier patches on the same files, which do not hold there"


def _marked(judgement: Judgement) -> str:
    return cell(judgement) + ("*" if judgement.without else "")


def _name(target: Version) -> str:
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


def notes(result: VerifyResult) -> list[tuple[str, Judgement, list[str]]]:
    """Return (patch, judgement, names of the targets) for all that is not clean or an offset, equal ones together."""
    remarks: dict[tuple[object, ...], tuple[str, Judgement, list[str]]] = {}
    for k, name in enumerate(result.patches):
        for target, row in zip(result.targets, result.rows, strict=True):
            j = row[k]
            if j.verdict in (Verdict.CLEAN, Verdict.OFFSET) and not j.intents and not j.reason:
                continue
            merged = re.sub(r"^@@.*", "", j.merged, flags=re.MULTILINE)  # the same result some lines away is equal
            key = (name, j.verdict, j.path, j.reason, j.without, j.intents, j.there, merged)
            remarks.setdefault(key, (name, j, []))[2].append(_name(target))
    return list(remarks.values())


def _notes(result: VerifyResult) -> list[str]:
    rows = []
    for name, judgement, targets in notes(result):
        at = ", ".join(ranges(targets, [_name(target) for target in result.targets]))
        rows += wrap(f"{name.removesuffix('.patch')}: {cell(judgement)} at {at}", "  ")
        rows += [row for text in explanation(judgement) for row in wrap(text, "      ")]
        rows += [f"        {line}" for line in judgement.merged.splitlines()]
    return rows


def ranges(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return names of columns with `first … last` in place of four or more that are side by side in the table."""
    runs: list[list[str]] = []
    for name in names:
        if runs and columns.index(name) == columns.index(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [text for run in runs for text in ([f"{run[0]} … {run[-1]}"] if len(run) > 3 else run)]


def conclusion(results: Sequence[VerifyResult]) -> str:
    """Say how many patches do not hold, and where."""
    failed = [
        (f.line, f.source, j.patch, _name(t))
        for f in results
        for t, row in zip(f.targets, f.rows, strict=True)
        for j in row
        if not j.holds
    ]
    patches = len({row[:3] for row in failed})
    names = list(dict.fromkeys(row[3] for row in failed))
    where = ", ".join(names) if len(names) <= 6 else f"{names[0]} … {names[-1]}, {len(names)} revisions"
    return f"{patches} patch{'es do' if patches > 1 else ' does'} not hold on {where}"


def markdown(result: VerifyResult) -> str:
    """Show the same for a page that renders Markdown."""
    head = f"| {result.line} / {result.source} | " + " | ".join(table_cell(_name(t)) for t in result.targets) + " |"
    rows = [head, "|" + "---|" * (len(result.targets) + 1)]
    for k, name in enumerate(result.patches):
        cells = [
            (cell(row[k]) if row[k].holds else f"**{cell(row[k])}**") + "\\*" * bool(row[k].without)
            for row in result.rows
        ]
        rows.append(f"| {table_cell(name.removesuffix('.patch'))} | " + " | ".join(cells) + " |")
    if result.builds:
        cells = [_built(b) if b is None or b.outcome == "builds" else f"**{_built(b)}**" for b in result.builds]
        rows.append(f"| {BUILD} | " + " | ".join(cells) + " |")
    listed = [f"\\{FOOTNOTE}", ""] if any(j.without for row in result.rows for j in row) else []
    for name, judgement, targets in notes(result):
        listed.append(f"- {code(name.removesuffix('.patch'))}: {cell(judgement)} at {', '.join(map(code, targets))}")
        listed += [f"  - {code(text)}" for text in explanation(judgement)]
        if judgement.merged:
            listed += ["", *(f"  {line}" for line in code_block(judgement.merged, "diff"))]
    for sentence, lines in build_notes(result):
        listed += [f"- {code(sentence)}", *(f"  - {code(line)}" for line in lines)]
    listed += [f"- {code(absent)}"] if (absent := _absent(result)) else []
    return "\n".join([*rows, "", *listed]) + "\n"


def workflow_commands(result: VerifyResult, root: str = "") -> list[str]:
    """Return GitHub's workflow commands: an error at the hunk that fails, a notice for a patch to drop.

    `root` is the project's folder in the repository, '' for its root.
    """
    rows = []
    for name, j, targets in notes(result):
        kind = "error" if not j.holds else "notice"
        text = "; ".join([f"{cell(j)} at {', '.join(targets)}", *explanation(j)])
        file = "/".join(part for part in (root, result.folder, name) if part)
        title = f"{result.source} {cell(j)}"
        rows.append(f"::{kind} file={_property(file)},line={max(j.line, 1)},title={_property(title)}::{_data(text)}")
    return rows


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
