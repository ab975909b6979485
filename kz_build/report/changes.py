"""What changed since the report before, with patches on upstream's branch, which no record has. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kz_build.core.errors import ConfigError
from kz_build.report.diff import Kind, compare
from kz_build.report.facts import FAILING, Cell, Facts

if TYPE_CHECKING:
    from kz_build.report.history import History


class Changed(NamedTuple):
    """A row: what it is about, what it was and is, why, and the next command."""

    kind: Kind
    what: str
    before: str
    now: str
    evidence: str = ""
    next: str = ""


def changes(facts: Facts, history: History) -> tuple[Changed, ...]:
    """Return all changes, the worst first. Without an earlier report all that fails is `still failing`."""
    rows = dict.fromkeys((*_patches(facts, history), *_records(facts, history)))
    return tuple(sorted(rows, key=lambda row: list(Kind).index(row.kind)))


def _records(facts: Facts, history: History) -> Iterator[Changed]:
    for line, report in facts.reports.items():
        try:
            rows = compare(history.before.get(line, report), report).changes
        except ConfigError:  # the earlier one was damaged
            continue
        for row in rows:
            where = () if row.stage == "overrides" else (line,)  # they are the same for every line
            what = " ".join(filter(None, (*where, row.stage, row.where, row.what)))
            yield Changed(row.kind, what, row.before, row.now, row.evidence)


def _patches(facts: Facts, history: History) -> Iterator[Changed]:
    known = history.previous.verdicts if history.previous else {}
    for stack in facts.stacks:
        places = f"its pin {stack.pin}", stack.trunk.name if stack.trunk else ""
        for patch in stack.patches:
            before = known.get(f"{stack.line}/{stack.source}/{patch.name}", ("", ""))
            cells = stack.at_pin(patch), stack.on_trunk(patch)
            for was, cell, where in zip(before, cells, places, strict=True):
                if kind := _kind(was, cell.state):
                    what = f"{stack.line} {stack.source} {patch.name.removesuffix('.patch')} on {where}"
                    now = f"{cell.state}: {cell.word}"
                    then = f"kz history --line {stack.line} --why" if kind in (Kind.WORSE, Kind.STILL) else ""
                    yield Changed(kind, what, was if was != cell.state else "", now, _evidence(cell), then)


def _kind(was: str, now: str) -> Kind | None:
    """Return what a patch's change means, None for nothing: what was never judged neither broke nor holds again."""
    if now in FAILING:
        return Kind.WORSE if was and was not in (*FAILING, "unknown") else Kind.STILL
    if was in FAILING and now != "unknown":
        return Kind.FIXED
    return Kind.CHANGED if was and was != now and "unknown" not in (was, now) and "upstreamed" in (was, now) else None


def _evidence(cell: Cell) -> str:
    behind = f"since {cell.change.id[:10]} {cell.change.date} {cell.change.subject}" if cell.change else ""
    return "; ".join(filter(None, (behind, *cell.details[:1])))
