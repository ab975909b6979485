"""`kz all`: everything about one target, in one command."""

from __future__ import annotations

import argparse
import builtins
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from kz_build.cli.chain import Chain
from kz_build.core.errors import AuditError, ConfigError, DeviceError, Missing, MissingError, NotReadyError
from kz_build.pipeline.run_all import Lack, Step


def line_of(project: Any, arguments: argparse.Namespace) -> str:
    """The recipe's line where that builds the target, else the default: a recipe may be of a line that is Python alone."""
    if not arguments.recipe:
        return str(project.pins.default)
    from kz_build.export.load import named

    line = named(project.root, project.pins, arguments.recipe).line
    sources = project.pins.target(arguments.target or project.pins.targets[0], line or project.pins.default)["sources"]
    return line if line and set(sources) <= set(project.pins.line(line)) else str(project.pins.default)


def _as_locked(own: int) -> str:
    return f"{own} of them this machine's own" if own else "as in pins.lock"


class Whole:
    """What `kz all` goes through: which stages this machine cannot do, for which there is no call, and the rest.

    `told` is what stages say beside the table.
    """

    def __init__(self, chain: Chain, arguments: argparse.Namespace, sign: Path | None) -> None:
        self.chain, self.arguments, self.sign = chain, arguments, sign
        self.project: Any = chain.project
        self.wanted: Any = self.project.pins.target(chain.target, chain.line)
        self.required = {"build", *arguments.require}
        self.required |= {"package"} if "in-app" in self.required else set()
        self.required |= {"export"} if arguments.recipe else set()
        self.required |= {"device"} if arguments.emulate or arguments.serial else set()
        self.lacks: tuple[Lack, ...] = ()
        self.skips: dict[str, str] = {}
        self.device: Any = None
        self.reports: list[Any] = []
        self.told: list[str] = []

    def look(self, stack: contextlib.ExitStack) -> None:
        """Find out all of that, before anything is downloaded. A device is connected, or an emulated one begun, until `stack` ends."""
        package = self.wanted["package"] or {}
        self._can("build", self.chain.require)
        if self._called_for("package", bool(package), f"pins.yaml says no `package` of {self.chain.target}"):
            self._can("package", lambda: self._reach(package["aar"]))
        if self._called_for("export", bool(self.arguments.recipe), "no --recipe: nothing is exported"):
            self._can("export", self._ready)
        if self._called_for(
            "device", bool(self.wanted["device"]), f"pins.yaml says no `device` of {self.chain.target}"
        ):
            self._can("device", lambda: self._connect(stack))
            if self.device and self.arguments.recipe:
                self._can("device", self._runtime)
        why = "an EMULATED device has no Zygote and runs no app" if self.arguments.emulate else "no device"
        app = f"pins.yaml says no `package.app` of {self.chain.target}"
        model = bool(self.arguments.recipe)
        asked = (
            (bool(package.get("app")), app),
            (bool(self.device) and not self.arguments.emulate, why),
            (model, "no --recipe: no model for it"),
        )
        if builtins.all(self._called_for("in-app", *one) for one in asked):
            self._can("in-app", self._buildable)

    def _called_for(self, stage: str, call: bool, reason: str) -> bool:
        if not call:
            self.skips.setdefault(stage, reason)
            if stage in self.required:
                self._lack(stage, (Missing(stage, reason, "another --target, or without --require"),))
        return call

    def _can(self, stage: str, asked: Callable[[], None]) -> None:
        try:
            asked()
        except MissingError as error:
            self._lack(stage, error.missing)

    def _lack(self, stage: str, missing: tuple[Missing, ...]) -> None:
        known = {item.what for one in self.lacks if one.required for item in one.missing}
        if new := tuple(item for item in missing if item.what not in known):
            self.lacks = (*self.lacks, Lack(stage, new, stage in self.required))
        self.skips.setdefault(stage, f"missing: {missing[0].what}")

    def _reach(self, source: str) -> None:
        from kz_build.sources.preflight import missing_sources
        from kz_build.sources.request import Request

        if found := missing_sources(self.project, Request(self.chain.line, (source,), paths={})):
            raise MissingError(found)

    def _ready(self) -> None:
        from kz_build.export.plan import plan
        from kz_build.export.preflight import preflight

        found = preflight(self.project, plan(self.project, self.arguments.recipe))
        failed = [check for check in found.checks if check.failed]
        if failed:
            raise MissingError(
                tuple(Missing(c.name, c.evidence, "\n         ".join(c.fix) or "another machine") for c in failed)
            )

    def _connect(self, stack: contextlib.ExitStack) -> None:
        from kz_build.core.env import variable
        from kz_build.device import adb
        from kz_build.device.info import chosen

        if self.arguments.emulate:
            from kz_build.emulator.device import EmulatedDevice

            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kz-all-", ignore_cleanup_errors=True)))
            soc = self.arguments.soc or self.wanted["soc"] or "SM8750"
            try:  # the same one for the project each time, so that its report is the same one
                made = EmulatedDevice(soc, place / "device", port=20_000 + crc32(bytes(self.project.root)) % 10_000)
            except ConfigError:
                made = EmulatedDevice(soc, place / "device")
            serial = stack.enter_context(made).serial
            self.device = stack.enter_context(adb.private(place / "home")).device(serial)
            return
        server = adb.running()
        (serial,) = (
            [self.arguments.serial] if self.arguments.serial else chosen(server, (), named=variable("ANDROID_SERIAL"))
        )
        try:
            self.device = server.device(serial)
        except DeviceError as error:
            raise MissingError((Missing(f"device {serial}", str(error), error.hint),)) from error

    def _runtime(self) -> None:
        from kz_build.device.info import info
        from kz_build.device.plan import runtime_lacks

        chain, recipe, soc = self.chain, self.arguments.recipe, self.arguments.soc
        arch = info(self.device).arch
        if found := runtime_lacks(self.project, chain.line, chain.target, recipe, soc, arch):
            raise MissingError(found)

    def _buildable(self) -> None:
        from kz_build.device.benchmark_app import missing

        if found := missing():
            raise MissingError(found)

    def steps(self) -> tuple[Step, ...]:
        """The stages in their order."""

        def step(name: str, run: Callable[[], str], *after: str) -> Step:
            return Step(name, run, after, self.skips.get(name, ""))

        return (
            step("fetch", self.fetch),
            step("apply", self.apply, "fetch"),
            step("build", self.build, "apply"),
            step("audit", self.audit, "build"),
            step("package", self.package, "audit"),
            step("export", self.export),
            step("device", self.try_it, *(("audit", "export") if self.arguments.recipe else ("audit",))),
            step("in-app", self.in_app, *(("package", "export") if self.arguments.recipe else ("package",))),
        )

    def _manifest(self, stage: str) -> str:
        return self._place(self.project.out(stage, self.chain.line, self.chain.target) / "manifest.json")

    def _place(self, path: Path) -> str:
        return path.relative_to(self.project.root).as_posix()

    def fetch(self) -> str:
        self.chain.fetch()
        return f"{len(self.chain.sources)} sources, {_as_locked(sum(bool(s.note) for s in self.chain.sources))}"

    def apply(self) -> str:
        self.chain.apply()
        own = sum(tree.locked is None for tree in self.chain.trees)
        return f"{sum(len(tree.patches) for tree in self.chain.trees)} patches, trees {_as_locked(own)}"

    def build(self) -> str:
        self.chain.plan()
        self.chain.build()
        return self._manifest("build")

    def audit(self) -> str:
        self.chain.audit(self.sign)
        if failed := self.chain.failed:
            what = ", ".join(f"{c.subject} {c.name}" for c in failed)
            raise AuditError(
                f"{len(failed)} of {len(self.chain.checks)} checks failed: {what}", hint="kz audit says more"
            )
        return self._manifest("audit")

    def package(self) -> str:
        from kz_build.cli.commands.package import packed

        made, _ = packed(self.project, self.chain.line, self.chain.target, self.chain.live, self.sign)
        if failed := [c for c in made.checks if c.failed]:
            raise AuditError(f"{len(failed)} of {len(made.checks)} checks failed", hint="kz package --aar says more")
        return self._manifest("package")

    def export(self) -> str:
        from kz_build.cli.commands.export import exported
        from kz_build.export import text as view
        from kz_build.export.plan import plan

        found, ready = exported(self.project, plan(self.project, self.arguments.recipe))
        if found is None:
            lost = [f"{c.name}: {c.evidence}" for c in ready.checks if c.failed]
            raise NotReadyError(
                f"not ready for {self.arguments.recipe}: {'; '.join(lost)}",
                hint="kz export --preflight says what mends it",
            )
        self.told.append(view.exported(found, self._place(found.path)))
        return self._place(found.path.with_name(f"{found.path.name}.json"))

    def try_it(self) -> str:
        """Checks on the device, and the runner's figures where there is one."""
        from kz_build.device.run import check, run
        from kz_build.device.text_report import report as text

        trial = self._trial()
        if trial.argv:
            found = run(self.project, self.device, trial, watch=self.chain.live.event, note=self.chain.live.note)
        else:
            found = check(self.project, self.device, trial, watch=self.chain.live.event)
        self.reports.append(found)
        self.told.append(text(found))
        if found.failed:
            raise DeviceError(f"{found.serial}: {', '.join(found.failed)}", hint="kz device check says more")
        return f"{'EMULATED ' if found.emulated else ''}{Path(found.log).parent / 'manifest.json'}"

    def in_app(self) -> str:
        """The same in an app that Zygote forked."""
        from kz_build.device.benchmark_app import app
        from kz_build.device.in_app import Asking, in_app
        from kz_build.device.text_report import report as text

        chain = self.chain
        made = app(self.project, chain.line, chain.target, chain.commands, chain.live.event)
        asking = Asking(runs=5, warmup=1, compare=True, required="in-app" in self.required)
        found = in_app(
            self.project, self.device, self._trial(), made, asking, watch=self.chain.live.event, note=chain.live.note
        )
        self.reports.append(found)
        self.told.append(f"in an app of {text(found)}")
        if found.failed:
            raise DeviceError(f"{found.serial}: {', '.join(found.failed)}", hint="kz device check --in-app says more")
        return str(Path(found.log).parent / "manifest.json")

    def _trial(self) -> Any:
        from kz_build.device.plan import trial
        from kz_build.device.trial import Wish

        wish = Wish(line=self.chain.line, target=self.chain.target, recipe=self.arguments.recipe)
        return trial(self.project, wish)
