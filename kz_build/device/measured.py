"""Series of timed runs, in a shell or in an app: made, summed up, and compared with earlier ones (docs/guides/figures.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from kz_build.core.hash_cache import cached_sha256
from kz_build.device.baseline import baseline
from kz_build.device.checks import device_folder
from kz_build.device.conditions import fix_performance, wait_until_cool
from kz_build.device.device_under_test import DeviceUnderTest
from kz_build.device.history import RUNS, Conditions, Series, comparable, kept_series, resume
from kz_build.device.info import info
from kz_build.device.metrics import (
    ENOUGH,
    METRICS,
    Comparison,
    Memory,
    Sample,
    Spread,
    compare,
    compare_history,
    figures_text,
    retention,
    spreads,
    unsteady,
)
from kz_build.device.properties import THERMAL, DeviceInfo, known_soc
from kz_build.device.trial import Measured, RunPolicy, Timing
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project

TOLERANCE = 15.0
"""Percent that a figure may be worse than in earlier runs, beyond their noise."""
_HOT = THERMAL[2:]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Runner:
    """How a run is made: `once` makes a timed one, `memory` one that measures memory, or says why it cannot. Both raise DeviceError
    for a bad run. `command` tells a series from others; `builds` are digests of what is not pushed with the model."""

    name: str
    command: Callable[[Timing], Sequence[str]]
    once: Callable[[Timing], Sample]
    memory: Callable[[Timing], tuple[Memory | None, str]]
    builds: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """A device before a series: its facts, whether it is cool, and whether its clocks are fixed."""

    facts: DeviceInfo
    cool: bool
    fixed: bool


def measured(
    project: Project, dut: DeviceUnderTest, runner: Runner, policy: RunPolicy, note: Note, at_end: ExitStack | None
) -> tuple[Measured, ...]:
    """Make the series that a trial asks for: the first with the check's prompt, then one for each length of prompt.

    The device is as it was when `at_end` closes, or when this returns without one.
    """
    timings = dut.trial.timed[:1] if policy.sustain else dut.trial.timed
    with ExitStack() as own:
        fixed = fix_performance(dut.device, at_end or own)
        return tuple(_measured(project, dut, runner, one, policy, fixed, note) for one in timings)


def _measured(
    project: Project, dut: DeviceUnderTest, runner: Runner, timing: Timing, policy: RunPolicy, fixed: bool, note: Note
) -> Measured:
    """Make a series of runs."""
    before = Ready(*wait_until_cool(dut.device, dut.trial.celsius, dut.trial.minutes, note), fixed)
    series = _series_of(project, dut, runner, timing, before, policy.sustain)
    which = f"{dut.device.serial}{runner.name}{f' {timing.words} words' if timing.words else ''}"
    if policy.sustain:
        series.samples.clear()  # it cooled down since
    elif series.resumed:
        note(f"{which}: {series.resumed} runs were made before kz was stopped")
    for _ in range(policy.warmup if len(series.samples) < policy.runs or policy.sustain else 0):
        note(f"{which} warm-up: {figures_text(runner.once(timing))}")
    deadline = time.monotonic() + policy.sustain
    while time.monotonic() < deadline if policy.sustain else len(series.samples) < policy.runs:
        sample = runner.once(timing)
        series.add(sample, before.facts.battery_celsius)
        of = "" if policy.sustain else f" of {policy.runs}"
        note(f"{which} run {len(series.samples)}{of}: {figures_text(sample)}")
    memory, why = (None, "") if timing.words else runner.memory(timing)
    result = _summed_up(project, dut, series, policy, before, memory)
    notes = (*result.notes, f"memory was not measured: {why}") if why else result.notes
    return replace(result, words=timing.words, notes=notes)


def _series_of(
    project: Project, dut: DeviceUnderTest, runner: Runner, timing: Timing, before: Ready, sustain: int
) -> Series:
    """Return the series of this device, command and build: with its runs so far, if kz was killed within it."""
    model = dut.trial.model.name if dut.trial.model else ""
    digests = {name: cached_sha256(project.store, path) for path, name in dut.files.files}
    conditions = Conditions(
        fingerprint=dut.info.fingerprint,
        process=dut.process,
        fixed_performance=before.fixed,
        cool=before.cool,
        model=digests.pop(model, ""),
        libraries=digest_of(digests | runner.builds),
        command=digest_of([dut.trial.target, dut.trial.subject, list(runner.command(timing)), timing.full_prompt]),
        sustain=sustain,
        target=dut.trial.target,
        subject=dut.trial.subject,
        words=timing.words,
    )
    return resume(device_folder(project, dut) / RUNS, conditions)


def _summed_up(
    project: Project, dut: DeviceUnderTest, series: Series, policy: RunPolicy, before: Ready, memory: Memory | None
) -> Measured:
    """Sum up a series, compare it with earlier ones, and close it."""
    after = info(dut.device)
    samples = tuple(series.samples)
    figures = spreads(samples)
    refused = "" if dut.info.emulated else _refused(series, before, after, dut.trial.celsius)
    rows, notes = _compared(project, dut, series, figures, memory, policy.tolerance, refused)
    why = "EMULATED" if dut.info.emulated else "it was worse" if any(row.worse for row in rows) else ""
    series.end(refused or why, fresh=any(row.changed for row in rows), memory=memory)
    return Measured(
        warmup=policy.warmup,
        samples=samples,
        spreads=figures,
        thermal=(before.facts.thermal, after.thermal),
        throttled=after.thermal in _HOT,
        compared=rows,
        notes=notes + _notes(dut, before, series),
        refused=refused,
        fixed_performance=before.fixed,
        celsius=(before.facts.battery_celsius, after.battery_celsius),
        retention=retention(samples) if policy.sustain else None,
        memory=memory,
    )


def _refused(series: Series, before: Ready, after: DeviceInfo, celsius: float) -> str:
    """Return why a series is no baseline, and is compared with none; '' if it is one."""
    if not before.cool:
        return f"the battery had {before.facts.battery_celsius:g} °C at the start, more than {celsius:g}, so it is no baseline"
    if series.conditions.sustain:
        return "sustained runs show how a device throttles, so they are no baseline"
    if after.thermal in _HOT:
        return f"Android says {after.thermal} heat after it, so it is no baseline"
    return unsteady(series.samples)


def _notes(dut: DeviceUnderTest, before: Ready, series: Series) -> tuple[str, ...]:
    """Say which conditions were not met."""
    notes = []
    if not before.fixed:
        notes.append("this device has no fixed-performance mode: its clocks were as Android set them")
    if before.facts.battery_celsius is None:
        notes.append("the device does not report its battery's temperature")
    counts = sorted({one.generated_tokens for one in series.samples})
    if len(counts) > 1:
        why = ": the target's runner has no option to ignore the end of an answer" if dut.trial.ends else ""
        notes.append(f"{counts[0]} to {counts[-1]} tokens were generated{why}")
    return tuple(notes)


def _compared(
    project: Project,
    dut: DeviceUnderTest,
    series: Series,
    now: dict[str, Spread],
    memory: Memory | None,
    tolerance: float | None,
    refused: str,
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Compare with earlier runs under the same conditions on this device, and with the baselines of its kind."""
    if dut.info.emulated:
        return (), ("EMULATED: its timings are not compared",)
    if refused:
        return (), ()
    notes: list[str] = []
    earlier = comparable(kept_series(series.path), series)
    own = TOLERANCE if tolerance is None else tolerance
    rows = list(compare_history(now, earlier.samples, own))
    if not rows:
        few = f"{len(earlier.samples)} earlier runs of this on the device, and {ENOUGH} tell its noise"
        notes.append(earlier.differs or (few if earlier.samples else "no earlier run of this on the device"))
    rows += compare_history(spreads((memory,)) if memory else {}, earlier.memory, own)
    known = baseline(project.root, dut.info.model, known_soc(dut.info.soc))
    if not known:
        return tuple(rows), (*notes, f"no baseline for {dut.info.model}")
    for one in known.figures:
        if one.recipe != dut.trial.recipe or series.conditions.words:  # it is of the recipe's own prompt
            continue
        if one.process != dut.process:
            notes.append(f"baseline {known.device}: measured in {one.process}, this ran in {dut.process}")
            continue
        limit = known.tolerance if tolerance is None else tolerance
        before = {metric.name: value for metric in METRICS if (value := getattr(one, metric.name))}
        rows += compare(now, before, f"baseline {known.device}", limit)
    return tuple(rows), tuple(notes)
