"""check, run: run a trial on one device and keep its report in out/device/<line>/<serial>/."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kz_build import __version__
from kz_build.checks import pte as contract
from kz_build.core import files
from kz_build.core.check import Check, Status, ask
from kz_build.core.errors import KzError, LockError, MissingError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.plain_json import plain
from kz_build.core.progress import Watch, quiet
from kz_build.core.stage_record import Output, StageRecord, load_any
from kz_build.device.adb import Device
from kz_build.device.baseline_files import baseline
from kz_build.device.checks import QUESTIONS, DeviceUnderTest, read_elves
from kz_build.device.info import info
from kz_build.device.metrics import METRICS, Comparison, Spread, compare, figures_text, spreads
from kz_build.device.properties import DeviceInfo, known_soc
from kz_build.device.push import FOLDER, named, push
from kz_build.device.push_set import push_set, skel_archs
from kz_build.device.trial import Measured, Report, TrialPlan
from kz_build.formats.library import qnn_version, read_library
from kz_build.pins.load import executorch_of
from kz_build.pins.pins import digest_of
from kz_build.pins.project import RECORD, Project

TOLERANCE = 15.0
"""Percent that a figure may be worse than at the last run."""
_HOT = ("moderate", "severe", "critical", "emergency", "shutdown")
_THREADTIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d+\s+(\d+)\s+\d+ . (\S*)")
_OTHERS = re.compile(r"^(DEBUG|lowmemorykiller|adsprpc|cdsprpc|.*fastrpc.*)", re.I)


def check(project: Project, device: Device, trial: TrialPlan, *, watch: Watch = quiet) -> Report:
    """Push a trial's files and run every check. Raises MissingError with all the files that are absent, DeviceError."""
    dut, report = _checked(project, device, trial, watch)
    record(project, dut, report)
    return report


def run(
    project: Project,
    device: Device,
    trial: TrialPlan,
    *,
    runs: int = 5,
    warmup: int = 1,
    tolerance: float | None = None,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run `check`; if nothing failed, time the runner in fresh processes, and compare with earlier runs."""
    dut, report = _checked(project, device, trial, watch)
    if trial.argv and not report.failed:
        measured = _measured(project, dut, report, runs, warmup, tolerance, note)
        report = replace(report, run=measured)
    elif not trial.argv:
        rest = tuple(one for one in report.checks if one.name != "runner")
        report = replace(report, checks=(*rest, Check(device.serial, "runner", Status.SKIP, trial.no_run)))
    record(project, dut, report)
    return report


def _checked(project: Project, device: Device, trial: TrialPlan, watch: Watch) -> tuple[DeviceUnderTest, Report]:
    facts = info(device)
    wanted = push_set(facts.arch, trial.dist, trial.runtime, trial.inputs, qnn=trial.qnn)
    if wanted.missing:
        raise MissingError(wanted.missing)
    folder = f"{FOLDER}/{trial.line}/{trial.target}" + (f"/{trial.subject}" if trial.subject else "")
    pushed = push(project.store, device, named(wanted.files), folder, clean=True, watch=watch)
    dut = DeviceUnderTest(device, facts, trial, wanted, folder, *read_elves(wanted))
    since = device.shell("date '+%m-%d %H:%M:%S.000'").stdout.decode().strip()
    checks = ask(dut, QUESTIONS, device.serial)
    checks += _file_checks(dut)
    log = log_path(project, dut)
    checks += (log_check(dut, since, log),)
    return dut, Report(
        serial=device.serial, emulated=facts.emulated, device=facts.model, soc=facts.soc, arch=facts.arch, line=trial.line,
        target=trial.target, subject=trial.subject, process=dut.process, pushed=pushed, checks=checks,
        log=str(log.relative_to(project.root)),
    )  # fmt: skip


def _file_checks(dut: DeviceUnderTest) -> tuple[Check, ...]:
    """Check the .pte against library and device (docs/pte.md)."""
    trial = dut.trial
    if not trial.pte:
        return ()
    library = read_library(trial.folder, trial.pte, executorch_of(trial.folder))
    own = {name: path for path, name in dut.files.files}
    htp = own.get("libQnnHtp.so")
    archs = frozenset(arch.lower() for arch in skel_archs(tuple(own)))
    library = replace(library, qnn=qnn_version(htp) if htp else library.qnn, skels=archs or library.skels)
    checks = contract.check_contract(trial.pte, trial.contract, library, known_soc(dut.info.soc))
    return tuple(replace(one, subject=dut.device.serial, name=f"pte {one.name}") for one in checks)


def log_path(project: Project, dut: DeviceUnderTest) -> Path:
    """Return the path of a device's log."""
    return _folder(project, dut) / "log.txt"


def _folder(project: Project, dut: DeviceUnderTest) -> Path:
    folder = project.out("device", dut.trial.line, re.sub(r"[^\w.-]", "_", dut.device.serial))
    return folder / "in-app" if dut.process == "app" else folder


def log_check(dut: DeviceUnderTest, since: str, path: Path) -> Check:
    """Keep the programs' output and the device's log since `since`, and look for known problems in them."""
    from kz_build.diagnose.diagnose import diagnose

    def answer(status: Status, evidence: str) -> Check:
        return Check(dut.device.serial, "log", status, evidence)

    try:
        done = dut.device.shell(f"logcat -d -v threadtime -T '{since}'", timeout=60)
    except KzError as error:
        return answer(Status.ERROR, f"logcat: {error}")
    if done.code:
        stderr = done.stderr.decode("utf-8", "replace").strip()
        return answer(Status.ERROR, f"logcat cannot be read: {stderr or f'exit {done.code}'}")
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if _ours(line, dut.pids)]
    files.write_atomic(path, "\n".join([*dut.logs, *lines, ""]).encode())
    findings = [one for one in diagnose(str(path)).found if not one.follows]
    if findings:
        shown = "; ".join(f"{one.title} [{one.id}]: {one.next}" for one in findings)
        return answer(Status.FAIL, shown)
    return answer(Status.PASS, f"no known problem in {len(lines):,} lines of logcat and the programs' output")


