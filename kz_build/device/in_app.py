"""Runs of a model in an app of the device: FastRPC refuses processes that an app forked and exec'ed, so that a program
in a shell proves less (docs/reference/verbs/device.md)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError, ConfigError, DeviceError, Missing, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.progress import Watch, quiet
from kz_build.device import in_app_types as types
from kz_build.device.adb import Device
from kz_build.device.checks import clock, log_check, record, reply_check, report_of
from kz_build.device.device_under_test import DeviceUnderTest
from kz_build.device.in_app_types import BENCHMARK, PACKAGE, PROBE, QNN_LLAMA, TEXT, Activity, AppRequest, AppResult
from kz_build.device.info import info
from kz_build.device.measured import Runner, measured
from kz_build.device.metrics import Memory, Sample
from kz_build.device.push import FOLDER, items, named, push
from kz_build.device.push_set import InputFile, PushSet
from kz_build.device.trial import Measured, Report, RunPolicy, Timing, TrialPlan
from kz_build.formats.app import read_app
from kz_build.pins.project import Project

GONE_POLLS = 3
"""Polls without a process, and without a result, after which the app counts as dead."""
POLL_SECONDS = 0.5
_PM_SECONDS = 120.0
_NO_STATISTICS = "no statistics: it failed in native code, whose error upstream's JNI drops"
_NO_PROBE = (
    "has no kz.ProbeActivity, and upstream's own activity treats every model as a text model, so QNN's runner is never used; "
    "without --apk kz builds an app that uses it"
)


@dataclass(frozen=True)
class App:
    """A benchmark app on this machine, and its activity to start."""

    path: Path
    sha256: str
    activity: Activity


def app_of(path: Path) -> App:
    """Read the benchmark app of a file, and whether it has kz's probe. Raises ConfigError for another app, AuditError for no app."""
    if not path.is_file():
        raise AuditError(f"{path} is not a file")
    manifest = read_app(path).manifest
    if manifest is None or manifest.package != PACKAGE:
        actual = manifest.package if manifest else "an app whose manifest cannot be read"
        raise ConfigError(
            f"{path}: this is {actual}, not upstream's benchmark app {PACKAGE}", hint="without --apk kz builds it"
        )
    return App(path, sha256_file(path), PROBE if PROBE.name in manifest.activities else BENCHMARK)


def skipped(report: Report, reason: str) -> Report:
    """Add to a report why nothing was run in an app."""
    row = Check(report.serial, "in-app", Status.SKIP, reason, False)
    return replace(report, checks=(*report.checks, row))


def in_app(
    project: Project,
    device: Device,
    trial: TrialPlan,
    app: App,
    policy: RunPolicy,
    *,
    watch: Watch = quiet,
    note: Callable[[str], None] = lambda text: None,
    at_end: ExitStack | None = None,
) -> Report:
    """Push model and tokenizer, install the app unless this very one is there, and let it load and generate; if that is good and
    `policy` compares, time it. The app stays.

    Raises ConfigError without a model or tokenizer, MissingError if its file is absent, DeviceError if the device does not answer.
    """
    model, tokenizer = _files(trial)
    facts = info(device)
    folder = f"{FOLDER}/{trial.line}/{trial.target}/{trial.subject}"
    files = tuple((one.path, one.name) for one in (model, tokenizer))
    pushed = push(project.store, device, named(files), folder, watch=watch)
    above = [folder.rsplit("/", cut)[0] for cut in range(len((folder.removeprefix(FOLDER)).split("/")))]
    device.checked(f"chmod a+rx {' '.join(map(quote, above))}")  # an app is another user
    dut = DeviceUnderTest(device, facts, trial, PushSet(files, ()), folder, {}, process="app")
    request = AppRequest(
        f"{folder}/{model.name}", f"{folder}/{tokenizer.name}", trial.full_prompt,
        types.model_type(trial.pte) if trial.pte else TEXT, trial.tokens,
    )  # fmt: skip
    since = clock(device)
    checks, kind = _check(project, dut, app, request, required=policy.required)
    series: tuple[Measured, ...] = ()
    if policy.compare and kind != types.NONE and not any(c.failed for c in checks):
        try:
            series = measured(project, dut, _runner(dut, app, request), policy, note, at_end)
        except DeviceError as error:
            checks += (Check(device.serial, "runs", Status.FAIL, str(error)),)
    if kind != types.NONE or any(c.failed for c in checks):
        checks += (log_check(project, dut, since),)
    report = report_of(project, dut, pushed, checks, kind)
    report = replace(report, run=series[0] if series else None, lengths=series[1:])
    record(project, dut, report)
    return report


