"""kz against git itself: applying a stack, and laying out the patched tree. Prints medians and their ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kz_build.core.files import remove
from kz_build.git.environment import local_environment
from kz_build.git.repository import Repository
from kz_build.pins.load import load_project
from kz_build.stack.apply import apply_source
from kz_build.stack.files import stack_sources

ENV = {
    **local_environment(),
    **{f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def in_turn(runs: int, ours: Callable[[], None], theirs: Callable[[], None]) -> tuple[float, float, float]:
    """(median of ours, median of theirs, median of the ratio pair by pair) in seconds, after one uncounted pair."""
    pairs = []
    for _ in range(runs + 1):
        seconds = []
        for run in (ours, theirs):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        pairs.append((seconds[0], seconds[1]))
    pairs = pairs[1:]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def quietly(*argv: str, cwd: Path) -> str:
    return subprocess.run(argv, cwd=cwd, env=ENV, check=True, capture_output=True, text=True).stdout.strip()


def main(root: Path, runs: int) -> None:
    """Measure the default line of a project."""
    project = load_project(root, local=False)
    line = project.pins.default
    name = next(n for n in stack_sources(project, line) if project.pins.source(n).kind == "git")
    tree, path = apply_source(project, line, name)
    repository = Repository(path)
    entries = tuple(
        e for e in repository.entries(tree.tree, project.pins.source(name).list("exclude")) if not e.submodule
    )
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        # The same files as one commit, so that `git worktree add` lays out no more and no less.
        index = {**ENV, "GIT_INDEX_FILE": str(work / "index"), "GIT_DIR": str(path)}
        listing = b"".join(f"{e.mode} {e.id}\t".encode() + os.fsencode(e.path) + b"\0" for e in entries)
        subprocess.run(["git", "update-index", "-z", "--index-info"], input=listing, env=index, check=True)
        slim = subprocess.run(
            ["git", "write-tree", "--missing-ok"], env=index, check=True, capture_output=True, text=True
        ).stdout.strip()
        commit = quietly("git", f"--git-dir={path}", "commit-tree", "-m", "bench", slim, cwd=work)

        def ours() -> None:
            remove(work / "ours")
            repository.checkout(entries, work / "ours")

        def theirs() -> None:
            remove(work / "theirs")
            quietly("git", f"--git-dir={path}", "worktree", "prune", cwd=work)
            quietly("git", f"--git-dir={path}", "worktree", "add", "--detach", str(work / "theirs"), commit, cwd=work)

        a, b, ratio = in_turn(runs, ours, theirs)
        print(f"{name}: {len(entries)} files laid out: {a:.2f} s, git worktree add {b:.2f} s, ratio {ratio:.2f}")
        remove(work / "theirs")
        quietly("git", f"--git-dir={path}", "worktree", "prune", cwd=work)

        kz = (sys.executable, "-m", "kz_build")
        # Bytecode is cached, as it is for users.
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPATH": str(Path(__file__).parents[1])
        }

        def run(*argv: str) -> Callable[[], None]:
            return lambda: void(subprocess.run([*kz, *argv], env=env, check=True, capture_output=True))

        a, b, _ = in_turn(max(runs, 10), run("-C", str(root), "apply", "--line", line), run("--version"))
        print(f"kz apply {1000 * a:.0f} ms, kz --version {1000 * b:.0f} ms: {1000 * (a - b):.0f} ms for the stack")


def void(value: object) -> None:
    """Throw a result away."""


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
