"""What is run on a device, and the report of it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kz_build.checks.contract import Contract
from kz_build.core.check import Check
from kz_build.device.metrics import Comparison, Memory, Sample, Spread
from kz_build.device.push_plan import Pushed
from kz_build.device.push_set import InputFile
from kz_build.device.reply import Greedy
from kz_build.formats.pte_types import Pte

PROGRAM = "kz_probe"
"""kz's own program on the device (native/kz_probe.c): every target that runs on devices builds it."""


TOKENS = 128
"""Prompt and answer, if neither the user nor the recipe says how many."""


@dataclass(frozen=True)
class TrialRequest:
    """The user's choices; '', 0 or None for the project's. `folders`: placeholder of a recipe -> folder."""

    line: str = ""
    target: str = ""
    recipe: str = ""
    pte: Path | None = None
    tokenizer: Path | None = None
    chat: str = ""
    prompt: str = ""
    tokens: int = 0
    qnn: Path | None = None
    folders: Mapping[str, Path] = field(default_factory=dict)
    seconds: int = 600


@dataclass(frozen=True)
class Timing:
    """What a series of timed runs asks: a command line (() without a runner), the prompt in it, how many words that has (0: the
    prompt of the check), and prompt and answer at most."""

    argv: tuple[str, ...]
    full_prompt: str
    words: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class TrialPlan:
    """All that is known before a device is contacted: files, and the runner's command line.

    `dist` are the build's files by name, `runtime` Qualcomm's. `argv` is the runner's command line; if it is (), `no_run` says
    why, and `required` whether that is a failure. `text`: file that the runner writes its text to. `full_prompt` is the prompt
    in the model's chat template. `timed` is what `kz device run` times; `ends`: it may stop earlier, where the
    model ends its answer.
    `expected`: what the recipe wants in the reply; `random`: the weights are, so that no reply makes sense; `rehearsal`: what the
    host said.
    """

    line: str
    target: str
    abi: str
    folder: Path
    dist: Mapping[str, Path]
    runtime: Mapping[str, Path]
    inputs: tuple[InputFile, ...]
    loads: tuple[str, ...]
    recipe: str = ""
    model: Path | None = None
    pte: Pte | None = None
    contract: Contract | None = None
    qnn: bool = False
    argv: tuple[str, ...] = ()
    no_run: str = ""
    required: bool = False
    text: str = ""
    full_prompt: str = ""
    tokens: int = 0
    seconds: int = 600
    timed: tuple[Timing, ...] = ()
    ends: bool = False
    celsius: float = 35
    minutes: float = 30
    expected: str = ""
    random: bool = False
    rehearsal: Greedy | None = None

    @property
    def subject(self) -> str:
        """Return its name in reports: the recipe, the model's file, or ''."""
        return self.recipe or (self.model.name if self.model else "")


@dataclass(frozen=True)
class RunPolicy:
    """How often: `runs` that count after `warmup`, each in a fresh process; `compare` them with earlier ones.
    `required`: a check that cannot be run is a failure. `sustain`: instead of `runs`, for so many seconds."""

    runs: int = 1
    warmup: int = 0
    compare: bool = False
    tolerance: float | None = None
    required: bool = False
    sustain: int = 0


@dataclass(frozen=True)
class Measured:
    """Runs after the warm-up, each in a process of its own. `thermal` is Android's status (before, after), `celsius` the battery's
    temperature; `notes` say why a figure was not compared. `refused`: why they are no baseline for later ones, '' if they are.
    `retention`: the share of decode speed that is left in the last fifth of sustained runs. `words`: of the prompt, if it has a
    given length."""

    warmup: int
    samples: tuple[Sample, ...]
    spreads: Mapping[str, Spread]
    thermal: tuple[str, str]
    throttled: bool
    compared: tuple[Comparison, ...]
    notes: tuple[str, ...]
    refused: str
    fixed_performance: bool
    celsius: tuple[float | None, float | None]
    retention: float | None = None
    words: int = 0
    memory: Memory | None = None


@dataclass(frozen=True)
class Report:
    """The report of one device. `process` is the kind of process that everything ran in; `log` the file with its output."""

    serial: str
    emulated: bool
    device: str
    soc: str
    arch: str
    line: str
    target: str
    subject: str
    process: str
    pushed: Pushed
    checks: tuple[Check, ...]
    log: str
    run: Measured | None = None
    lengths: tuple[Measured, ...] = ()
    """The series of other prompt lengths that the recipe asks for."""
    in_app: Report | None = None
    """The same in an app of the device, if requested."""

    @property
    def failed(self) -> tuple[str, ...]:
        """Return the reasons of a failure: names of checks, and figures that became worse."""
        worse = {
            f"{c.metric} against {c.against}" + (f" ({one.words} words)" if one.words else "")
            for one in (*([self.run] if self.run else []), *self.lengths)
            for c in one.compared
            if c.worse
        }
        inside = tuple(f"in-app {name}" for name in self.in_app.failed) if self.in_app else ()
        return (*(c.name for c in self.checks if c.failed), *sorted(worse), *inside)