def _files(trial: TrialPlan) -> tuple[InputFile, InputFile]:
    model = next((one for one in trial.inputs if trial.model and one.name == trial.model.name), None)
    tokenizer = next((one for one in trial.inputs if one.name.startswith("tokenizer")), None)
    if not model or not tokenizer:
        what = "model: --recipe R or --pte FILE" if not model else "tokenizer: --tokenizer FILE"
        raise ConfigError(f"--in-app needs a {what}")
    if absent := [one for one in (model, tokenizer) if not one.there]:
        raise MissingError(tuple(Missing(one.name, f"{one.path} is not there", one.remedy) for one in absent))
    return model, tokenizer


def _check(
    project: Project, dut: DeviceUnderTest, app: App, request: AppRequest, *, required: bool
) -> tuple[tuple[Check, ...], str]:
    """Return the checks of one run, and the kind of process."""
    emulated, device = dut.info.emulated, dut.device

    def row(what: str, status: Status, evidence: str) -> Check:
        return Check(device.serial, what, status, evidence, required or status is not Status.SKIP)

    if device.shell("command -v am && command -v pm && command -v run-as").code:
        why = "an EMULATED device has no Zygote and runs no app" if emulated else "this device has no am, pm or run-as"
        return (row("start", Status.SKIP if emulated else Status.FAIL, why),), types.NONE
    if app.activity is BENCHMARK and request.model_type == QNN_LLAMA:
        return (row("start", Status.FAIL, f"{app.path.name} {_NO_PROBE}"),), types.NONE
    installed = _installed(project, device, app)
    if installed.failed:
        return (installed,), types.NONE
    result, parent, why = _run_once(dut, app.activity, request)
    answers = list(_answers(row, result, why))
    if result and result.text and not any(c.failed for c in answers):
        answers.append(replace(reply_check(dut.trial, result.text), subject=device.serial, name="reply"))
    if not result and not parent:
        return (installed, *answers), types.NONE
    kind = types.process_kind(parent, result.context if result else "", emulated)
    return (installed, _process(row, kind, result), *answers), kind


def _runner(dut: DeviceUnderTest, app: App, request: AppRequest) -> Runner:
    """Return how timed runs are made in the app: each in a fresh process."""

    def good(asked: Timing, *, memory: bool = False) -> AppResult:
        own = replace(request, prompt=asked.full_prompt, seq_len=asked.tokens, memory=memory)
        result, _, why = _run_once(dut, app.activity, own)
        rows = _answers(lambda what, status, evidence: Check(dut.device.serial, what, status, evidence), result, why)
        bad = [one.evidence for one in rows if one.failed]
        if result is None or bad:
            raise DeviceError(
                f"{dut.device.serial} in-app: {(*bad, why)[0]}", hint="kz device check --in-app says more"
            )
        return result

    def memory(asked: Timing) -> tuple[Memory | None, str]:
        if app.activity is BENCHMARK:
            return None, "upstream's own activity says it of `forward` alone"
        held = good(asked, memory=True).memory
        return held, "" if held else "the kernel does not say it (smaps_rollup)"

    def once(asked: Timing) -> Sample:
        return good(asked).sample

    return Runner(" in-app", lambda asked: [app.activity.name], once, memory, {app.path.name: app.sha256})


