"""What is tried on a device, and what came of it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kz_build.checks.contract import Contract
from kz_build.core.check import Check
from kz_build.device.metrics import Comparison, Sample, Spread
from kz_build.device.push_plan import Pushed
from kz_build.device.push_set import Given
from kz_build.formats.pte_types import Pte

PROGRAM = "kz_probe"
"""kz's own program on the device (native/kz_probe.c): every target that is tried builds it."""


@dataclass(frozen=True)
class Wish:
    """What a person asks for; '' or None where he leaves it to the project. `folders`: placeholder of a recipe -> folder."""

    line: str = ""
    target: str = ""
    recipe: str = ""
    pte: Path | None = None
    tokenizer: Path | None = None
    chat: str = ""
    prompt: str = ""
    tokens: int = 128
    qnn: Path | None = None
    folders: Mapping[str, Path] = field(default_factory=dict)
    seconds: int = 600


@dataclass(frozen=True)
class Trial:
    """All that is known before a device is asked: files, and how the runner is called.

    `dist` are the build's files by name, `runtime` Qualcomm's. `argv` is the runner's, ready for the device; () where nothing
    can run, and then `no_run` says why, and `wanted` whether it should have. `text`: file that the runner writes its text to.
    `asked` is the prompt in the model's chat template.
    """

    line: str
    target: str
    abi: str
    folder: Path
    dist: Mapping[str, Path]
    runtime: Mapping[str, Path]
    given: tuple[Given, ...]
    loads: tuple[str, ...]
    recipe: str = ""
    model: Path | None = None
    pte: Pte | None = None
    contract: Contract | None = None
    qnn: bool = False
    argv: tuple[str, ...] = ()
    no_run: str = ""
    wanted: bool = False
    text: str = ""
    prompt: str = ""
    asked: str = ""
    tokens: int = 0
    seconds: int = 600

    @property
    def subject(self) -> str:
        """What it is called in a report: the recipe, the model's file, or nothing."""
        return self.recipe or (self.model.name if self.model else "")


@dataclass(frozen=True)
class Measured:
    """Runs after the warm-up, each in a process of its own. `thermal` is Android's status (before, after); `notes` what keeps a
    figure from being judged."""

    warmup: int
    samples: tuple[Sample, ...]
    spreads: Mapping[str, Spread]
    thermal: tuple[str, str]
    throttled: bool
    compared: tuple[Comparison, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """One device's. `process` names the kind of process that everything ran in; `log` is where what it said is kept."""

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
    in_app: Report | None = None
    """The same in an app of the device, where that was asked for."""

    @property
    def failed(self) -> tuple[str, ...]:
        """What fails it: names of checks, and figures that became worse."""
        worse = {f"{c.metric} against {c.against}" for c in (self.run.compared if self.run else ()) if c.worse}
        inside = tuple(f"in-app {name}" for name in self.in_app.failed) if self.in_app else ()
        return (*(c.name for c in self.checks if c.failed), *sorted(worse), *inside)