def _ours(line: str, pids: set[int]) -> bool:
    """Whether a line of logcat is from our processes, or from those that serve the DSP or log crashes."""
    match = _THREADTIME.match(line)
    return not match or int(match[1]) in pids or bool(_OTHERS.match(match[2]))


def _measured(
    project: Project,
    dut: DeviceUnderTest,
    report: Report,
    runs: int,
    warmup: int,
    tolerance: float | None,
    note: Callable[[str], None],
) -> Measured:
    before = dut.info.thermal
    samples = []
    for index in range(warmup + runs):
        result = dut.run()
        if result.problem or not result.sample:
            raise _run_failed(dut, index, result.problem)
        note(
            f"{dut.device.serial} {'warm-up' if index < warmup else f'run {index - warmup + 1} of {runs}'}: {figures_text(result.sample)}"
        )
        if index >= warmup:
            samples.append(result.sample)
    after = info(dut.device).thermal
    spread = spreads(samples)
    rows, notes = compare_with_earlier(project, dut, report, spread, tolerance)
    return Measured(warmup, tuple(samples), spread, (before, after), after in _HOT, rows, notes)


def _run_failed(dut: DeviceUnderTest, index: int, problem: str) -> KzError:
    from kz_build.core.errors import DeviceError

    return DeviceError(f"{dut.device.serial}: run {index + 1}: {problem}", hint="kz device check says more")


def compare_with_earlier(
    project: Project, dut: DeviceUnderTest, report: Report, now: Mapping[str, Spread], tolerance: float | None
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Compare with the last run of the same on this device, and with the baselines of its kind."""
    if report.emulated:
        return (), ("EMULATED: its timings are not compared",)
    rows: list[Comparison] = []
    notes: list[str] = []
    last = _last(project, dut)
    if last:
        rows += compare(now, last, "the last run", TOLERANCE if tolerance is None else tolerance)
    else:
        notes.append("no earlier run of this on the device")
    known = baseline(project.root, report.device.rpartition(" ")[2], known_soc(report.soc))
    if not known:
        return tuple(rows), (*notes, f"no baseline for {report.device}")
    for one in known["figures"]:
        if one["recipe"] != dut.trial.recipe:
            continue
        if one["process"] != report.process:
            notes.append(f"baseline {known['device']}: measured in {one['process']}, this ran in {report.process}")
            continue
        limit = known["tolerance"] if tolerance is None else tolerance
        rows += compare(
            now, {m.name: one[m.name] for m in METRICS if one[m.name]}, f"baseline {known['device']}", limit
        )
    return tuple(rows), tuple(notes)


def _same(dut: DeviceUnderTest) -> dict[str, Any]:
    """Return what two runs must share to be compared: model, prompt, and command. The build may differ: that is the point."""
    trial = dut.trial
    return {
        "target": trial.target,
        "subject": trial.subject,
        "argv": list(trial.argv),
        "asked": trial.full_prompt,
        "process": dut.process,
        "emulated": dut.info.emulated,
    }


def _last(project: Project, dut: DeviceUnderTest) -> dict[str, float]:
    try:
        digests = _runs(_folder(project, dut) / RECORD)[_run_key(dut)]
        return {name: float(spread["median"]) for name, spread in digests["spreads"].items()}
    except (LockError, KeyError, TypeError, ValueError):
        return {}


def _runs(path: Path) -> dict[str, Any]:
    """Return the last good run of each thing that was measured on a device."""
    record = load_any(path)
    return record.get("runs", dict) if record else {}


def _run_key(dut: DeviceUnderTest) -> str:
    return digest_of(_same(dut))[:16]


def record(project: Project, dut: DeviceUnderTest, report: Report) -> None:
    """Write the record: this report, and the last good run of each thing that was measured on this device."""
    path = _folder(project, dut) / RECORD
    runs = _runs(path)
    if report.run and not any(row.worse for row in report.run.compared):
        # The next run is not compared with a worse one: it stays worse until somebody accepts it.
        runs[_run_key(dut)] = {**_same(dut), "spreads": plain(report.run.spreads)}
    digests = {name: cached_sha256(project.store, source) for source, name in dut.files.files}
    key = digest_of([__version__, report.serial, digests, list(dut.trial.argv), _identity(dut.info)])
    outputs = {name: Output(sha256) for name, sha256 in digests.items()}
    StageRecord(path, key, {}, outputs, {"report": plain(report), "runs": runs}).save()


def _identity(facts: DeviceInfo) -> list[Any]:
    return [facts.model, facts.soc, facts.android, facts.sdk, facts.page_size]