def _installed(project: Project, device: Device, app: App) -> Check:
    """Push and install the app, unless this very one is installed."""

    def row(good: bool, evidence: str) -> Check:
        return Check(device.serial, "install", Status.PASS if good else Status.FAIL, evidence)

    there = device.shell(f'p=$(pm path {PACKAGE} | head -n 1); [ -n "$p" ] && sha256sum "${{p#package:}}"')
    if there.stdout.decode("utf-8", "replace").startswith(app.sha256):
        return row(True, f"{PACKAGE} {app.sha256[:12]} was installed")
    push(project.store, device, items([app.path]), f"{FOLDER}/app")
    done = device.shell(f"pm install -r -t {quote(f'{FOLDER}/app/{app.path.name}')}", timeout=_PM_SECONDS)
    output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    if done.code == 0 and "Success" in output:
        return row(True, f"{PACKAGE} {app.sha256[:12]} installed")
    if "UPDATE_INCOMPATIBLE" in output:
        output += f"; the installed one has another signature: adb uninstall {PACKAGE}"
    return row(False, output or f"pm install: exit {done.code}")


def _run_once(dut: DeviceUnderTest, activity: Activity, request: AppRequest) -> tuple[AppResult | None, str, str]:
    """Run once in a fresh process. Returns the app's result, its parent's name, and why there is no result."""
    device, run = dut.device, secrets.token_hex(8)
    device.shell(f"run-as {PACKAGE} rm -f {activity.result}")
    done = device.shell(types.start_command(activity, request, run), timeout=_PM_SECONDS)
    output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    # am says some errors with exit code 0.
    if errors := [line for line in output.splitlines() if line.startswith("Error")] or ([output] if done.code else []):
        return None, "", f"am: {errors[-1] or f'exit {done.code}'}"
    deadline = time.monotonic() + dut.trial.seconds
    parent, gone, lived = "", 0, False
    while True:
        now = types.parse_state(device.shell(types.poll_command(activity)).stdout.decode("utf-8", "replace"))
        parent, lived = now.parent or parent, lived or bool(now.pid)
        dut.pids |= {now.pid} if now.pid else set()
        if now.result is not None:
            try:
                return types.parse_result(activity, now.result, run), parent, ""
            except ValueError as error:
                return None, parent, str(error)
        gone = 0 if now.pid else gone + 1
        if gone >= GONE_POLLS:
            return None, parent, "the app died before it left a result" if lived else "the app never came up"
        if time.monotonic() > deadline:
            hidden = "is the screen on and unlocked? Android freezes hidden apps"
            return None, parent, f"no result within {dut.trial.seconds:g} s: {hidden}"
        time.sleep(POLL_SECONDS)


_Row = Callable[[str, Status, str], Check]


def _process(row: _Row, kind: str, result: AppResult | None) -> Check:
    context = f", {result.context}" if result and result.context else ""
    status = {types.ZYGOTE: Status.PASS, types.EMULATED: Status.SKIP}.get(kind, Status.FAIL)
    return row("process", status, kind if status is Status.SKIP else f"{kind}{context}")


def _answers(row: _Row, result: AppResult | None, why: str) -> tuple[Check, ...]:
    if result is None:
        return (row("load", Status.FAIL, why),)
    if result.load_status != 0 or result.sample.load_s is None:
        lines = result.error.strip().splitlines()
        causes = [line for line in lines if line.startswith("Caused by: ")] or lines[:1]
        return (row("load", Status.FAIL, causes[-1] if causes else f"load gave {result.load_status}"),)
    load = row("load", Status.PASS, f"in {result.sample.load_s:.2f} s, timed around it")
    sample = result.sample
    if result.error or (sample.decode_tps is None and not sample.generated_tokens):
        first = result.error.strip().splitlines()[:1] or [_NO_STATISTICS]
        return (load, row("generate", Status.FAIL, first[0]))
    rate = "" if sample.decode_tps is None else f"{sample.decode_tps:g} tokens/s"
    tokens = f"{sample.generated_tokens} tokens" if sample.generated_tokens else ""
    text = json.dumps(result.text[:60], ensure_ascii=False) if result.text else ""
    return (load, row("generate", Status.PASS, ", ".join(filter(None, (tokens, rate, text)))))
