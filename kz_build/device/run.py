"""check, run: a trial on one device -> its report, with evidence, kept in out/device/<line>/<serial>/."""

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
from kz_build.device.checks import QUESTIONS, Tried, elves
from kz_build.device.info import info
from kz_build.device.metrics import METRICS, Comparison, Spread, compared, spreads
from kz_build.device.properties import DeviceInfo, known_soc
from kz_build.device.push import FOLDER, named, push
from kz_build.device.push_set import push_set, skel_archs
from kz_build.device.trial import Measured, Report, Trial
from kz_build.formats.library import qnn_version, read_library
from kz_build.pins.load import executorch_of
from kz_build.pins.pins import digest_of
from kz_build.pins.project import RECORD, Project

TOLERANCE = 15.0
"""Percent that a figure may be worse than at the last run."""
_HOT = ("moderate", "severe", "critical", "emergency", "shutdown")
_THREADTIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d+\s+(\d+)\s+\d+ . (\S*)")
_OTHERS = re.compile(r"^(DEBUG|lowmemorykiller|adsprpc|cdsprpc|.*fastrpc.*)", re.I)


def check(project: Project, device: Device, trial: Trial, *, watch: Watch = quiet) -> Report:
    """Push what is tried and ask everything. Raises MissingError with all that the device's set lacks, DeviceError."""
    tried, report = _checked(project, device, trial, watch)
    record(project, tried, report)
    return report


def run(
    project: Project,
    device: Device,
    trial: Trial,
    *,
    runs: int = 5,
    warmup: int = 1,
    tolerance: float | None = None,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """`check`, and where nothing failed the runner again and again, each time in a fresh process, against what it took before."""
    tried, report = _checked(project, device, trial, watch)
    if trial.argv and not report.failed:
        measured = _measured(project, tried, report, runs, warmup, tolerance, note)
        report = replace(report, run=measured)
    elif not trial.argv:
        rest = tuple(one for one in report.checks if one.name != "runner")
        report = replace(report, checks=(*rest, Check(device.serial, "runner", Status.SKIP, trial.no_run)))
    record(project, tried, report)
    return report


def _checked(project: Project, device: Device, trial: Trial, watch: Watch) -> tuple[Tried, Report]:
    found = info(device)
    wanted = push_set(found.arch, trial.dist, trial.runtime, trial.given, qnn=trial.qnn)
    if wanted.missing:
        raise MissingError(wanted.missing)
    folder = f"{FOLDER}/{trial.line}/{trial.target}" + (f"/{trial.subject}" if trial.subject else "")
    pushed = push(project.store, device, named(wanted.files), folder, clean=True, watch=watch)
    tried = Tried(device, found, trial, wanted, folder, *elves(wanted))
    since = device.shell("date '+%m-%d %H:%M:%S.000'").stdout.decode().strip()
    checks = ask(tried, QUESTIONS, device.serial)
    checks += _file_checks(tried)
    log = log_path(project, tried)
    checks += (log_check(tried, since, log),)
    return tried, Report(
        serial=device.serial,
        emulated=found.emulated,
        device=found.model,
        soc=found.soc,
        arch=found.arch,
        line=trial.line,
        target=trial.target,
        subject=trial.subject,
        process=tried.process,
        pushed=pushed,
        checks=checks,
        log=str(log.relative_to(project.root)),
    )


def _file_checks(tried: Tried) -> tuple[Check, ...]:
    """What the .pte asks of library and device (docs/pte.md)."""
    trial = tried.trial
    if not trial.pte:
        return ()
    library = read_library(trial.folder, trial.pte, executorch_of(trial.folder))
    own = {name: path for path, name in tried.files.files}
    htp = own.get("libQnnHtp.so")
    archs = frozenset(arch.lower() for arch in skel_archs(tuple(own)))
    library = replace(library, qnn=qnn_version(htp) if htp else library.qnn, skels=archs or library.skels)
    found = contract.check_contract(trial.pte, trial.contract, library, known_soc(tried.info.soc))
    return tuple(replace(one, subject=tried.device.serial, name=f"pte {one.name}") for one in found)


def log_path(project: Project, tried: Tried) -> Path:
    """Where the log of a device is kept."""
    return _folder(project, tried) / "log.txt"


def _folder(project: Project, tried: Tried) -> Path:
    folder = project.out("device", tried.trial.line, re.sub(r"[^\w.-]", "_", tried.device.serial))
    return folder / "in-app" if tried.process == "app" else folder


def log_check(tried: Tried, since: str, path: Path) -> Check:
    """What the programs and the device's log said meanwhile, kept and looked through for known troubles."""
    from kz_build.diagnose.diagnose import diagnose

    def answer(status: Status, evidence: str) -> Check:
        return Check(tried.device.serial, "log", status, evidence)

    try:
        done = tried.device.shell(f"logcat -d -v threadtime -T '{since}'", timeout=60)
    except KzError as error:
        return answer(Status.ERROR, f"logcat: {error}")
    if done.code:
        said = done.stderr.decode("utf-8", "replace").strip()
        return answer(Status.ERROR, f"logcat cannot be read: {said or f'exit {done.code}'}")
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if _ours(line, tried.pids)]
    files.write_atomic(path, "\n".join([*tried.said, *lines, ""]).encode())
    found = [one for one in diagnose(str(path)).found if not one.follows]
    if found:
        told = "; ".join(f"{one.title} [{one.id}]: {one.next}" for one in found)
        return answer(Status.FAIL, told)
    return answer(
        Status.PASS, f"nothing known to be wrong in {len(lines):,} lines of logcat and what the programs said"
    )


