"""A device with everything pushed, and the runs of kz_probe there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NamedTuple

from kz_build.core.errors import AuditError
from kz_build.device.adb import Device
from kz_build.device.metrics import PROBE, Sample, lines_of, sample, without_marks
from kz_build.device.properties import DeviceInfo
from kz_build.device.push_set import PushSet
from kz_build.device.trial import PROGRAM, Timing, TrialPlan
from kz_build.formats.elf_types import Elf


@dataclass(frozen=True)
class RunResult:
    """One run of the runner in a process of its own. `problem` is '' for a good one."""

    sample: Sample | None
    text: str
    problem: str
    log: str
    pids: tuple[int, ...]
    pss: Sequence[tuple[float, float]] = ()
    """(milliseconds of the real-time clock, kB) of its memory, if kz_probe measured that."""


class ProbeOutput(NamedTuple):
    """The answers of kz_probe, its stdout, and stdout with stderr."""

    answers: list[dict[str, Any]]
    output: str
    log: str


@dataclass
class DeviceUnderTest:
    """A device with everything pushed, and its output so far."""

    device: Device
    info: DeviceInfo
    trial: TrialPlan
    files: PushSet
    folder: str
    elves: Mapping[str, Elf]
    damaged: tuple[str, ...] = ()
    logs: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    process: str = ""
    reply: str | None = None
    """What the model said in the check."""

    def probe(self, words: Sequence[str], seconds: int = 60) -> ProbeOutput:
        """Run kz_probe; the libraries beside it are found first."""
        where = quote(self.folder)
        command = " ".join(quote(word) for word in words)
        done = self.device.shell(
            f"cd {where} && LD_LIBRARY_PATH={where} ADSP_LIBRARY_PATH={where} ./{PROGRAM} {command}",
            timeout=seconds + 30,
        )
        output = done.stdout.decode("utf-8", "replace")
        log = output + done.stderr.decode("utf-8", "replace")
        self.logs.append(log)
        answers = lines_of(log, PROBE)
        self.pids.update(one["pid"] for one in answers if isinstance(one.get("pid"), int))
        return ProbeOutput(answers, output, log.strip())

    def run(self, timing: Timing | None = None, *, probe: str = "run") -> RunResult:
        """Run the runner: as a check, or as a timed run asks. `probe`: how kz_probe runs it."""
        trial = self.trial
        timing = timing or Timing(trial.argv, trial.full_prompt)
        if trial.text:
            self.device.shell(f"rm -f {quote(f'{self.folder}/{trial.text}')}")
        answers, output, log = self.probe([probe, str(trial.seconds), *timing.argv], trial.seconds)
        written = (
            self.device.shell(f"cat {quote(f'{self.folder}/{trial.text}')}").stdout.decode("utf-8", "replace")
            if trial.text
            else without_marks(output)
        )
        figures = sample(log)
        # Upstream's llama_main repeats the prompt, and has no option to omit it.
        text = written.strip().removeprefix(timing.full_prompt.strip()).strip()
        return RunResult(figures, text, _problem(answers, log, figures, trial), log, tuple(self.pids), _pss(answers))


def _pss(answers: Sequence[Mapping[str, Any]]) -> Sequence[tuple[float, float]]:
    try:
        return [(float(at), float(kilobytes)) for at, kilobytes in answers[-1]["pss"]]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()


def _problem(answers: Sequence[Mapping[str, Any]], log: str, figures: Sample | None, trial: TrialPlan) -> str:
    """Return why a run failed, '' if it did not."""
    last = " | ".join(line for line in log.splitlines()[-4:] if line.strip() and not line.startswith(PROBE))[-300:]
    if not answers or "exit" not in answers[-1]:
        return f"{PROGRAM} did not come back: {last or 'no output'}"
    ended = answers[-1]
    if ended.get("stopped"):
        output = f"the last it printed: {last}" if last else "it printed nothing"
        return f"{trial.argv[0]} still ran after {trial.seconds} s and was stopped (--timeout gives it more minutes); {output}"
    if ended.get("signal"):
        return f"{trial.argv[0]} was ended by signal {ended['signal']}: {last}"
    if ended["exit"]:
        return f"{trial.argv[0]} ended with {ended['exit']}: {last}"
    if figures is None:
        return f"{trial.argv[0]} ended with 0 and printed no statistics: {last}"
    if figures.generated_tokens < 1:
        return "it generated no token"
    return ""


def read_elves(files: PushSet) -> tuple[dict[str, Elf], tuple[str, ...]]:
    """Read the ELF files to push. Returns their facts, and what is wrong with damaged ones."""
    from kz_build.formats.elf import read_elf

    facts, damaged = {}, []
    for path, name in files.files:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF" and not name.endswith(".so"):
                continue
        try:
            facts[name] = read_elf(path, exports=False)
        except AuditError as error:
            damaged.append(str(error))
    return facts, tuple(damaged)
