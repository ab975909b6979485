"""All of one target, from fetch to report, one stage after the other (docs/reference/verbs/all.md)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from kz_build.core.check import Status, require_passed
from kz_build.core.errors import (
    ConfigError,
    DeviceError,
    KzError,
    Missing,
    MissingError,
    NotReadyError,
)
from kz_build.core.locks import scratch_folder
from kz_build.pipeline import text as view
from kz_build.pipeline.stages import Lack, Row, Step, record, walk
from kz_build.pipeline.target import TargetBuild, TargetRequest
from kz_build.report.report import write

if TYPE_CHECKING:
    from kz_build.core.terminal import Live
    from kz_build.device.adb import Device
    from kz_build.device.trial import Report, RunPolicy, TrialPlan
    from kz_build.pins.project import Project


@dataclass(frozen=True)
class AllRequest:
    """What `kz all` does: the build, the model of `recipe`, the device `serial` or an emulated one. Nothing starts
    unless the stages in `require` can run."""

    build: TargetRequest = field(default_factory=TargetRequest)
    recipe: str = ""
    serial: str = ""
    emulate: bool = False
    require: tuple[str, ...] = ()


@dataclass(frozen=True)
class AllResult:
    """How each stage went; `notes` is what stages print besides the table, `failure` the first error."""

    line: str
    target: str
    rows: tuple[Row, ...]
    lacks: tuple[Lack, ...]
    reports: tuple[Report, ...]
    notes: tuple[str, ...]
    failure: KzError | None


def run_all(project: Project, request: AllRequest, live: Live) -> AllResult:
    """Run every stage. Raises MissingError, before anything starts, with what the required ones lack."""
    request = replace(request, build=replace(request.build, line=_line(project, request)))
    with contextlib.ExitStack() as stack:
        build = TargetBuild(project, request.build, live.event, live.note)
        stages = _Stages(build, request)
        stages.look(stack)
        if skipped := [one for one in stages.lacks if not one.required]:
            live.note(view.lacks(skipped))
        if missing := tuple(item for one in stages.lacks if one.required for item in one.missing):
            raise MissingError(missing, hint="nothing was started")
        rows, failure = walk(stages.steps(), live.head)
        started = time.monotonic()
        record(project, build.line, build.target, rows, stages.lacks)
        place = str(write(project, build.line).relative_to(project.root))
        rows = (*rows, Row("report", Status.PASS, round(time.monotonic() - started, 1), place))
    return AllResult(build.line, build.target, rows, stages.lacks, tuple(stages.reports), tuple(stages.notes), failure)


def _line(project: Project, request: AllRequest) -> str:
    """Return the recipe's line if it can build the target, else the default: a recipe's line may have only Python sources."""
    if request.build.line or not request.recipe:
        return request.build.line
    from kz_build.export.load import named

    pins = project.pins
    line = named(project.root, pins, request.recipe).line
    return line if line and pins.can_build(line, request.build.target or pins.first_target) else pins.default


def _as_locked(own: int) -> str:
    return f"{own} of them this machine's own" if own else "as in pins.lock"


class _Stages:
    """The stages of `kz all`: those this machine cannot run, those that are not requested, and the rest."""

    device: Device

    def __init__(self, build: TargetBuild, request: AllRequest) -> None:
        self.build, self.request = build, request
        self.project = build.project
        self.wanted = self.project.pins.target(build.target, build.line)
        self.required = {"build", *request.require}
        self.required |= {"package"} if "in-app" in self.required else set()
        self.required |= {"export"} if request.recipe else set()
        self.required |= {"device"} if request.emulate or request.serial else set()
        self.lacks: tuple[Lack, ...] = ()
        self.skips: dict[str, str] = {}
        self.connected = False
        self.reports: list[Report] = []
        self.notes: list[str] = []

    def look(self, stack: contextlib.ExitStack) -> None:
        """Sort the stages, before anything is downloaded. A device is connected, or an emulated one runs, until `stack` ends."""
        package = self.wanted["package"] or {}
        self._try_to("build", self.build.require)
        if self._called_for("package", bool(package), f"{self.build.target} has no `package` in pins.yaml"):
            self._lack("package", self._unreachable(package["aar"]))
        if self._called_for("export", bool(self.request.recipe), "no --recipe: nothing is exported"):
            self._lack("export", self._not_ready())
        if self._called_for("device", bool(self.wanted["device"]), f"{self.build.target} has no `device` in pins.yaml"):
            self._try_to("device", lambda: self._connect(stack))
            if self.connected and self.request.recipe:
                self._lack("device", self._runtime_lacks())
        why = "an EMULATED device has no Zygote and runs no app" if self.request.emulate else "no device"
        asked = (
            (bool(package), f"{self.build.target} has no `package` in pins.yaml"),
            (self.connected and not self.request.emulate, why),
            (bool(self.request.recipe), "no --recipe: no model for it"),
        )
        if all(self._called_for("in-app", *one) for one in asked):
            from kz_build.device.probe_app import tools

            self._lack("in-app", tools().missing)

    def _called_for(self, stage: str, call: bool, reason: str) -> bool:
        if not call:
            self.skips.setdefault(stage, reason)
            if stage in self.required:
                self._lack(stage, (Missing(stage, reason, "another --target, or without --require"),))
        return call

    def _try_to(self, stage: str, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except MissingError as error:
            self._lack(stage, error.missing)

    def _lack(self, stage: str, missing: tuple[Missing, ...]) -> None:
        if not missing:
            return
        known = {item.what for one in self.lacks if one.required for item in one.missing}
        if new := tuple(item for item in missing if item.what not in known):
            self.lacks = (*self.lacks, Lack(stage, new, stage in self.required))
        self.skips.setdefault(stage, f"missing: {missing[0].what}")

    def _unreachable(self, source: str) -> tuple[Missing, ...]:
        from kz_build.sources.preflight import missing_sources
        from kz_build.sources.request import Request

        return missing_sources(self.project, Request(self.build.line, (source,), paths={}))

    def _not_ready(self) -> tuple[Missing, ...]:
        from kz_build.export.plan import plan
        from kz_build.export.preflight import preflight

        return preflight(self.project, plan(self.project, self.request.recipe)).missing

    def _connect(self, stack: contextlib.ExitStack) -> None:
        soc = self.request.build.soc or self.wanted["soc"] or "SM8750"
        emulate = self.request.emulate
        self.device = _emulated(self.project.root, soc, stack) if emulate else _attached(self.request.serial)
        self.connected = True

    def _runtime_lacks(self) -> tuple[Missing, ...]:
        from kz_build.device.info import info
        from kz_build.device.plan import runtime_lacks

        build, recipe, soc = self.build, self.request.recipe, self.request.build.soc
        return runtime_lacks(self.project, build.line, build.target, recipe, soc, info(self.device).arch)

    def steps(self) -> tuple[Step, ...]:
        def step(name: str, run: Callable[[], str], *after: str) -> Step:
            return Step(name, run, after, self.skips.get(name, ""))

        return (
            step("fetch", self._fetch),
            step("apply", self._apply, "fetch"),
            step("build", self._build, "apply"),
            step("audit", self._audit, "build"),
            step("package", self._package, "audit"),
            step("export", self._export),
            step("device", self._try, *(("audit", "export") if self.request.recipe else ("audit",))),
            step("in-app", self._in_app, *(("package", "export") if self.request.recipe else ("package",))),
        )

    def _manifest(self, stage: str) -> str:
        return self._place(self.project.out(stage, self.build.line, self.build.target) / "manifest.json")

    def _place(self, path: Path) -> str:
        return path.relative_to(self.project.root).as_posix()

    def _fetch(self) -> str:
        self.build.fetch()
        return f"{len(self.build.sources)} sources, {_as_locked(sum(bool(s.note) for s in self.build.sources))}"

    def _apply(self) -> str:
        self.build.apply()
        own = sum(tree.locked is None for tree in self.build.trees)
        return f"{sum(len(tree.patches) for tree in self.build.trees)} patches, trees {_as_locked(own)}"

    def _build(self) -> str:
        self.build.plan()
        self.build.build()
        return self._manifest("build")

    def _audit(self) -> str:
        self.build.audit()
        require_passed(self.build.checks, "kz audit shows them", names=True)
        return self._manifest("audit")

    def _package(self) -> str:
        from kz_build.release.aar import package

        build = self.build
        aar = package(self.project, build.line, [build.target], build.watch, build.request.sign)
        require_passed(aar.checks, "kz package shows them")
        return self._manifest("package")

    def _export(self) -> str:
        from kz_build.export.plan import plan
        from kz_build.export.run import export_model
        from kz_build.export.text import exported as text

        planned = plan(self.project, self.request.recipe)
        model, ready = export_model(self.project, planned, self.build.watch, self.build.note)
        if model is None:
            raise NotReadyError(
                f"not ready for {self.request.recipe}: {'; '.join(f'{c.name}: {c.evidence}' for c in ready.failed)}",
                hint=f"kz export preflight {self.request.recipe} says how to fix it",
            )
        self.notes.append(text(model, self._place(model.path)))
        return self._place(model.path.with_name(f"{model.path.name}.json"))

    def _try(self) -> str:
        """Check on the device, and time the runner if there is one."""
        from kz_build.device.checks import check
        from kz_build.device.run import run
        from kz_build.device.text_report import report as text

        trial = self._trial()
        if trial.argv:
            policy = self._policy()
            report = run(self.project, self.device, trial, policy, watch=self.build.watch, note=self.build.note)
        else:
            report = check(self.project, self.device, trial, watch=self.build.watch)
        self.reports.append(report)
        self.notes.append(text(report))
        if report.failed:
            raise DeviceError(f"{report.serial}: {', '.join(report.failed)}", hint="kz device check shows them")
        return f"{'EMULATED ' if report.emulated else ''}{Path(report.log).parent / 'manifest.json'}"

    def _in_app(self) -> str:
        """Do the same in an app, forked by Zygote."""
        from kz_build.device.in_app import in_app
        from kz_build.device.probe_app import app
        from kz_build.device.text_report import report as text

        build = self.build
        installed = app(self.project, build.line, build.target, build.commands, self.build.watch)
        policy = self._policy()
        report = in_app(
            self.project, self.device, self._trial(), installed, policy, watch=self.build.watch, note=self.build.note
        )
        self.reports.append(report)
        self.notes.append(f"in an app of {text(report)}")
        if report.failed:
            raise DeviceError(
                f"{report.serial}: {', '.join(report.failed)}", hint="kz device check --in-app shows them"
            )
        return str(Path(report.log).parent / "manifest.json")

    def _policy(self) -> RunPolicy:
        from kz_build.device.trial import RunPolicy

        return RunPolicy(runs=5, warmup=1, compare=True, required="in-app" in self.required)

    def _trial(self) -> TrialPlan:
        from kz_build.device.plan import trial
        from kz_build.device.trial import TrialRequest

        wish = TrialRequest(line=self.build.line, target=self.build.target, recipe=self.request.recipe)
        return trial(self.project, wish)


def _emulated(root: Path, soc: str, stack: contextlib.ExitStack) -> Device:
    """Start an emulated device, and an adb server for it, until `stack` ends."""
    from kz_build.device import adb
    from kz_build.emulator.device import EmulatedDevice

    place = stack.enter_context(scratch_folder())
    home = place / "home"
    try:  # the same port for a project each time, so that its report is the same file
        emulated = EmulatedDevice(soc, place / "device", owner=home, port=20_000 + crc32(bytes(root)) % 10_000)
    except ConfigError:
        emulated = EmulatedDevice(soc, place / "device", owner=home)
    serial = stack.enter_context(emulated).serial
    if missing := emulated.missing_for_arm64():
        raise MissingError(missing)
    return stack.enter_context(adb.private(home)).device(serial)


def _attached(serial: str) -> Device:
    from kz_build.core.env import variable
    from kz_build.device import adb
    from kz_build.device.info import choose_serials

    server = adb.running()
    if not serial:
        (serial,) = choose_serials(server, (), named=variable("ANDROID_SERIAL"))
    try:
        return server.device(serial)
    except DeviceError as error:
        raise MissingError((Missing(f"device {serial}", str(error), error.hint),)) from error
