"""Engine `host`: build steps on this machine, with its network cut off where the kernel allows."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.build.steps import Ccache, Checkout, Copy, Layout, Plan, Step
from kz_build.core.command_log import Commands
from kz_build.core.env import variable
from kz_build.core.errors import CommandError
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


class HostEngine:
    """Where a build runs: on this machine. DockerEngine has the same methods."""

    name = "host"

    def __init__(self) -> None:
        self._prefix = no_network_prefix()
        self.network = "off" if self._prefix else "on: this kernel allows no `unshare -rn`"

    def layout(self) -> Layout | None:
        """Return the paths that a build works with; None for the folders of this machine."""
        return None

    def compile_cache(self, store: Path) -> Ccache | None:
        """Return the compile cache that builds of a store share there; None if there is none, or KZ_CCACHE=0."""
        program = find("ccache")
        return Ccache(program, store / "ccache") if program and variable("KZ_CCACHE") != "0" else None

    def facts(self) -> dict[str, object]:
        """Return what a record says of it: `engine`, `network` (whether a build could dial out), perhaps `image`."""
        return {"engine": self.name, "network": self.network}

    @contextlib.contextmanager
    def opened(self, plan: Plan, commands: Commands) -> Iterator[None]:
        """Open the place of one build. After success what it staged is in `plan.stage`; in any case none of its processes is left."""
        with disk_errors(plan.build):
            (plan.build / "home").mkdir(parents=True)
        yield

    def run(self, step: Step, commands: Commands, watch: Callable[[str], None]) -> None:
        """Run one step; every line a program prints goes to the log and to `watch`."""
        if isinstance(step, Checkout):
            remove(step.folder)
            repository = Repository(step.repository)
            repository.checkout(repository.entries(step.tree, step.exclude), step.folder)
        elif isinstance(step, Copy):
            with disk_errors(step.to):
                step.to.parent.mkdir(parents=True, exist_ok=True)
                if not step.source.is_file():
                    raise CommandError(
                        f"{step.source} was not made, or is not in its source",
                        hint="does the name in pins.yaml (outputs, prebuilt, lay) still fit upstream?",
                    )
                shutil.copyfile(step.source, step.to)
                os.chmod(step.to, 0o755 if os.access(step.source, os.X_OK) else 0o644)
        else:
            commands.run(step.phase, [*self._prefix, *step.argv], cwd=step.cwd, env=dict(step.env), watch=watch)


if TYPE_CHECKING:
    from kz_build.build.docker_engine import DockerEngine

    Engine = HostEngine | DockerEngine
