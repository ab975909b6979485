"""Earlier reports of a project: one small line of JSON each in out/report/history.jsonl, and the whole of the one before.

There is no time in them: the same facts give the same line on any day, and a run without new facts adds none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kz_build.core import plain_json
from kz_build.core.errors import StorageError
from kz_build.core.files import write_atomic
from kz_build.core.plain_json import plain
from kz_build.pins.project import Project
from kz_build.report.facts import Facts
from kz_build.report.report import MOST_BYTES
from kz_build.report.size import by_kind

LINES, REPORTS = "history.jsonl", "reports.json"
MOST_RUNS = 200
"""Older lines are dropped."""
_MOST_LINE = 256 << 10


class Run(NamedTuple):
    """A report in short: `verdicts` of a patch are its states at its pin and on upstream's branch, `sizes` bytes by kind
    of section, `builds` their key and seconds, `figures` medians."""

    facts: str
    trunk: str
    verdicts: Mapping[str, tuple[str, str]]
    sizes: Mapping[str, Mapping[str, int]]
    builds: Mapping[str, tuple[str, float]]
    figures: Mapping[str, Mapping[str, float]]


Reports = Mapping[str, Mapping[str, Any]]
"""Line -> what `kz report --json` prints of it."""


class History(NamedTuple):
    """The runs, oldest first; the last is that of the report itself. `before` are the reports of the run before it."""

    runs: tuple[Run, ...]
    before: Reports

    @property
    def previous(self) -> Run | None:
        """The run before this one, None for the first."""
        return self.runs[-2] if len(self.runs) > 1 else None


def remember(project: Project, facts: Facts) -> History:
    """Add a report to the history, unless its facts are those of the last one; return the history."""
    folder = project.out("report")
    run = _run(facts)
    runs, kept = read(folder), _reports(folder / REPORTS)
    if runs and runs[-1].facts == run.facts:
        return History(runs, kept.get("before", {}))
    runs = (*runs, run)[-MOST_RUNS:]
    before = kept.get("now", {}) if len(runs) > 1 else {}
    reports = {"before": before, "now": plain(facts.reports)}
    # The line comes last: killed before it, the next run does the same again.
    write_atomic(folder / REPORTS, json.dumps(reports, sort_keys=True).encode() + b"\n")
    lines = [json.dumps(one._asdict(), sort_keys=True, separators=(",", ":")) + "\n" for one in runs]
    write_atomic(folder / LINES, "".join(lines).encode())
    return History(runs, before)


def read(folder: Path) -> tuple[Run, ...]:
    """Return the runs in a folder, oldest first; a line that is damaged or too long is left out."""
    return tuple(run for line in _lines(folder / LINES) if (run := _parsed(line)))[-MOST_RUNS:]


def _lines(path: Path) -> Iterable[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - MOST_RUNS * _MOST_LINE))
            data = file.read(MOST_RUNS * _MOST_LINE)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    return data.split(b"\n")


def _parsed(line: bytes) -> Run | None:
    if not line or len(line) > _MOST_LINE:
        return None
    try:
        row = json.loads(line)
        return Run(
            _text(row["facts"]),
            _text(row["trunk"]),
            {_text(patch): (_text(a), _text(b)) for patch, (a, b) in row["verdicts"].items()},
            {name: {kind: int(size) for kind, size in parts.items()} for name, parts in row["sizes"].items()},
            {name: (_text(key), float(seconds)) for name, (key, seconds) in row["builds"].items()},
            {name: {figure: float(value) for figure, value in one.items()} for name, one in row["figures"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _reports(path: Path) -> Mapping[str, Reports]:
    """Return the reports of the last run (`now`) and of the one before; {} if there are none, or they are damaged."""
    try:
        kept = plain_json.read(path, MOST_BYTES)
    except (OSError, ValueError):
        return {}
    named = isinstance(kept, dict) and all(isinstance(kept.get(key), dict) for key in ("before", "now"))
    return kept if named else {}


def _run(facts: Facts) -> Run:
    everything = json.dumps(plain(facts), sort_keys=True).encode()
    trunks = sorted(
        {f"{s.source} {s.trunk.name} {s.trunk.commit[:10]} {s.trunk.date}" for s in facts.stacks if s.trunk}
    )
    return Run(
        facts=hashlib.sha256(everything).hexdigest()[:16],
        trunk=", ".join(trunks),
        verdicts={
            f"{stack.line}/{stack.source}/{patch.name}": stack.ends(patch) for stack in facts.stacks for patch in stack.patches
        },
        sizes={
            f"{build.line}/{build.target}/{file.name}": by_kind(file.sections)
            for build in facts.builds
            for file in build.files
            if file.sections and file.profile != "symbols"
        },
        builds={f"{build.line}/{build.target}": (build.key[:16], build.seconds) for build in facts.builds},
        figures={
            one.name: {figure.title: figure.median for figure in one.figures}
            for one in facts.devices
            if not one.emulated
        },
    )  # fmt: skip
