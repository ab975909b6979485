"""Engine `host` with a farm: the compilers of a build run on the workers of a scheduler of sccache-dist."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kz_build.build.distrust import LAUNCHERS
from kz_build.build.engine import HostEngine, bindings, root_prefix
from kz_build.build.sccache import CompileServer, Farm, Shares, client_config, total
from kz_build.build.steps import Ccache, Command, Plan, Sccache, Step
from kz_build.core.command_log import Commands
from kz_build.core.env import temporary_root
from kz_build.core.errors import CommandError, ConfigError, StoppedError
from kz_build.core.files import disk_errors, remove, write_atomic
from kz_build.core.process import joined, watched

STALL_SECONDS = 300.0
"""When nothing was compiled for so long after the first object, a worker is taken for dead: sccache itself waits 20 minutes for
an answer. The first object takes as long as it takes to pack and send the toolchain."""
LAUNCHER = """#!/bin/sh
[ -n "$SCCACHE_SERVER_UDS" ] || exec "$@"
exec {} "$@" '-D__DATE__="Jan  1 1970"' '-D__TIME__="00:00:01"' -Wno-builtin-macro-redefined
"""
"""What stands before a compiler. sccache keeps SOURCE_DATE_EPOCH from it, so its two macros are given. Where no socket is named,
as when CMake tries compilers, it is the compiler alone: no worker's answer decides what CMake finds."""
_LONGEST_SOCKET = 100
"""The kernel takes 107 bytes of a socket's path."""


class FarmEngine(HostEngine):
    """This machine, and its farm until that fails. A worker that dies, hangs or fails costs time: the rest is compiled here."""

    def __init__(self, farm: Farm, program: str, note: Callable[[str], None]) -> None:
        super().__init__()
        self.farm: Farm | None = farm
        self.network = "on for sccache and the compilers that it starts: they reach the farm"
        self._scheduler, self._program, self._note = farm.scheduler, program, note
        self._folder = temporary_root() / f"kz-farm-{secrets.token_hex(4)}"
        if len(bytes(self._folder)) > _LONGEST_SOCKET:
            raise ConfigError(f"{self._folder} is too long for a socket", hint="TMPDIR=/tmp")
        self._compiles: CompileServer | None = None
        self._toolchains = Path()
        self._parts: list[Shares] = []
        self._alone = ""
        self._lines = 0
        self._changing = threading.Lock()

    def compile_cache(self, store: Path) -> Ccache | Sccache | None:
        """Return sccache as the compilers' launcher. No cache: an object of a worker would stay in it."""
        return Sccache(str(self._folder / "sccache")) if self.farm else None

    def facts(self) -> dict[str, object]:
        """Return the facts of engine host, and who compiled what share."""
        shares = total(self._parts)._asdict()
        alone = {"alone": self._alone} if self._alone else {}
        return {**super().facts(), "distributed": {"scheduler": self._scheduler, **shares, **alone}}

    def leave(self, why: str) -> None:
        """Build without the farm from now on."""
        self.farm, self._alone = None, why
        self.network = HostEngine().network
        self._note(f"{why}: it is built again, on this machine alone")

    @contextlib.contextmanager
    def opened(self, plan: Plan, commands: Commands) -> Iterator[None]:
        with super().opened(plan, commands):
            if not self.farm:
                yield
                return
            with disk_errors(self._folder):
                self._folder.mkdir(mode=0o700)
                commands.folder.mkdir(parents=True, exist_ok=True)
                for name in LAUNCHERS:
                    write_atomic(self._folder / name, LAUNCHER.format(joined([self._program])).encode(), 0o755)
            self._toolchains = plan.build.parent / f"{plan.target}.toolchains"
            prefix: list[str] = []
            if plan.layout.mapped:
                prefix = root_prefix(plan.build / "root", bindings(plan).items(), Path("/"), network=True)
            self._compiles = CompileServer(self._program, self._folder, commands.folder / "sccache.log", prefix)
            try:
                yield
                self._count(self._compiles)
            finally:
                self._compiles.stop()
                self._compiles = None
                remove(self._folder)

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        if (
            isinstance(step, Command)
            and step.phase.endswith("-build")
            and self._compiles
            and self._started(self._compiles)
        ):
            way = {"SCCACHE_SERVER_UDS": str(self._compiles.socket), "SCCACHE_IGNORE_SERVER_IO_ERROR": "1"}
            self._build(replace(step, env=(*step.env, *way.items())), commands, watch)
        else:
            super().run(step, commands, watch)

    def _build(self, step: Command, commands: Commands, watch: Callable[[str], None]) -> None:
        self._lines = 0

        def line(text: str) -> None:
            self._lines += 1
            watch(text)

        stalled = f"no compiler has finished for {STALL_SECONDS:g} s"
        try:
            with watched(lambda: self._lines or None, STALL_SECONDS, lambda: self._without_workers(stalled)):
                super().run(step, commands, line)
        except StoppedError:
            raise
        except CommandError:
            if self._alone:
                raise
            # A worker may have failed, or lied. If the source is wrong, its compiler here says the same.
            self._without_workers(f"{step.phase} failed")
            super().run(step, commands, watch)

    def _started(self, server: CompileServer) -> bool:
        """Start the server before the first compiler; return whether it runs."""
        if not server.running and not self._alone:
            try:
                server.start(client_config(self.farm, self._toolchains))
            except CommandError as error:
                self._alone = str(error)
                self._note(f"{error}: everything is compiled on this machine")
        return server.running

    def _without_workers(self, why: str) -> None:
        """Replace the server by one that compiles here. Commands that wait for the old one run their compilers themselves."""
        with self._changing:
            if self._alone or not self._compiles:
                return
            self._alone = why
            self._note(f"{why}: the rest is compiled on this machine")
            self._count(self._compiles)
            self._compiles.stop()
            with contextlib.suppress(CommandError):  # sccache without its server runs the compiler
                self._compiles.start(client_config(None, self._toolchains))

    def _count(self, server: CompileServer) -> None:
        if part := server.shares():
            self._parts.append(part)
