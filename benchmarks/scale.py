"""A year of nights for a matrix of lines x targets x ABIs: minutes, the store's growth and cache hits, on paper from measured parts.

`python benchmarks/scale.py` measures the parts on the sample, predicts a month of a small matrix from them, runs that month, and compares.
`python benchmarks/scale.py --real FILE` takes the parts of a real build from FILE (JSON: a `Parts` by the names of its fields) and prints a year.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from build import Bench
from common import KZ, table

from kz_build.pins.load import load_project

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "examples" / "sample"
NIGHTS = 30
CHANGES, ARRIVES = (4, 9, 14, 24), 19
"""The nights of the small month before which a patch of the first line changed, and before which a new line came."""
MIB = 1 << 20
GITHUB_CACHE = 10 * 1024 * MIB
"""What GitHub keeps for a repository unless one pays (docs.github.com, "Dependency caching reference")."""


class Cost(NamedTuple):
    """One build of a cell: CPU seconds, bytes that the store grew by, compilations that the cache had and had not."""

    cpu: float
    bytes: int
    hits: int
    misses: int


@dataclass(frozen=True)
class Parts:
    """What a matrix is made of. `first` is a cell in an empty store; `target` another target on its line; `line` a further line with
    the same sources of tools; `line_target` that line's second target; `changed` a cell after a patch changed; `same` one with nothing to do."""

    first: Cost
    target: Cost
    line: Cost
    line_target: Cost
    changed: Cost
    same: Cost


class Period(NamedTuple):
    """What nights cost in all."""

    cpu: float
    bytes: int
    hits: int
    misses: int

    def plus(self, cost: Cost | Period, times: int = 1) -> Period:
        """Return this and so many times a cost."""
        cpu, size, hits, misses = cost
        return Period(
            self.cpu + times * cpu, self.bytes + times * size, self.hits + times * hits, self.misses + times * misses
        )


def on_paper(parts: Parts, lines: int, targets: int, nights: int, changes: int, arrivals: int) -> Period:
    """Return what nights of lines x targets cost: `changes` nights on which a patch of one line changed, `arrivals` on which a line came
    and the oldest went."""
    begun = Period(0.0, 0, 0, 0).plus(parts.first).plus(parts.target, targets - 1)
    begun = begun.plus(parts.line, lines - 1).plus(parts.line_target, (lines - 1) * (targets - 1))
    built = begun.plus(parts.changed, changes * targets)
    built = built.plus(parts.line, arrivals).plus(parts.line_target, arrivals * (targets - 1))
    idle = nights * lines * targets - lines * targets - changes * targets - arrivals * targets
    return built.plus(parts.same, idle)


class Month:
    """A project whose matrix is built night after night, over a store of its own."""

    def __init__(self, folder: Path, lines: Sequence[str], targets: int) -> None:
        self.store = folder / "store"
        os.environ["KZ_CACHE"] = str(self.store)
        (folder / "project").mkdir(parents=True)
        self.bench = Bench(load_project(SAMPLE), folder / "project", [])
        self.root, self.targets = self.bench.root, [f"cell-{number}" for number in range(targets)]
        self.pins = (self.root / "pins.yaml").read_text()
        self.lines: list[str] = []
        for line in lines:
            self.arrive(line)

    def arrive(self, line: str) -> None:
        """Begin a line that differs from the others by a patch."""
        first = "sample-0.1"
        if line != first:
            shutil.copytree(self.root / "patches" / first, self.root / "patches" / line)
        self.lines.append(line)
        self._write()
        if line != first:
            self.bench.line = line
            self.bench.touch("")
            self.bench.line = first
            self._write()  # the tree that touch writes into the lock may be two lines'

    def leave(self, line: str) -> None:
        """End a line: nightly, `kz store gc` would remove what only it used."""
        self.lines.remove(line)
        self._write()

    def night(self) -> Period:
        """Build every cell."""
        total = Period(0.0, 0, 0, 0)
        for line in self.lines:
            for target in self.targets:
                total = total.plus(self.build(line, target))
        return total

    def build(self, line: str, target: str) -> Cost:
        """Build one cell."""
        before, size = cpu(), used(self.store)
        argv = [*KZ, "-C", str(self.root), "build", "--line", line, "--target", target]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{line}/{target}: {done.stderr[-2000:]}")
        record = json.loads((self.root / "out" / "build" / line / target / "manifest.json").read_text())
        count = record["ccache"] if "built in" in done.stdout else {}
        return Cost(cpu() - before, used(self.store) - size, count.get("hits", 0), count.get("misses", 0))

    def _write(self) -> None:
        """Write pins.yaml with all lines and targets: targets differ by a definition, so that no object is that of another."""
        text, _, target = self.pins.partition("  linux-arm64:\n")
        body = re.split(r"\n(?=\S)", target)[0]
        pins = re.search(r"  sample-0.1: (\{.+\})\n", text)
        assert pins
        rows = "".join(f"  {line}: {pins[1]}\n" for line in self.lines)
        text = text.replace(pins[0], rows).replace("default: sample-0.1", f"default: {self.lines[0]}")
        cells = "".join(
            f"  {name}:\n{body}\n".replace("CMAKE_C_FLAGS: -O2", f"CMAKE_C_FLAGS: -O2 -DCELL={number}").replace(
                "CMAKE_CXX_FLAGS: -O2", f"CMAKE_CXX_FLAGS: -O2 -DCELL={number}"
            )
            for number, name in enumerate(self.targets)
        )
        (self.root / "pins.yaml").write_text(text + cells)
        subprocess.run([*KZ, "-C", str(self.root), "lock", "--write"], check=True, capture_output=True)


