"""The engine against `git apply`, pair by pair, on upstream's history: `nox -s differential`. Minutes, and a network at first.

Every difference is listed; the counts are printed, for whoever wants to quote them.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kz_build.adapters import git, history
from kz_build.adapters.project import load_project
from kz_build.adapters.series import stack_sources
from kz_build.model.errors import ConfigError
from kz_build.model.history import fold
from kz_build.model.mail import parse_patch
from kz_build.model.modes import FOLDER
from kz_build.model.patch import Patch
from kz_build.model.stack import Applied, Blob, apply_patch
from kz_build.stages.carried import Carried, carried, reading
from kz_build.stages.judging import read_blobs
from tests.conftest import ROOT
from tests.gitapply import HEAD, Files, git_apply, reader

pytestmark = pytest.mark.live
TAGS = ("v1.2.0", "v1.3.0", "v1.3.1", "v1.4.0", "v1.4.1")
OMIT = ("*.mp4",)


@dataclass(frozen=True)
class Pair:
    """A patch, as we read it and as git does, on some files."""

    name: str
    patch: Patch
    diff: bytes
    files: Files
    way: tuple[str, ...] = ()

    def difference(self, folder: Path) -> str:
        """'' where git and the engine say and make the same."""
        theirs = git_apply(folder, self.files, self.diff, *self.way)
        patch = self.patch.reverse() if self.way else self.patch
        outcome = apply_patch(patch, lambda path: reader(self.files, path))
        if not isinstance(outcome, Applied):
            return f"git applies it, we do not: {outcome.reason}" if isinstance(theirs, dict) else ""
        if isinstance(theirs, str):
            return f"we apply it, git does not: {theirs}"
        made = {path: blob for path, blob in {**self.files, **outcome.files}.items() if blob}
        return "" if made == theirs else "the results differ"


@pytest.fixture(scope="module")
def held(store: Path) -> Iterator[Callable[[str], Carried]]:
    """The stack on ExecuTorch of a line, with upstream's names in the clone."""
    kept = os.environ.get("KZ_CACHE")
    os.environ["KZ_CACHE"] = str(store)
    project = load_project(ROOT)

    def of(line: str) -> Carried:
        found = reading(project, carried(project, line, "executorch"), None, lambda c: c)
        history.known_or_fetched(found.repository, "main")
        return found

    yield of
    os.environ.pop("KZ_CACHE")
    if kept is not None:
        os.environ["KZ_CACHE"] = kept


def differences(pairs: Iterable[Pair], root: Path) -> tuple[int, list[str]]:
    """How many pairs there were, and each that differs."""

    def tried(pair: Pair) -> str:
        return pair.difference(root / str(threading.get_ident())) and f"{pair.name}: {pair.difference(root / 'again')}"

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(tried, pairs))
    return len(said), [text for text in said if text]


