"""A model loaded and asked in an app of the device: FastRPC refuses processes that an app forked and exec'ed, so that a program
in a shell proves less (docs/device.md)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError, Missing, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.progress import Watch, quiet
from kz_build.device import in_app_types as ask
from kz_build.device.adb import Device
from kz_build.device.checks import Tried
from kz_build.device.in_app_types import BENCHMARK, PACKAGE, PROBE, QNN_LLAMA, TEXT, Asked, Seen, Way
from kz_build.device.info import info
from kz_build.device.metrics import METRICS, spreads
from kz_build.device.push import FOLDER, items, named, push
from kz_build.device.push_set import Given, PushSet
from kz_build.device.run import against, log_check, log_path, record
from kz_build.device.trial import Measured, Report, Trial
from kz_build.formats.app import read_app
from kz_build.pins.project import Project

GONE_POLLS = 3
"""Polls without a process, and without a result, after which the app counts as dead."""
POLL_SECONDS = 0.5
_PM_SECONDS = 120.0
_HOT = ("moderate", "severe", "critical", "emergency", "shutdown")
_NO_STATISTICS = "no statistics came: it failed in native code, whose error upstream's JNI drops"
_NO_PROBE = (
    "has no kz.ProbeActivity, and upstream's own activity takes every model for a text model: it does not reach QNN's runner; "
    "without --apk kz builds one that does"
)


@dataclass(frozen=True)
class App:
    """A benchmark app on this machine, and the activity of it that is asked."""

    path: Path
    sha256: str
    way: Way


@dataclass(frozen=True)
class Asking:
    """How often: `runs` that count after `warmup`, each in a fresh process; `compare` them with what it took before.
    `required`: what cannot be asked fails."""

    runs: int = 1
    warmup: int = 0
    compare: bool = False
    tolerance: float | None = None
    required: bool = False


ONCE = Asking()


def app_of(path: Path) -> App:
    """The benchmark app in a file: with kz's probe where that is in it. Raises ConfigError for another app, AuditError for none."""
    if not path.is_file():
        raise AuditError(f"{path} is no file")
    manifest = read_app(path).manifest
    if manifest is None or manifest.package != PACKAGE:
        said = manifest.package if manifest else "an app whose manifest cannot be read"
        raise ConfigError(
            f"{path}: this is {said}, not upstream's benchmark app {PACKAGE}", hint="without --apk kz builds it"
        )
    return App(path, sha256_file(path), PROBE if PROBE.activity in manifest.activities else BENCHMARK)


def skipped(report: Report, reason: str) -> Report:
    """A report that says why nothing was tried in an app."""
    row = Check(report.serial, "in-app", Status.SKIP, reason, False)
    return replace(report, checks=(*report.checks, row))


