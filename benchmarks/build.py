"""kz build from nothing, with ccache after a change to one patch, and with nothing to do. Prints seconds and their ratios.

`python benchmarks/build.py [PROJECT] [--rounds N] [--touch FILE] [--work FOLDER] [options of kz build]`: works in a copy of the
project, over the same store. FILE is the one that the changed patch touches (default: the last C++ file that the stack changes).
FOLDER is kept: the next run in it finds its compile cache filled.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from common import KZ, table

from kz_build.git.repository import Repository
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources

ROOT = Path(__file__).parents[1]
PATCH = "9999-bench.patch"
HEAD = "From: bench <bench@localhost>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: [PATCH] bench\n\n---\n"


class Bench:
    """A copy of a project, and the seconds (wall, CPU) of each contender."""

    def __init__(self, project: Project, root: Path, options: list[str]) -> None:
        self.root, self.options, self.line = root, options, project.pins.default
        for name in ("pins.yaml", "pins.lock", "pins.local.yaml", "patches", *_bundles(project)):
            source = project.root / name
            if (root / name).exists():
                continue
            if source.is_dir():
                shutil.copytree(source, root / name)
            elif source.is_file():
                shutil.copy(source, root / name)
        self.source = next(n for n in stack_sources(project, self.line) if project.pins.source(n).kind == "git")
        self.seconds: dict[str, list[tuple[float, float]]] = {}

    def build(self, name: str, *, fresh: bool = True, **env: str) -> None:
        """Build and note what it took."""
        if fresh:
            shutil.rmtree(self.root / "out" / "build", ignore_errors=True)
        self._timed(name, [*KZ, "-C", str(self.root), "build", *self.options], env)

    def start(self) -> None:
        """kz --version: Python's start, the same for all."""
        self._timed("kz --version", [*KZ, "--version"], {})

    def _timed(self, name: str, argv: list[str], env: dict[str, str]) -> None:
        before, started = _cpu(), time.perf_counter()
        done = subprocess.run(argv, env=_environment(env), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}\n{done.stderr[-3000:]}")
        self.seconds.setdefault(name, []).append((time.perf_counter() - started, _cpu() - before))

    def touch(self, wanted: str) -> str:
        """Give the stack one more patch, or another one in its place: a function that no build has seen before."""
        folder = self.root / "patches" / self.line / self.source
        series = folder / "series"
        series.write_text(series.read_text().replace(f"{PATCH}\n", ""))
        (folder / PATCH).unlink(missing_ok=True)
        self._relock()
        project = load_project(self.root)
        path = wanted or _last_file(project, self.line, self.source)
        tree, repository = apply_source(project, self.line, self.source)
        entry = next(e for e in Repository(repository).entries(tree.tree) if e.path == path)
        with Repository(repository).objects() as objects:
            old = objects.content(entry.id).decode().splitlines(keepends=True)
        number = time.time_ns() % 1_000_000_007
        new = [*old, f'extern "C" __attribute__((used)) int kz_bench() {{ return {number}; }}\n']
        diff = "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))
        (folder / PATCH).write_text(f"{HEAD}diff --git a/{path} b/{path}\n{diff}")
        series.write_text(f"{series.read_text().rstrip()}\n{PATCH}\n")
        self._relock()
        return path

    def _relock(self) -> None:
        """What `kz lock --write` does, without asking any index: the tree that the stack gives now."""
        lock = self.root / "pins.lock"
        argv = [*KZ, "-C", str(self.root), "apply", "--line", self.line]
        done = subprocess.run(argv, env=_environment({}), capture_output=True, text=True)
        if found := re.search(r"has tree (\w+), pins.lock says (\w+)", done.stderr):
            lock.write_text(lock.read_text().replace(found[2], found[1]))
        elif done.returncode:
            raise SystemExit(done.stderr)


def _bundles(project: Project) -> list[str]:
    return [p.name for p in project.root.glob("*.bundle")]


def _last_file(project: Project, line: str, source: str) -> str:
    text = "\n".join(p.read_text() for p in sorted((project.root / "patches" / line / source).glob("*.patch")))
    paths: list[str] = re.findall(r"^\+\+\+ b/(\S+)$", text, re.MULTILINE)
    return [path for path in paths if path.endswith((".cpp", ".cc"))][-1]


def _environment(env: dict[str, str]) -> dict[str, str]:
    # Bytecode is cached, as it is for users.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT), **env}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure one project."""
    parser = argparse.ArgumentParser()
    parser.add_argument("project", nargs="?", type=Path, default=ROOT / "examples" / "sample")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--touch", default="")
    parser.add_argument("--work", type=Path)
    given, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="kz-bench-") as folder:
        bench = Bench(load_project(given.project), (given.work or Path(folder)).absolute(), options)
        bench.build("fill")  # sources, and what a compile cache can hold
        for _ in range(given.rounds):
            touched = bench.touch(given.touch)
            bench.build("warm")
            for _ in range(5):
                bench.build("nothing to do", fresh=False)
                bench.start()
            bench.build("cold", KZ_CCACHE="0")
        cold = [statistics.median(both) for both in zip(*bench.seconds["cold"], strict=True)]
        rows = []
        for name, measured in bench.seconds.items():
            wall, cpu = (statistics.median(both) for both in zip(*measured, strict=True))
            rows.append((name, f"{wall:.2f}", f"{cpu:.2f}", f"{cold[0] / wall:.1f}", f"{cold[1] / cpu:.1f}"))
        head = ("build", "s", "s CPU", "cold is … times longer", "… times more CPU")
        table(
            f"{given.project.name}, one patch changed in {touched}; ccache {shutil.which('ccache') or 'absent'}",
            head,
            rows,
        )


if __name__ == "__main__":
    main()
