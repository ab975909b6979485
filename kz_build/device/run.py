"""run: check a device, time the runner there, and compare its figures with earlier ones (docs/reference/verbs/device.md)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from kz_build.core.check import Check, Status
from kz_build.core.errors import DeviceError
from kz_build.core.progress import Watch, quiet
from kz_build.device.adb import Device
from kz_build.device.checks import checked, record
from kz_build.device.device_under_test import DeviceUnderTest, RunResult
from kz_build.device.measured import Note, Runner, measured
from kz_build.device.metrics import OBSERVER, Memory, Sample, lines_of
from kz_build.device.trial import Report, RunPolicy, Timing, TrialPlan
from kz_build.pins.project import Project


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
    """Run `check`; if nothing failed, time the runner in fresh processes, and compare with earlier runs."""
    dut, report = checked(project, device, trial, watch)
    if trial.argv and not report.failed:
        runner = Runner(
            "", lambda asked: asked.argv, lambda asked: _good(dut, asked), lambda asked: _memory(dut, asked)
        )
        first, *lengths = measured(project, dut, runner, policy, note, at_end)
        report = replace(report, run=first, lengths=tuple(lengths))
    elif not trial.argv:
        rest = tuple(one for one in report.checks if one.name != "runner")
        report = replace(report, checks=(*rest, Check(device.serial, "runner", Status.SKIP, trial.no_run)))
    record(project, dut, report)
    return report


def _good(dut: DeviceUnderTest, timing: Timing) -> Sample:
    result = dut.run(timing)
    if result.problem or not result.sample:
        raise DeviceError(f"{dut.device.serial}: {result.problem}", hint="kz device check says more")
    return result.sample


def _memory(dut: DeviceUnderTest, timing: Timing) -> tuple[Memory | None, str]:
    """Return the memory of a run: when inference began, for the model is loaded by then, and at most."""
    result: RunResult = dut.run(timing, probe="memory")
    if result.problem or not result.pss:
        return None, result.problem or "the runner ended before the first sample"
    observed = lines_of(result.log, OBSERVER)
    start = float(observed[-1].get("inference_start_ms", 0)) if observed else 0.0
    loaded = [kilobytes for at, kilobytes in result.pss if at <= start]
    megabytes = 1024 / 1e6
    peak = max(kilobytes for _, kilobytes in result.pss)
    return Memory(round(loaded[-1] * megabytes, 2) if loaded else None, round(peak * megabytes, 2)), ""
