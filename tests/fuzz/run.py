"""Many hostile files for the readers of a format, and single files again."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz.attempt import Outcome, attempt
from tests.fuzz.mutation import mutated
from tests.fuzz.readers import CORPUS, FORMATS

KEPT = ROOT / "out" / "fuzz"
"""Where inputs that showed a fault are kept."""
MOST_FAULTS = 20
_SHOWN_EVERY = 60  # seconds


@dataclass
class Result:
    """What many runs of a format took, and the different faults that they showed, each with the command that repeats it."""

    runs: int = 0
    refused: int = 0
    slowest: float = 0.0
    largest: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.runs:,} runs, {self.refused:,} refused, slowest {self.slowest:.2f} s, largest {self.largest} MB, "
            f"{len(self.faults)} faults"
        )


def corpus(name: str) -> list[Path]:
    """Return the files that the fuzzer starts from: small whole ones, and those that once showed a fault."""
    return sorted((CORPUS / name).iterdir())


def read(name: str, path: Path, data: bytes, scratch: Path) -> Outcome:
    """Read bytes as the kind of file that a file of the corpus is."""
    reader = FORMATS[name].kinds[_kind(path)]
    return attempt(lambda: reader(data, scratch))


def fuzz(name: str, runs: int, seed: int, scratch: Path) -> Result:
    """Read hostile neighbours of the corpus; keep and print what shows a fault."""
    files = [(path, path.read_bytes()) for path in corpus(name)]
    others = [data for _, data in files]
    chance = random.Random(f"{name} {seed}")
    result, shown = Result(), time.monotonic()
    for path, data in files:  # what is read the first time imports modules
        read(name, path, data, scratch)
    while result.runs < runs and len(result.faults) < MOST_FAULTS:
        path, data = chance.choice(files)
        hostile = mutated(data, others, FORMATS[name].tokens, chance)
        outcome = read(name, path, hostile, scratch)
        result.runs += 1
        result.refused += outcome.refused
        result.slowest = max(result.slowest, outcome.seconds)
        result.largest = max(result.largest, outcome.megabytes)
        if outcome.fault and (place := _place(outcome.fault)) not in result.faults:
            result.faults[place] = _keep(name, path, hostile, outcome)
        if time.monotonic() - shown > _SHOWN_EVERY:
            shown = time.monotonic()
            print(f"{name}: {result}", flush=True)
    print(f"{name}: {result}", flush=True)
    return result


def replay(name: str, files: Sequence[Path], scratch: Path) -> list[str]:
    """Read files whose names begin with their kind; return what is wrong with each."""
    faults = []
    for path in files:
        outcome = read(name, path, path.read_bytes(), scratch)
        faults += [f"{path}: {outcome.fault}"] if outcome.fault else []
        print(f"{path}: {outcome.seconds:.2f} s, {outcome.megabytes} MB\n{outcome.fault}", flush=True)
    return faults


def _kind(path: Path) -> str:
    return path.name.partition("-")[0]


def _place(fault: str) -> str:
    """Return what tells one fault from another: the error and the last lines of kz on the way to it."""
    ours = re.findall(r'File ".*?/(kz_build/[^"]+)", line (\d+)', fault)
    return f"{fault.strip().splitlines()[-1].split(':')[0]} {ours[-2:]}"


def _keep(name: str, path: Path, data: bytes, outcome: Outcome) -> str:
    kept = KEPT / name / f"{_kind(path)}-{sha256(data).hexdigest()[:12]}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    command = f"python -m tests.fuzz {name} {kept.relative_to(ROOT)}"
    print(f"{outcome.fault}\nrepeat it: {command}\n", flush=True)
    return command
