"""run: check a device, time the runner there, and compare its figures with earlier ones (docs/reference/verbs/device.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from kz_build.core.check import Check, Status
from kz_build.core.errors import DeviceError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.progress import Watch, quiet
from kz_build.device.adb import Device
from kz_build.device.baseline import baseline
from kz_build.device.checks import checked, folder_of, record
from kz_build.device.conditions import fix_performance, wait_until_cool
from kz_build.device.device_under_test import DeviceUnderTest, RunResult
from kz_build.device.history import RUNS, Conditions, Series, comparable, kept_series, resume
from kz_build.device.info import info
from kz_build.device.metrics import (
    ENOUGH,
    METRICS,
    OBSERVER,
    Comparison,
    Sample,
    Spread,
    compare,
    compare_history,
    figures_text,
    lines_of,
    retention,
    spreads,
    unsteady,
)
from kz_build.device.properties import THERMAL, DeviceInfo, known_soc
from kz_build.device.trial import Measured, Memory, Report, RunPolicy, Timing, TrialPlan
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project

TOLERANCE = 15.0
"""Percent that a figure may be worse than in earlier runs, beyond their noise."""
_HOT = THERMAL[2:]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Ready:
    """A device before a series: its facts, whether it is cool, and whether its clocks are fixed."""

    facts: DeviceInfo
    cool: bool
    fixed: bool


def run(
    project: Project,
    device: Device,
    trial: TrialPlan,
    policy: RunPolicy,
    *,
    watch: Watch = quiet,
    note: Note = lambda text: None,
    at_end: ExitStack | None = None,
) -> Report:
    """Run `check`; if nothing failed, time the runner in fresh processes, and compare with earlier runs.

    The device is as it was when `at_end` closes, or when this returns without one.
    """
    dut, report = checked(project, device, trial, watch)
    if trial.argv and not report.failed:
        with ExitStack() as own:
            fixed = fix_performance(device, at_end or own)
            timings = trial.timed[:1] if policy.sustain else trial.timed
            series = [_timed(project, dut, timing, policy, ready(dut, note, fixed=fixed), note) for timing in timings]
            watched = dut.run(trial.timed[0], probe="memory")
        memory, notes = _memory(watched), series[0].notes
        if memory is None:
            notes += (f"memory was not measured: {watched.problem or 'the runner ended before the first sample'}",)
        report = replace(report, run=replace(series[0], memory=memory, notes=notes), lengths=tuple(series[1:]))
    elif not trial.argv:
        rest = tuple(one for one in report.checks if one.name != "runner")
        report = replace(report, checks=(*rest, Check(device.serial, "runner", Status.SKIP, trial.no_run)))
    record(project, dut, report)
    return report


def ready(dut: DeviceUnderTest, note: Note, *, fixed: bool) -> Ready:
    """Wait for a cool device."""
    return Ready(*wait_until_cool(dut.device, dut.trial.celsius, dut.trial.minutes, note), fixed)


def series_of(
    project: Project, dut: DeviceUnderTest, before: Ready, command: Sequence[str], prompt: str, sustain: int
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
        libraries=digest_of(digests),
        command=digest_of([dut.trial.target, dut.trial.subject, list(command), prompt]),
        sustain=sustain,
    )
    return resume(folder_of(project, dut) / RUNS, conditions)


def _timed(
    project: Project, dut: DeviceUnderTest, timing: Timing, policy: RunPolicy, before: Ready, note: Note
) -> Measured:
    """Make a series of runs."""
    series = series_of(project, dut, before, timing.argv, timing.full_prompt, policy.sustain)
    which = f"{dut.device.serial}{f' {timing.words} words' if timing.words else ''}"
    if policy.sustain:
        series.samples.clear()  # it cooled down since
    elif series.resumed:
        note(f"{which}: {series.resumed} runs were made before kz was stopped")
    for _ in range(policy.warmup if len(series.samples) < policy.runs or policy.sustain else 0):
        note(f"{which} warm-up: {figures_text(_good(dut, timing))}")
    deadline = time.monotonic() + policy.sustain
    while time.monotonic() < deadline if policy.sustain else len(series.samples) < policy.runs:
        sample = _good(dut, timing)
        series.add(sample, before.facts.battery_celsius)
        of = "" if policy.sustain else f" of {policy.runs}"
        note(f"{which} run {len(series.samples)}{of}: {figures_text(sample)}")
    return replace(measured(project, dut, series, policy, before), words=timing.words)


def _good(dut: DeviceUnderTest, timing: Timing) -> Sample:
    result = dut.run(timing)
    if result.problem or not result.sample:
        raise DeviceError(f"{dut.device.serial}: {result.problem}", hint="kz device check says more")
    return result.sample


def _memory(result: RunResult) -> Memory | None:
    """Return the memory of a run: when inference began, for the model is loaded by then, and at most."""
    if result.problem or not result.pss:
        return None
    observed = lines_of(result.log, OBSERVER)
    start = float(observed[-1].get("inference_start_ms", 0)) if observed else 0.0
    loaded = [kilobytes for at, kilobytes in result.pss if at <= start]
    megabytes = 1024 / 1e6
    peak = max(kilobytes for _, kilobytes in result.pss)
    return Memory(round(loaded[-1] * megabytes, 2) if loaded else None, round(peak * megabytes, 2))


def measured(project: Project, dut: DeviceUnderTest, series: Series, policy: RunPolicy, before: Ready) -> Measured:
    """Sum up a series, compare it with earlier ones, and close it."""
    after = info(dut.device)
    samples = tuple(series.samples)
    figures = spreads(samples)
    throttled = after.thermal in _HOT
    refused, rows, notes = "", tuple[Comparison, ...](), tuple[str, ...]()
    if policy.compare:
        refused = "" if dut.info.emulated else _refused(series, before, after, dut.trial.celsius)
        rows, notes = _compared(project, dut, series, figures, policy.tolerance, refused)
        why = "EMULATED" if dut.info.emulated else "it was worse" if any(row.worse for row in rows) else ""
        series.end(refused or why, fresh=any(row.changed for row in rows))
        notes += _notes(dut, before, series)
    return Measured(
        warmup=policy.warmup,
        samples=samples,
        spreads=figures,
        thermal=(before.facts.thermal, after.thermal),
        throttled=throttled,
        compared=rows,
        notes=notes,
        refused=refused,
        fixed_performance=before.fixed,
        celsius=(before.facts.battery_celsius, after.battery_celsius),
        retention=retention(samples) if policy.sustain else None,
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
    tolerance: float | None,
    refused: str,
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Compare with earlier runs under the same conditions on this device, and with the baselines of its kind."""
    if dut.info.emulated:
        return (), ("EMULATED: its timings are not compared",)
    if refused:
        return (), ()
    notes: list[str] = []
    earlier, differs = comparable(kept_series(series.path), series)
    rows = list(compare_history(now, earlier, TOLERANCE if tolerance is None else tolerance))
    if not rows:
        few = f"{len(earlier)} earlier runs of this on the device, and {ENOUGH} tell its noise"
        notes.append(differs or (few if earlier else "no earlier run of this on the device"))
    known = baseline(project.root, dut.info.model.rpartition(" ")[2], known_soc(dut.info.soc))
    if not known:
        return tuple(rows), (*notes, f"no baseline for {dut.info.model}")
    for one in known.figures:
        if one.recipe != dut.trial.recipe:
            continue
        if one.process != dut.process:
            notes.append(f"baseline {known.device}: measured in {one.process}, this ran in {dut.process}")
            continue
        limit = known.tolerance if tolerance is None else tolerance
        before = {metric.name: value for metric in METRICS if (value := getattr(one, metric.name))}
        rows += compare(now, before, f"baseline {known.device}", limit)
    return tuple(rows), tuple(notes)
