"""The runs of a device: a line each in runs.jsonl, appended after each run, so that a killed series goes on where it stopped.

A run's line holds its series, conditions and figures. A series ends with a line that says whether it was kept, and what memory it
took: figures are compared with kept series alone (docs/guides/figures.md).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from kz_build.core import files
from kz_build.core.plain_json import plain
from kz_build.device.metrics import Memory, Sample, spreads
from kz_build.pins.pins import digest_of

RUNS = "runs.jsonl"
IN_APP = "in-app"
"""The folder in a device's, with the last report of the app on it."""
MOST = 50
"""The newest runs that are looked at: noise of last year says little of today's."""
STALE_SECONDS = 24 * 3600
"""Age at which an unfinished series is begun again."""


@dataclass(frozen=True)
class Conditions:
    """What a run was made under. Runs are compared if all is equal but the libraries: what a build changes is what is asked.

    `cool`: the battery was below the limit at the start. `model`, `libraries`, `command`: digests; `sustain` in seconds.
    `target`, `subject` and `words` of the prompt (0: the check's own) are parts of the command.
    """

    fingerprint: str
    process: str
    fixed_performance: bool
    cool: bool
    model: str
    libraries: str
    command: str
    sustain: int = 0
    target: str = ""
    subject: str = ""
    words: int = 0


class Kept(NamedTuple):
    """A series that figures may be compared with. `fresh`: it began a new history, for its figures differ from those before."""

    conditions: Conditions
    samples: tuple[Sample, ...]
    fresh: bool
    memory: Memory | None = None


class Earlier(NamedTuple):
    """What a series may be compared with, the newest; or what differs from the last series of its command."""

    samples: tuple[Sample, ...] = ()
    memory: tuple[Memory, ...] = ()
    differs: str = ""


@dataclass
class Series:
    """Runs under the same conditions, in the order they were made."""

    path: Path
    conditions: Conditions
    samples: list[Sample] = field(default_factory=list)
    resumed: int = 0

    @property
    def name(self) -> str:
        return digest_of(plain(self.conditions))[:16]

    def add(self, sample: Sample, celsius: float | None = None) -> None:
        """Append a run; it is on the disk when this returns."""
        self.samples.append(sample)
        facts = {"run": len(self.samples), "battery_celsius": celsius, "conditions": self.conditions, "sample": sample}
        self._append(facts)

    def end(self, refused: str, *, fresh: bool = False, memory: Memory | None = None) -> None:
        """Close the series: keep it, or say why not. `fresh`: later series are compared with this one, and with none before it."""
        self._append({"end": "refused" if refused else "kept", "why": refused, "fresh": fresh, "memory": memory})

    def _append(self, facts: Mapping[str, object]) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"series": self.name, "at": at, **plain(facts)}, sort_keys=True)
        with files.disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                file.seek(max(0, file.tell() - 1))
                torn = file.read(1) not in (b"", b"\n")  # kz was killed, or the disk full, within a line
                file.write(b"\n" * torn + f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())


def resume(path: Path, conditions: Conditions) -> Series:
    """Return the series under these conditions: with its runs so far if it did not end, and began less than a day ago."""
    series = Series(path, conditions)
    begun = 0.0
    for row in _rows(path):
        if row.get("series") != series.name:
            continue
        if "end" in row:
            series.samples.clear()
        elif sample := _sample(row):
            if row.get("run") == 1:
                series.samples.clear()
                begun = _time(row)
            series.samples.append(sample)
    if time.time() - begun > STALE_SECONDS:
        series.samples.clear()
    series.resumed = len(series.samples)
    return series


def kept_series(path: Path) -> tuple[Kept, ...]:
    """Return every series that was kept, the oldest first."""
    kept: list[Kept] = []
    pending: dict[str, list[Sample]] = {}
    conditions: dict[str, Conditions] = {}
    for row in _rows(path):
        name = str(row.get("series"))
        if "end" in row:
            samples = tuple(pending.pop(name, ()))
            if row["end"] == "kept" and samples:
                kept.append(Kept(conditions[name], samples, bool(row.get("fresh")), _memory(row)))
        elif (sample := _sample(row)) and (made_under := _conditions(row)):
            if row.get("run") == 1:  # what is before was abandoned: it became too old, or was for a time
                pending[name] = []
            pending.setdefault(name, []).append(sample)
            conditions[name] = made_under
    return tuple(kept)


def last_figures(path: Path) -> dict[str, dict[str, object]]:
    """Return the figures of the last kept series of each thing that was measured: what of a target, in which kind of process."""
    figures: dict[str, dict[str, object]] = {}
    for of, samples, *_ in kept_series(path):
        if of.target and not of.words:
            what = {"target": of.target, "subject": of.subject, "process": of.process}
            figures[" ".join(map(str, what.values()))] = {**what, "spreads": plain(spreads(samples))}
    return figures


def comparable(kept: Sequence[Kept], series: Series) -> Earlier:
    """Return what a series may be compared with."""
    runs: tuple[Sample, ...] = ()
    memory: tuple[Memory, ...] = ()
    differs = ""
    for one in kept:
        if other := _differences(one, series):
            same_thing = one.conditions.command == series.conditions.command
            differs = f"not compared with the last series: {', '.join(other)}" if same_thing else differs
        else:
            runs = (one.samples if one.fresh else (*runs, *one.samples))[-MOST:]
            memory = (*(() if one.fresh else memory), *filter(None, (one.memory,)))[-MOST:]
    return Earlier(runs, memory, "" if runs else differs)


_SAID = {
    "fingerprint": "another Android build",
    "process": "another kind of process",
    "fixed_performance": "another performance mode",
    "cool": "another temperature at the start",
    "model": "another .pte",
    "command": "another command",
    "sustain": "another length",
}


def _differences(kept: Kept, series: Series) -> list[str]:
    """Name what is not the same. The libraries may differ."""
    words = [said for name, said in _SAID.items() if getattr(kept.conditions, name) != getattr(series.conditions, name)]
    for name, said in (("prompt_tokens", "of the prompt"), ("generated_tokens", "generated")):
        before, now = ({getattr(one, name) for one in samples} for samples in (kept.samples, series.samples))
        if before != now:
            words.append(f"{_range(before)} tokens {said} then, {_range(now)} now")
    return words


def _range(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)} to {max(numbers)}"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the file; one that was not written whole is skipped."""
    try:
        with files.disk_errors(path), path.open("rb") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row
    except FileNotFoundError:
        return


def _sample(row: dict[str, Any]) -> Sample | None:
    """Read a run's figures; None for those of another version of kz."""
    try:
        return Sample(**row["sample"])
    except (KeyError, TypeError):
        return None


def _memory(row: dict[str, Any]) -> Memory | None:
    try:
        return Memory(**row["memory"])
    except (KeyError, TypeError):
        return None


def _conditions(row: dict[str, Any]) -> Conditions | None:
    try:
        given = row["conditions"]
        return Conditions(**{one.name: given[one.name] for one in fields(Conditions) if one.name in given})
    except (KeyError, TypeError):
        return None


def _time(row: dict[str, Any]) -> float:
    import calendar

    try:
        return calendar.timegm(time.strptime(row["at"], "%Y-%m-%dT%H:%M:%SZ"))
    except (KeyError, TypeError, ValueError):
        return 0.0
