"""A small upstream with pull requests, in real git, and a kz project that carries patches on it."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz
from tests.stack.test_git_tools import sh

URL = "https://github.com/up/stream"
FORM = ("--zero-commit", "--no-signature", "--no-stat", "--full-index", "--no-renames", "--no-numbered")
CONFIG = """[uploadpack]
	allowFilter = true
	allowAnySHA1InWant = true
[core]
	logAllRefUpdates = false
[maintenance]
	auto = false
"""
"""Of an upstream's repository, written at once: each process of git costs more than all that it does here."""
Files = Mapping[str, "str | None"]


def text(lines: int = 20) -> str:
    """`line 1` … `line 20`."""
    return "".join(f"line {n}\n" for n in range(1, lines + 1))


def put(old: str, at: int, *new: str) -> str:
    """The text with line `at` (from 1) replaced by these lines; by none, it is deleted."""
    lines = old.splitlines(keepends=True)
    lines[at - 1 : at] = [f"{line}\n" for line in new]
    return "".join(lines)


def before(old: str, at: int, *new: str) -> str:
    """The text with lines put before line `at`."""
    return put(old, at, *new, old.splitlines()[at - 1])


@dataclass
class Upstream:
    """A git repository that serves filters as forges do. Commit N is of day N of 2026."""

    folder: Path
    day: int = 0
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=")
        with (self.folder / ".git/config").open("a") as config:
            config.write(CONFIG)

    def git(self, *words: str) -> str:
        date = f"2026-{self.day // 28 + 1:02d}-{self.day % 28 + 1:02d}T12:00:00Z"
        return sh("git", *words, cwd=self.folder, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)

    def commit(self, subject: str, files: Files, tag: str = "") -> str:
        """Commit files (None: without the file) where HEAD is; gives the commit's id."""
        for path, content in files.items():
            place = self.folder / path
            if content is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        self.day += 1
        self.commits.append(self.head())
        if tag:
            place = self.folder / ".git/refs/tags" / tag
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{self.commits[-1]}\n")
        return self.commits[-1]

    def head(self) -> str:
        """The commit of HEAD, which was made a moment ago, so that it is in a file."""
        said = (self.folder / ".git/HEAD").read_text().strip()
        return said if not said.startswith("ref: ") else (self.folder / ".git" / said[5:]).read_text().strip()

    def pull(self, number: int, files: Files, base: str = "main", subject: str = "") -> str:
        """Open a pull request from `base`; gives its head."""
        self.git("checkout", "-q", "--detach", base)
        head = self.commit(subject or f"Change {number}", files)
        self.git("update-ref", f"refs/pull/{number}/head", head)
        self.git("checkout", "-q", "main")
        return head


@dataclass
class Project:
    """A project with one line `l` on one source `up`, and a store of its own."""

    root: Path
    upstream: Upstream
    run: Kz

    def kz(self, verb: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a verb; upstream's address is redirected as a mirror is."""
        git = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{self.upstream.folder}.insteadOf",
            "GIT_CONFIG_VALUE_0": URL,
            "KZ_CACHE": str(self.root.parent / "store"),
        }
        return self.run("-C", self.root, verb, *argv, **{**git, **env})

    def json(self, verb: str, *argv: str, code: int = 0, **env: Any) -> Any:
        """What a verb prints as JSON, when it ends with this code."""
        done = self.kz(verb, *argv, "--json", **env)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


def project(
    tmp_path: Path, run: Kz, upstream: Upstream, patches: Sequence[tuple[str, Files]], checks: str = "", pin: str = "v1"
) -> Project:
    """A project whose stack is these commits (subject, files) on the pin, locked."""
    root = tmp_path / "project"
    stack = root / "patches" / "l" / "up"
    upstream.git("checkout", "-q", "--detach", pin)
    day = upstream.day
    for subject, files in patches:
        upstream.commit(subject, files)
    upstream.git("format-patch", "-q", *FORM, "-o", str(stack), f"{pin}..HEAD")
    upstream.git("checkout", "-q", "main")
    upstream.git("prune", "--expire=now")  # a real upstream has none of our objects
    upstream.day = day
    (stack / "series").write_text("".join(f"{p.name}\n" for p in sorted(stack.glob("*.patch"))))
    if checks:
        (stack / "checks.yaml").write_text(checks)
    (root / "pins.yaml").write_text(
        f"version: 1\ndefault: l\nsources:\n  up: {{git: {URL}}}\nlines:\n  l: {{up: {pin}}}\n"
        "targets:\n  t: {platform: linux, abi: arm64, sources: [up], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}\n"
    )
    made = Project(root, upstream, run)
    done = made.kz("lock", "--write")
    assert done.returncode == 0, done.stderr
    return made


def started(tmp_path: Path, names: Sequence[str] = ("a.txt", "b.txt")) -> Upstream:
    """An upstream whose v1 has files of twenty lines."""
    upstream = Upstream(tmp_path / "up")
    upstream.commit("Start", {**{name: text() for name in names}, "other.txt": "other\n"}, tag="v1")
    return upstream


def copied(make: Callable[[Path, Kz], Project]) -> Callable[..., Project]:
    """A fixture that makes a project once, and gives each test a copy of it with its upstream and its store."""
    made: list[tuple[Path, Project]] = []

    @pytest.fixture
    def fixture(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, kz: Kz) -> Project:
        if not made:
            folder = tmp_path_factory.mktemp("made")
            made.append((folder, make(folder, kz)))
        folder, first = made[0]
        subprocess.run(["cp", "-a", f"{folder}/.", str(tmp_path)], check=True)
        mine = copy.deepcopy(first)
        mine.root, mine.run = tmp_path / "project", kz
        mine.upstream.folder = tmp_path / "up"
        return mine

    return fixture