def in_app(
    project: Project,
    device: Device,
    trial: Trial,
    app: App,
    asking: Asking = ONCE,
    *,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """Push model and tokenizer, install the app where it is not there as it is, and let it load and generate. The app stays.

    Raises ConfigError without a model or tokenizer, MissingError where one is not there, DeviceError where the device does not answer.
    """
    model, tokenizer = _files(trial)
    found = info(device)
    folder = f"{FOLDER}/{trial.line}/{trial.target}/{trial.subject}"
    files = tuple((one.path, one.name) for one in (model, tokenizer))
    pushed = push(project.store, device, named(files), folder, watch=watch)
    above = [folder.rsplit("/", cut)[0] for cut in range(len((folder.removeprefix(FOLDER)).split("/")))]
    device.checked(f"chmod a+rx {' '.join(map(quote, above))}")  # an app is another user
    tried = Tried(device, found, trial, PushSet(files, ()), folder, {}, process="app")
    asked = Asked(
        f"{folder}/{model.name}", f"{folder}/{tokenizer.name}", trial.asked,
        ask.model_type(trial.pte) if trial.pte else TEXT, trial.tokens,
    )  # fmt: skip
    since = device.checked("date '+%m-%d %H:%M:%S.000'").decode().strip()
    checks, kind, saw = _asked(project, tried, app, asked, asking, note)
    log = log_path(project, tried)
    if saw or any(c.failed for c in checks):
        checks += (log_check(tried, since, log),)
    report = Report(
        serial=device.serial, emulated=found.emulated, device=found.model, soc=found.soc, arch=found.arch, line=trial.line,
        target=trial.target, subject=trial.subject, process=kind, pushed=pushed, checks=checks,
        log=str(log.relative_to(project.root)),
    )  # fmt: skip
    if saw and not report.failed:
        report = replace(report, run=_measured(project, tried, report, saw, asking))
    record(project, tried, report)
    return report


def _files(trial: Trial) -> tuple[Given, Given]:
    model = next((one for one in trial.given if trial.model and one.name == trial.model.name), None)
    tokenizer = next((one for one in trial.given if one.name.startswith("tokenizer")), None)
    if not model or not tokenizer:
        what = "model: --recipe R or --pte FILE" if not model else "tokenizer: --tokenizer FILE"
        raise ConfigError(f"--in-app needs a {what}")
    if lost := [one for one in (model, tokenizer) if not one.there]:
        raise MissingError(tuple(Missing(one.name, f"{one.path} is not there", one.brings) for one in lost))
    return model, tokenizer


_Asked = tuple[tuple[Check, ...], str, tuple[Seen, ...]]


def _asked(
    project: Project, tried: Tried, app: App, asked: Asked, asking: Asking, note: Callable[[str], None]
) -> _Asked:
    """(checks, kind of process, what the app saw in each run that counts)."""
    emulated, device = tried.info.emulated, tried.device

    def row(what: str, status: Status, evidence: str) -> Check:
        return Check(device.serial, what, status, evidence, asking.required or status is not Status.SKIP)

    if device.shell("command -v am && command -v pm && command -v run-as").code:
        why = "an EMULATED device has no Zygote and runs no app" if emulated else "this device has no am, pm or run-as"
        return (row("start", Status.SKIP if emulated else Status.FAIL, why),), ask.NONE, ()
    if app.way is BENCHMARK and asked.model_type == QNN_LLAMA:
        return (row("start", Status.FAIL, f"{app.path.name} {_NO_PROBE}"),), ask.NONE, ()
    checks = [_installed(project, device, app)]
    kind, saw = ask.NONE, list[Seen]()
    for index in range(asking.warmup + asking.runs if not checks[0].failed else 0):
        found, parent, why = _once(tried, app.way, asked)
        answers = list(_answers(row, found, why))
        if found or parent:
            kind = ask.process_kind(parent, found.context if found else "", emulated)
            answers.insert(0, _process(row, kind, found))
        bad = any(c.failed for c in answers)
        if index == 0 or bad:
            checks = [checks[0], *answers]
        if bad or not found:
            return tuple(checks), kind, ()
        if index >= asking.warmup:
            saw.append(found)
        if asking.compare:
            told = found.sample
            said = ", ".join(f"{m.title} {v:g} {m.unit}" for m in METRICS if (v := getattr(told, m.name)) is not None)
            note(f"{device.serial} in-app {'warm-up' if index < asking.warmup else 'run'} {index + 1}: {said}")
    return tuple(checks), kind, tuple(saw)


def _installed(project: Project, device: Device, app: App) -> Check:
    """Bring the app to the device and install it, unless the very one is."""

    def row(good: bool, evidence: str) -> Check:
        return Check(device.serial, "install", Status.PASS if good else Status.FAIL, evidence)

    there = device.shell(f'p=$(pm path {PACKAGE} | head -n 1); [ -n "$p" ] && sha256sum "${{p#package:}}"')
    if there.stdout.decode("utf-8", "replace").startswith(app.sha256):
        return row(True, f"{PACKAGE} {app.sha256[:12]} was installed")
    push(project.store, device, items([app.path]), f"{FOLDER}/app")
    done = device.shell(f"pm install -r -t {quote(f'{FOLDER}/app/{app.path.name}')}", timeout=_PM_SECONDS)
    said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    if done.code == 0 and "Success" in said:
        return row(True, f"{PACKAGE} {app.sha256[:12]} installed")
    if "UPDATE_INCOMPATIBLE" in said:
        said += f"; another key signed the one that is there: adb uninstall {PACKAGE}"
    return row(False, said or f"pm install: exit {done.code}")


def _once(tried: Tried, way: Way, asked: Asked) -> tuple[Seen | None, str, str]:
    """One run in a fresh process: (what the app saw, its parent's name, why there is nothing)."""
    device, run = tried.device, secrets.token_hex(8)
    device.shell(f"run-as {PACKAGE} rm -f {way.result}")
    done = device.shell(ask.start(way, asked, run), timeout=_PM_SECONDS)
    said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    # am says some errors with exit code 0.
    if errors := [line for line in said.splitlines() if line.startswith("Error")] or ([said] if done.code else []):
        return None, "", f"am: {errors[-1] or f'exit {done.code}'}"
    deadline = time.monotonic() + tried.trial.seconds
    parent, gone, lived = "", 0, False
    while True:
        now = ask.state(device.shell(ask.poll(way)).stdout.decode("utf-8", "replace"))
        parent, lived = now.parent or parent, lived or bool(now.pid)
        tried.pids |= {now.pid} if now.pid else set()
        if now.result is not None:
            try:
                return ask.seen(way, now.result, run), parent, ""
            except ValueError as error:
                return None, parent, str(error)
        gone = 0 if now.pid else gone + 1
        if gone >= GONE_POLLS:
            return None, parent, "the app died before it left a result" if lived else "the app never came up"
        if time.monotonic() > deadline:
            hidden = "is the screen on and unlocked? Android freezes hidden apps"
            return None, parent, f"no result within {tried.trial.seconds:g} s: {hidden}"
        time.sleep(POLL_SECONDS)


_Row = Callable[[str, Status, str], Check]


def _process(row: _Row, kind: str, found: Seen | None) -> Check:
    context = f", {found.context}" if found and found.context else ""
    status = {ask.ZYGOTE: Status.PASS, ask.EMULATED: Status.SKIP}.get(kind, Status.FAIL)
    return row("process", status, kind if status is Status.SKIP else f"{kind}{context}")


def _answers(row: _Row, found: Seen | None, why: str) -> tuple[Check, ...]:
    if found is None:
        return (row("load", Status.FAIL, why),)
    if found.load_status != 0 or found.sample.load_s is None:
        said = found.error.strip().splitlines()
        causes = [line for line in said if line.startswith("Caused by: ")] or said[:1]
        return (row("load", Status.FAIL, causes[-1] if causes else f"load gave {found.load_status}"),)
    load = row("load", Status.PASS, f"in {found.sample.load_s:.2f} s, timed around it")
    told = found.sample
    if found.error or (told.decode_tps is None and not told.generated_tokens):
        first = found.error.strip().splitlines()[:1] or [_NO_STATISTICS]
        return (load, row("generate", Status.FAIL, first[0]))
    rate = "" if told.decode_tps is None else f"{told.decode_tps:g} tokens/s"
    tokens = f"{told.generated_tokens} tokens" if told.generated_tokens else ""
    text = json.dumps(found.text[:60], ensure_ascii=False) if found.text else ""
    return (load, row("generate", Status.PASS, ", ".join(filter(None, (tokens, rate, text)))))


def _measured(project: Project, tried: Tried, report: Report, saw: tuple[Seen, ...], asking: Asking) -> Measured:
    samples = tuple(one.sample for one in saw)
    after = info(tried.device).thermal
    found = spreads(samples)
    rows, notes = (
        against(project, tried, replace(report, process="app"), found, asking.tolerance) if asking.compare else ((), ())
    )
    return Measured(asking.warmup, samples, found, (tried.info.thermal, after), after in _HOT, rows, notes)
