"""The files of one verb: a prepared state, a copy of it for each point, and what is compared of it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import git_server
from tests.faults.strace import normal
from tests.kz import ROOT
from tests.stack.upstreams import URL

_OF_RUNS = ("out/log/", "/.git/logs/", "/.git/objects/", "/.git/refs/kz/kept/", "/.git/fast_import_crash_", ".pte.runs")
"""Parts of names of files that hold when something ran, or how often: logs, git's reflogs, commits that git makes with the
time of day as their committer's (what was committed is compared in the patches), git's crash reports (which must be gone after
`kz store gc`), the count of the exporter of tests/export."""
COMPARED = ("pins.yaml", "pins.lock", "pins.local.yaml", "patches/", "dist/", "recipes/", "out/")
_CONTENT = re.compile(
    r"(store/git/[^/]+|project/out/.*/\.git)/(objects/([0-9a-f]{2}(/[0-9a-f]{38})?|pack/(pack-|multi-pack-)[^/]*)|refs/.*(?<!\.lock))"
    r"|store/git/[^/]+/kz-names-incomplete|store/unpacked(/[0-9a-f]{64}.*)?|store/seals/unpacked-[^/]*|store/locks/[^/]*\.lock"
)
"""Git's objects, the tags that it may fetch with them, unpacked archives, locks: which there are depends on the way something came.
So does the mark of upstream's names: it stays until a verb needs all of them."""
_SECONDS = re.compile(rb'"[^"\n]+": [0-9]+\.[0-9]+')
"""A duration in a record: that of a verb, and those of its phases."""
Files = dict[str, "bytes | str"]


@dataclass
class World:
    """`state` is what a verb may change: project, store, temporary folder, home. It is always at the same path."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("project", "store", "tmp", "home"):
            (self.state / name).mkdir(parents=True)

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def project(self) -> Path:
        return self.state / "project"

    def keep(self) -> None:
        """Make the state as it is now the one that every point starts from."""
        shutil.copytree(self.state, self.root / "prepared", symlinks=True)

    def restore(self) -> None:
        """Put back the prepared state."""
        remove(self.state)
        subprocess.run(["cp", "-a", self.root / "prepared", self.state], check=True)

    def files(self) -> Files:
        """What a person has of the project after a command: every file but those of single runs."""
        result: Files = {}
        for path in sorted(self.project.rglob("*")):
            name = path.relative_to(self.project).as_posix()
            if name.startswith(COMPARED) and not any(part in name for part in _OF_RUNS):
                if path.is_symlink():
                    result[name] = os.readlink(path)
                elif path.is_file():
                    result[name] = (
                        _SECONDS.sub(b"", path.read_bytes()) if name.startswith("out/") else path.read_bytes()
                    )
        return result

    def grow_older(self) -> None:
        """Let an hour pass: what has just been written may be another process's."""
        then = time.time() - 3600
        for path in self.state.rglob("*"):
            os.utime(path, (then, then), follow_symlinks=False)

    def names(self) -> set[str]:
        """The names of all files and folders, but for other programs' caches, without what differs from run to run."""
        found = (path.relative_to(self.state).as_posix() for path in self.state.rglob("*"))
        return {normal(name) for name in found if not _CONTENT.fullmatch(name) and not name.startswith("home/")}


Prepared = tuple[World, list[str], Callable[[], str]]
"""A prepared world, the verb's words, and a function that says what the verb leaves outside of the project."""
Case = Callable[[Path], "contextlib.AbstractContextManager[Prepared]"]


def environment(root: Path) -> dict[str, str]:
    """The environment of every command: a home, a store and a temporary folder of this world; upstream is beside them."""
    state = root / "state"
    kept = {name: os.environ[name] for name in ("PATH", "USER", "LOGNAME") if name in os.environ}
    return {
        **kept,
        "HOME": str(state / "home"),
        "TMPDIR": str(state / "tmp"),
        "KZ_CACHE": str(state / "store"),
        "KZ_CONFIG": str(state / "home" / "config"),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{git_server.address(root / 'up')}.insteadOf",
        "GIT_CONFIG_VALUE_0": URL,
    }


def remove(folder: Path) -> None:
    """Delete a folder, read-only files and all."""
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=True)
    subprocess.run(["rm", "-rf", folder], check=True)