def _ours(line: str, pids: set[int]) -> bool:
    """Whether a line of logcat is of a process of ours, or of those that serve the DSP and note crashes."""
    found = _THREADTIME.match(line)
    return not found or int(found[1]) in pids or bool(_OTHERS.match(found[2]))


def _measured(
    project: Project,
    tried: Tried,
    report: Report,
    runs: int,
    warmup: int,
    tolerance: float | None,
    note: Callable[[str], None],
) -> Measured:
    before = tried.info.thermal
    samples = []
    for index in range(warmup + runs):
        ran = tried.run()
        if ran.why or not ran.sample:
            raise _run_failed(tried, index, ran.why)
        said = ", ".join(f"{m.title} {v:g} {m.unit}" for m in METRICS if (v := getattr(ran.sample, m.name)) is not None)
        note(f"{tried.device.serial} {'warm-up' if index < warmup else f'run {index - warmup + 1} of {runs}'}: {said}")
        if index >= warmup:
            samples.append(ran.sample)
    after = info(tried.device).thermal
    found = spreads(samples)
    rows, notes = against(project, tried, report, found, tolerance)
    return Measured(
        warmup=warmup,
        samples=tuple(samples),
        spreads=found,
        thermal=(before, after),
        throttled=after in _HOT,
        compared=rows,
        notes=notes,
    )


def _run_failed(tried: Tried, index: int, why: str) -> KzError:
    from kz_build.core.errors import DeviceError

    return DeviceError(f"{tried.device.serial}: run {index + 1}: {why}", hint="kz device check says more")


def against(
    project: Project, tried: Tried, report: Report, now: Mapping[str, Spread], tolerance: float | None
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """The last run on this device and the baseline of its kind, each only where it is of the same thing."""
    if report.emulated:
        return (), ("EMULATED: its timings are compared with nothing",)
    rows: list[Comparison] = []
    notes: list[str] = []
    last = _last(project, tried)
    if last:
        rows += compared(now, last, "the last run", TOLERANCE if tolerance is None else tolerance)
    else:
        notes.append("no earlier run of the same on this device")
    known = baseline(project.root, report.device.rpartition(" ")[2], known_soc(report.soc))
    if not known:
        return tuple(rows), (*notes, f"no baseline for {report.device}")
    for one in known["figures"]:
        if one["recipe"] != tried.trial.recipe:
            continue
        if one["process"] != report.process:
            notes.append(f"baseline {known['device']}: measured in {one['process']}, this ran in {report.process}")
            continue
        limit = known["tolerance"] if tolerance is None else tolerance
        rows += compared(
            now, {m.name: one[m.name] for m in METRICS if one[m.name]}, f"baseline {known['device']}", limit
        )
    return tuple(rows), tuple(notes)


def _same(tried: Tried) -> dict[str, Any]:
    """What two runs must share to be compared: the model, the question, and how it was run. The build may differ: that is the point."""
    trial = tried.trial
    return {
        "target": trial.target,
        "subject": trial.subject,
        "argv": list(trial.argv),
        "asked": trial.asked,
        "process": tried.process,
        "emulated": tried.info.emulated,
    }


def _last(project: Project, tried: Tried) -> dict[str, float]:
    try:
        held = _runs(_folder(project, tried) / RECORD)[_run_key(tried)]
        return {name: float(spread["median"]) for name, spread in held["spreads"].items()}
    except (LockError, KeyError, TypeError, ValueError):
        return {}


def _runs(path: Path) -> dict[str, Any]:
    """The last good run of each thing that was measured on a device."""
    record = load_any(path)
    return record.get("runs", dict) if record else {}


def _run_key(tried: Tried) -> str:
    return digest_of(_same(tried))[:16]


def record(project: Project, tried: Tried, report: Report) -> None:
    """Leave the record: this report, and the last good run of each thing that was measured on this device."""
    path = _folder(project, tried) / RECORD
    runs = _runs(path)
    if report.run and not any(row.worse for row in report.run.compared):
        # What became worse is not what the next run is held against: it stays worse until somebody accepts it.
        runs[_run_key(tried)] = {**_same(tried), "spreads": plain(report.run.spreads)}
    held = {name: cached_sha256(project.store, source) for source, name in tried.files.files}
    key = digest_of([__version__, report.serial, held, list(tried.trial.argv), _identity(tried.info)])
    outputs = {name: Output(sha256) for name, sha256 in held.items()}
    StageRecord(path, key, {}, outputs, {"report": plain(report), "runs": runs}).save()


def _identity(found: DeviceInfo) -> list[Any]:
    return [found.model, found.soc, found.android, found.sdk, found.page_size]
