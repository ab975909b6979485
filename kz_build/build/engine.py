"""Engine `host`: build steps on this machine, with its network cut off where the kernel allows."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.build.cache_server import CacheBridge, CacheServer, Way
from kz_build.build.steps import MAPPED, Ccache, Checkout, Command, Layout, Plan, Sccache, Step, not_made
from kz_build.core.command_log import Commands
from kz_build.core.env import temporary_root, variable
from kz_build.core.files import disk_errors, remove
from kz_build.core.process import find, require_success, run
from kz_build.git.repository import Repository


def no_network_prefix() -> list[str]:
    """Return the words before a command line that turn its network off; none if this kernel does not allow it.

    Raises CommandError if that cannot be told.
    """
    if not (program := find("unshare")):
        return []
    argv = [program, "-rn", "--", "true"]
    if (output := run(argv)).code == 1:  # unshare was refused; a failure to start `true` is another
        return []
    require_success(argv, output)
    return argv[:-1]


def root_prefix(
    root: Path,
    mounts: Iterable[tuple[Path, Path]],
    cwd: Path,
    server: Mapping[str, object] | None = None,
    *,
    network: bool = False,
) -> list[str]:
    """Return the words before a command line that give it a root directory of its own (mounted_root.py), and no `network`."""
    folders = {"root": str(root), "mounts": [(str(source), str(to)) for to, source in mounts], "cwd": str(cwd)}
    options = {**folders, "server": server} if server else folders
    python = (sys.executable, "-I", "-S", str(Path(__file__).with_name("mounted_root.py")))
    return ["unshare", "-rm" if network else "-rmn", "--", *python, json.dumps(options)]


def bindings(plan: Plan) -> dict[Path, Path]:
    """Return path in the layout of a plan -> path on this machine: outer folders first."""
    result = {plan.layout.tree: plan.tree, plan.layout.build: plan.build}
    for mount in plan.mounts:
        result[mount.to / mount.source.name if mount.source.is_file() else mount.to] = mount.source
    return dict(sorted(result.items()))


def on_disk(plan: Plan, path: Path) -> Path:
    """Return where this machine has a path of a plan's layout."""
    for to, source in reversed(bindings(plan).items()):
        if path.is_relative_to(to):
            return source / path.relative_to(to)
    return path


class HostEngine:
    """Where a build runs: on this machine. DockerEngine has the same methods.

    `unmapped` says why a build cannot have the same paths in any folder, '' if it can.
    """

    name = "host"

    def __init__(self, server: CacheServer | None = None) -> None:
        self._server = server
        self._way: Way | None = None
        self._prefix = no_network_prefix()
        self.network = "off" if self._prefix else "on: this kernel allows no `unshare -rn`"
        self.unmapped = _why_unmapped() if self._prefix else "this kernel allows no `unshare -rn`"
        self._plan: Plan | None = None
        if server and self._prefix:
            self.network = f"off, but for the compile cache at {server.name}" if not self.unmapped else "off"

    def layout(self, cache: Path) -> Layout | None:
        """Return the paths that a build works with, whose `{cache}` is a folder of this machine; None for the folders of
        this machine."""
        if self.unmapped or cache.is_relative_to(MAPPED):
            return None
        return Layout(Path(MAPPED), Path(MAPPED, "out"), cache, sys.executable)

    def compile_cache(self, store: Path) -> Ccache | Sccache | None:
        """Return the compile cache that builds of a store share there; None if there is none, or KZ_CCACHE=0."""
        program = find("ccache")
        return Ccache(program, store / "ccache") if program and variable("KZ_CCACHE") != "0" else None

    def facts(self) -> dict[str, object]:
        """Return what a record says of it: `engine`, `network` (whether a build could dial out), perhaps `image`."""
        paths = f"of this machine: {self.unmapped}" if self.unmapped else MAPPED
        return {"engine": self.name, "network": self.network, "paths": paths}

    @contextlib.contextmanager
    def opened(self, plan: Plan, commands: Commands) -> Iterator[None]:
        """Open the place of one build. After success what it staged is in `plan.stage`; in any case none of its processes is left."""
        with disk_errors(plan.build):
            (plan.build / "home").mkdir(parents=True)
            (plan.build / "root").mkdir()
        self._plan = plan
        if not (self._server and plan.layout.mapped):
            yield
            return
        bridge = CacheBridge(self._server)
        try:
            with bridge.opened() as self._way:
                yield
        finally:
            self._way = None
        if bridge.failure:
            commands.show(f"the compile cache at {self._server.name} was not asked any more: {bridge.failure}")

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        """Run one step; every line a program prints goes to the log and to `watch`."""
        if isinstance(step, Command):
            self._command(step, commands, watch)
        elif isinstance(step, Checkout):
            folder = self._on_disk(step.folder)
            remove(folder)
            repository = Repository(step.repository)
            repository.checkout(repository.entries(step.tree, step.exclude), folder)
        else:
            _copy(self._on_disk(step.source), self._on_disk(step.to))

    def _command(self, step: Command, commands: Commands, watch: Callable[[str], None]) -> None:
        prefix, cwd, env = self._prefix, step.cwd, dict(step.env)
        way = self._way if step.phase.endswith("-build") else None  # no answer of a server decides what CMake finds
        if self._plan and self._plan.layout.mapped:
            cwd = self._plan.build
            prefix = root_prefix(cwd / "root", bindings(self._plan).items(), step.cwd, way and way.options)
        if way:
            env["CCACHE_REMOTE_STORAGE"] = way.storage
        elif self._server and not self._prefix and not self._server.tls and step.phase.endswith("-build"):
            env["CCACHE_REMOTE_STORAGE"] = self._server.storage()
        commands.run(step.phase, step.argv, prefix=prefix, cwd=cwd, env=env, watch=watch)

    def _on_disk(self, path: Path) -> Path:
        return on_disk(self._plan, path) if self._plan else path


def _why_unmapped() -> str:
    """Return why commands cannot have a root directory of their own here, '' if they can."""
    argv = [*root_prefix(temporary_root(), (), Path("/")), "true"]
    output = run(argv)
    errors = output.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if output.code == 0 else f"this kernel allows no `unshare -rm`: {''.join(errors[-1:])}"


def _copy(source: Path, to: Path) -> None:
    with disk_errors(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        if not source.is_file():
            raise not_made(source)
        shutil.copyfile(source, to)
        os.chmod(to, 0o755 if os.access(source, os.X_OK) else 0o644)


if TYPE_CHECKING:
    from kz_build.build.docker_engine import DockerEngine

    Engine = HostEngine | DockerEngine