def test_every_touching_commit_and_patch(
    held: Callable[[str], Carried], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each patch of each line, forward and back, on its files as each commit since its pin left them."""
    project = load_project(ROOT)
    for line in project.pins.lines:
        if "executorch" not in stack_sources(load_project(ROOT), line):
            continue
        carried_ = held(line)
        repository, patches = carried_.repository, carried_.stack.patches
        tip = history.commit_of(repository, "main")
        parted = history.merge_base(repository, carried_.base, tip)
        commits = history.log(repository, parted, tip, carried_.stack.touched)
        with repository.objects() as objects:
            start = git.read_ids(objects, [parted], carried_.stack.touched)[0]
            states = fold(start, commits)
            contents = read_blobs(repository, objects, {at[1] for s in states for at in s.values() if at})
        pairs = [
            Pair(f"{patch.name} after {commit.shown}", patch, (ROOT / carried_.stack.folder / patch.name).read_bytes(), files, way)
            for commit, state in zip(commits, states, strict=True)
            for files in [{path: Blob(at[0], contents[at[1]]) for path, at in state.items() if at}]
            for patch in patches
            for way in ((), ("-R",))
        ]  # fmt: skip
        count, found = differences(pairs, tmp_path)
        with capsys.disabled():
            print(
                f"\n{line}: {len(commits)} commits x {len(patches)} patches, both ways: {count} pairs, {len(found)} differ"
            )
        assert count and not found, "\n".join(found)


def test_upstreams_own_diffs(
    held: Callable[[str], Carried], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each commit's diff of each file, on that file at five tags."""
    project = load_project(ROOT)
    line = next(line for line in project.pins.lines if project.pins.line(line).get("executorch") == TAGS[0])
    repository = held(line).repository
    tip = history.commit_of(repository, "main")
    parted = history.merge_base(repository, history.commit_of(repository, TAGS[0]), tip)
    omitted = [*OMIT, *project.pins.source("executorch").list("exclude")]
    diffs, left = _diffs(repository, parted, tip, omitted)
    paths = sorted({patch.files[0].path for _, patch, _ in diffs})
    with repository.objects() as objects:
        states = git.read_ids(objects, [history.commit_of(repository, tag) for tag in TAGS], paths)
        wanted = {at[1] for state in states for path, at in state.items() if at and not git.excluded(path, omitted)}
        contents = read_blobs(repository, objects, wanted)
    counts: Counter[str] = Counter(asked=0)

    def pairs() -> Iterator[Pair]:
        for commit, patch, diff in diffs:
            path = patch.files[0].path
            seen = set()
            for tag, state in zip(TAGS, states, strict=True):
                counts["asked"] += 1
                if state[path] in seen or state[path] == git.NO_ROOM:
                    continue
                seen.add(state[path])
                yield Pair(f"{commit[:10]} {path} at {tag}", patch, diff, _files(path, state[path], contents))

    ran, found = differences(pairs(), tmp_path)
    with capsys.disabled():
        print(
            f"\n{len(diffs)} diffs x {len(TAGS)} tags: {counts['asked']} pairs, {ran} of them distinct, {len(found)} differ; left out: {dict(left)}"
        )
    assert ran >= 20_000 and not found, "\n".join(found)


def _files(path: str, at: git.At | None, contents: dict[str, bytes]) -> Files:
    if at is None:
        return {}
    data = contents[at[1]]
    return (
        {f"{path}/{name}": Blob("100644", b"x") for name in data.decode().split("\0")}
        if at[0] == FOLDER
        else {path: Blob(at[0], data)}
    )


def _diffs(
    repository: git.Repository, base: str, tip: str, omitted: list[str]
) -> tuple[list[tuple[str, Patch, bytes]], Counter[str]]:
    """(commit, patch, diff) of each file that each commit changes, and what was left out."""
    words = ["--first-parent", "--diff-merges=first-parent", "--reverse", "--full-index", "--no-renames"]
    names = [f":(exclude,glob){p}**" if p.endswith("/") else f":(exclude,glob)**/{p}" for p in omitted]
    ends = [f"{base}..{tip}", "--", ".", *names]
    rows = re.findall(rb"^:(\d+) (\d+) (\w+) (\w+) ", repository.git("log", *words, "--raw", *ends), re.MULTILINE)
    ids = {oid.decode() for row in rows for mode, oid in (row[::2], row[1::2]) if mode not in (b"160000", b"000000")}
    with repository.objects() as objects:
        read_blobs(repository, objects, ids)  # fetches what is absent
    said = repository.git("log", *words, "-p", "--binary", "--format=%x01%H", *ends)
    found = []
    left: Counter[str] = Counter()
    for part in re.split(rb"^\x01", said, flags=re.MULTILINE)[1:]:
        commit, _, text = part.partition(b"\n")
        for diff in re.split(rb"^(?=diff --git )", text, flags=re.MULTILINE)[1:]:
            try:
                found.append((commit.decode(), parse_patch("p", HEAD + diff), diff))
            except ConfigError as error:
                left[error.problems[0].text] += 1
    return found, left
