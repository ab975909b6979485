"""run: check a device, time the runner there, and compare its figures with earlier ones (docs/reference/verbs/device.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kz_build.core.check import Check, Status
from kz_build.core.errors import DeviceError
from kz_build.core.progress import Watch, quiet
from kz_build.device.adb import Device
from kz_build.device.baseline import baseline
from kz_build.device.checks import checked, last_run, record
from kz_build.device.device_under_test import DeviceUnderTest
from kz_build.device.info import info
from kz_build.device.metrics import METRICS, Comparison, Sample, Spread, compare, figures_text, spreads
from kz_build.device.properties import THERMAL, known_soc
from kz_build.device.trial import Measured, Report, RunPolicy, TrialPlan
from kz_build.pins.project import Project

TOLERANCE = 15.0
"""Percent that a figure may be worse than at the last run."""
_HOT = THERMAL[2:]


def run(
    project: Project,
    device: Device,
    trial: TrialPlan,
    policy: RunPolicy,
    *,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run `check`; if nothing failed, time the runner in fresh processes, and compare with earlier runs."""
    dut, report = checked(project, device, trial, watch)
    if trial.argv and not report.failed:
        report = replace(report, run=measured(project, dut, _samples(dut, policy, note), policy))
    elif not trial.argv:
        rest = tuple(one for one in report.checks if one.name != "runner")
        report = replace(report, checks=(*rest, Check(device.serial, "runner", Status.SKIP, trial.no_run)))
    record(project, dut, report)
    return report


def _samples(dut: DeviceUnderTest, policy: RunPolicy, note: Callable[[str], None]) -> list[Sample]:
    samples = []
    for index in range(policy.warmup + policy.runs):
        result = dut.run()
        if result.problem or not result.sample:
            text = f"{dut.device.serial}: run {index + 1}: {result.problem}"
            raise DeviceError(text, hint="kz device check says more")
        which = "warm-up" if index < policy.warmup else f"run {index - policy.warmup + 1} of {policy.runs}"
        note(f"{dut.device.serial} {which}: {figures_text(result.sample)}")
        if index >= policy.warmup:
            samples.append(result.sample)
    return samples


def measured(project: Project, dut: DeviceUnderTest, samples: Sequence[Sample], policy: RunPolicy) -> Measured:
    """Sum up the runs that count, and compare them with earlier ones if the policy says so."""
    after = info(dut.device).thermal
    figures = spreads(samples)
    rows, notes = _compared(project, dut, figures, policy.tolerance) if policy.compare else ((), ())
    return Measured(policy.warmup, tuple(samples), figures, (dut.info.thermal, after), after in _HOT, rows, notes)


def _compared(
    project: Project, dut: DeviceUnderTest, now: Mapping[str, Spread], tolerance: float | None
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Compare with the last run of the same on this device, and with the baselines of its kind."""
    if dut.info.emulated:
        return (), ("EMULATED: its timings are not compared",)
    rows: list[Comparison] = []
    notes: list[str] = []
    if last := last_run(project, dut):
        rows += compare(now, last, "the last run", TOLERANCE if tolerance is None else tolerance)
    else:
        notes.append("no earlier run of this on the device")
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