def cpu() -> float:
    """Return the CPU seconds of all programs that ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def used(folder: Path) -> int:
    """Return the bytes below a folder, each file once."""
    files = {(f.st_dev, f.st_ino): f.st_size for f in (p.lstat() for p in folder.rglob("*"))}
    return sum(files.values())


def measured(folder: Path) -> Parts:
    """Build the sample's cells one after the other, and return what each kind costs."""
    month = Month(folder, ["sample-0.1"], 2)
    first, target = (month.build("sample-0.1", name) for name in month.targets)
    same = month.build("sample-0.1", "cell-0")
    month.arrive("next")
    line, line_target = (month.build("next", name) for name in month.targets)
    month.bench.touch("")
    changed = month.build("sample-0.1", "cell-0")
    return Parts(first, target, line, line_target, changed, same)


def lived(folder: Path) -> Period:
    """Run the small month: two lines, two targets."""
    month, total = Month(folder, ["sample-0.1", "old"], 2), Period(0.0, 0, 0, 0)
    for night in range(NIGHTS):
        if night in CHANGES:
            month.bench.touch("")
        if night == ARRIVES:
            month.leave("old")
            month.arrive("new")
        total = total.plus(month.night())
    return total


def show(title: str, periods: dict[str, Period]) -> None:
    """Print periods as a table."""
    rows = [(n, f"{p.cpu / 60:.1f}", f"{p.bytes / MIB:,.1f}", p.hits, p.misses) for n, p in periods.items()]
    table(title, ("", "CPU minutes", "store, MiB", "cache hits", "misses"), rows)


def year(parts: Parts) -> None:
    """Print a year of growing matrices: a patch of some line changes twice a week, a release comes each month."""
    rows = []
    for lines, targets, abis in ((3, 4, 1), (6, 4, 2), (12, 6, 1), (12, 6, 3), (24, 6, 3)):
        cells = targets * abis
        period = on_paper(parts, lines, cells, 365, 104, 12)
        start = on_paper(parts, lines, cells, 1, 0, 0)
        worst = cells * parts.line.cpu / 60
        rate = period.hits / max(period.hits + period.misses, 1)
        kept = "yes" if period.bytes < GITHUB_CACHE else f"{period.bytes / GITHUB_CACHE:.1f} times its limit"
        rows.append(
            (f"{lines} x {targets} x {abis}", lines * cells, f"{period.cpu / 60 / 365:,.1f}", f"{worst:,.0f}", f"{start.bytes / MIB:,.0f}",
             f"{(period.bytes - start.bytes) / MIB:,.0f}", f"{100 * rate:.0f} %", "yes" if lines * cells <= 256 else "no", kept)
        )  # fmt: skip
    head = ("lines x targets x ABIs", "cells", "CPU min a night", "night of a release", "store, MiB", "growth a year", "hits",
            "one GitHub matrix", "GitHub's cache")  # fmt: skip
    table("A year: 104 changed patches, 12 new lines; each line that leaves is removed by nobody", head, rows)


def main() -> None:
    """Measure and compare, or print a year of given parts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.real:
        year(Parts(**{name: Cost(*values) for name, values in json.loads(given.real.read_text()).items()}))
        return
    with tempfile.TemporaryDirectory(prefix="kz-scale-") as folder:
        parts = measured(Path(folder, "parts"))
        table("Parts, the sample", ("", *Cost._fields), [(n, *(getattr(parts, n))) for n in parts.__dataclass_fields__])
        paper, real = on_paper(parts, 2, 2, NIGHTS, len(CHANGES), 1), lived(Path(folder, "month"))
        show("A month of 2 lines x 2 targets", {"on paper": paper, "lived": real})
        print(
            "paper / lived: "
            + ", ".join(f"{name} {a / b:.3f}" for name, a, b in zip(Period._fields, paper, real, strict=True) if b)
        )
        year(parts)


if __name__ == "__main__":
    main()
