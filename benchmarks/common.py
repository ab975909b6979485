"""What the benchmarks share: contenders in turn, a project to try things in, a full clone for the peers, tables."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.env import cache_root, networked
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.patch.apply import Stack
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.stack.files import read_files, stack_sources
from kz_build.stack.parse import parse_stack

ENV = {
    **networked(),
    **{f"GIT_{who}_{what}": "bench@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
KZ = (sys.executable, "-m", "kz_build")


def in_turn(runs: int, **contenders: Callable[[], object]) -> dict[str, list[float]]:
    """Seconds of each contender, one after the other in every round, after one uncounted round: a busy machine is busy for all."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: all_of[1:] for name, all_of in seconds.items()}


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Median of how many times longer theirs took, round by round."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def beyond(ours: Sequence[float], start: Sequence[float]) -> float:
    """Median milliseconds of ours beyond `kz --version` of the same round."""
    return 1000 * statistics.median(a - b for a, b in zip(ours, start, strict=True))


def ms(seconds: Sequence[float]) -> str:
    """Median in milliseconds."""
    return f"{1000 * statistics.median(seconds):,.0f}"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    print(f"\n{title}\n")
    for row in (list(head), ["-" * width for width in widths], *cells):
        print("| " + " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) + " |", flush=True)


def git_at(where: Path, *words: str, check: bool = True) -> str:
    """Run git in a folder; gives what it said."""
    done = subprocess.run(["git", *words], cwd=where, env=ENV, check=check, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass(frozen=True)
class Trial:
    """A project of its own with a stack on a git source, and a store of its own over the clones of the real one."""

    root: Path
    store: Path
    line: str
    name: str
    repository: git.Repository
    base: str

    def kz(self, *words: str) -> str:
        """Run kz; 4 (a patch does not hold) is an answer too. Bytecode is cached, as it is for users."""
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "KZ_CACHE": str(self.store)}
        done = subprocess.run([*KZ, "-C", str(self.root), *words], env=env, capture_output=True, text=True)
        if done.returncode not in (0, 4):
            raise SystemExit(f"kz {' '.join(words)} ended with {done.returncode}\n{done.stderr}")
        return done.stdout

    def forget(self) -> None:
        """Forget all verdicts; blobs and validated pins stay."""
        for folder in ("verdicts", "radar"):
            shutil.rmtree(self.store / folder, ignore_errors=True)

    def stack(self) -> Stack:
        """The stack as it is in the trial's project."""
        files = read_files(self.root, self.line, self.name, f"patches/{self.line}/{self.name}")
        assert files is not None
        return parse_stack(files)

    @property
    def patches(self) -> Path:
        """The stack's folder."""
        return self.root / "patches" / self.line / self.name

    def commit(self, name: str) -> str:
        """Commit of a name, from upstream where the clone has never heard of it."""
        return refs.resolve_revision(self.repository, name)


def trial(project: Project, work: Path) -> Trial:
    """Copy the default line's stack on a git source, and nothing else, into a project below `work`."""
    line = project.pins.default
    name = next(n for n in stack_sources(project, line) if project.pins.source(n).kind == "git")
    root, store = work / "project", work / "store"
    shutil.copytree(project.root / "patches" / line / name, root / "patches" / line / name)
    for file in ("pins.yaml", "pins.lock"):
        shutil.copy(project.root / file, root)
    store.mkdir()
    real = cache_root()
    (real / "git").mkdir(parents=True, exist_ok=True)
    (store / "git").symlink_to(real / "git")
    path = git.repository_path(real, name, project.git_url(project.pins.source(name)))
    base = str(project.locked(line, name)["commit"])
    made = Trial(root, store, line, name, git.Repository(path), base)
    made.kz("verify", "--onto", project.pins.line(line)[name])  # clones where nobody did
    return made


def peers_clone(project: Project, found: Trial) -> Path:
    """A clone of upstream for the peers, made once, beside the store. What it lacks comes in the uncounted round."""
    url = project.git_url(project.pins.source(found.name))
    made = git.Repository(cache_root() / "bench" / f"{found.name}.git", url=url)
    if not made.exists():
        made.create()
        refs.fetch_names(made)
    return made.path


def checkout(clone: Path, tree: Path, commit: str, exclude: Sequence[str]) -> None:
    """A worktree of a commit, without the files that pins.yaml never downloads."""
    git_at(clone, "worktree", "prune")
    git_at(clone, "worktree", "add", "--quiet", "--detach", "--no-checkout", str(tree), commit)
    git_at(tree, "sparse-checkout", "set", "--no-cone", "/*", *(f"!{pattern}" for pattern in exclude))
    git_at(tree, "checkout", "--quiet", commit)


def arguments(runs: int) -> tuple[Project, int]:
    """(project, rounds) of a command line `[PROJECT] [RUNS]`."""
    words = sys.argv[1:]
    root = Path(words[0]) if words else Path(__file__).parents[1]
    return load_project(root, local=False), int(words[1]) if len(words) > 1 else runs
