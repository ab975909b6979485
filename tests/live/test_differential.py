"""The engine against `git apply`, pair by pair, on upstream's history: `nox -s upstream`. Minutes, and a network at first.

Every difference is listed; the counts are printed, to be quoted.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.core.paths import excluded
from kz_build.git import log as history
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.object_types import FOLDER, Blob
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.change import Patch
from kz_build.patch.mail import parse_patch
from kz_build.pins.load import load_project
from kz_build.stack.files import stack_sources
from kz_build.stack.patch_history import states_after
from kz_build.stack.pinned import PinnedStack, pinned_stack, with_files_fetched
from kz_build.stack.verdict_cache import read_blobs
from tests.conftest import ROOT
from tests.patch.gitapply import HEAD, Files, git_apply, git_apply_all, reader

pytestmark = pytest.mark.upstream
TAGS = ("v1.2.0", "v1.3.0", "v1.3.1", "v1.4.0", "v1.4.1")
OMIT = ("*.mp4",)
AT_ONCE = 250
"""Pairs for one process of git: alone each costs as much as a hundred comparisons."""
APPLIES, REFUSED = "applies", "refused"
WAYS: tuple[tuple[str, ...], ...] = ((), ("-R",))


@dataclass(frozen=True)
class Pair:
    """A patch, as we read it and as git does, on some files."""

    name: str
    patch: Patch
    diff: bytes
    files: Files
    way: tuple[str, ...] = ()

    def difference(self, folder: Path, theirs: Files | str | None = None) -> str:
        """What git and the engine say alike, APPLIES or REFUSED, else how they differ. `theirs` is git's result, if it is known."""
        if theirs is None:
            theirs = git_apply(folder, self.files, self.diff, *self.way)
        patch = self.patch.reverse() if self.way else self.patch
        outcome = apply_patch(patch, lambda path: reader(self.files, path))
        if not isinstance(outcome, Applied):
            return f"git applies it, we do not: {outcome.reason}" if isinstance(theirs, dict) else REFUSED
        if isinstance(theirs, str):
            return f"we apply it, git does not: {theirs}"
        made = {path: blob for path, blob in {**self.files, **outcome.files}.items() if blob}
        if self.way:  # git also takes back a mode that the patch only mentions
            made, theirs = ({path: Blob("", blob.data) for path, blob in side.items()} for side in (made, theirs))
        return APPLIES if made == theirs else "the results differ"


@pytest.fixture(scope="module")
def held(store: Path) -> Iterator[Callable[[str], PinnedStack]]:
    """The stack on ExecuTorch of a line, with upstream's names in the clone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KZ_CACHE", str(store))
        project = load_project(ROOT)

        def of(line: str) -> PinnedStack:
            found = with_files_fetched(project, pinned_stack(project, line, "executorch"), lambda c: c)
            refs.resolve_revision(found.repository, "main")
            return found

        yield of


def compared(pairs: Iterable[Pair], root: Path) -> tuple[str, list[str]]:
    """How many pairs went how, in words, and each that differs."""

    def said(part: Sequence[Pair]) -> list[tuple[str, str]]:
        folder = root / str(threading.get_ident())
        rows = []
        for pair, theirs in zip(
            part, git_apply_all(folder, [(p.files, p.diff) for p in part], *part[0].way), strict=True
        ):
            text = pair.difference(folder, theirs)
            rows.append((pair.name, text if text in (APPLIES, REFUSED) else pair.difference(folder)))
        return rows

    parts = [alike[at : at + AT_ONCE] for alike in _by_way(pairs) for at in range(0, len(alike), AT_ONCE)]
    with ThreadPoolExecutor(2) as pool:
        rows = [row for part in pool.map(said, parts) for row in part]
    counts = Counter(text for _, text in rows)
    differ = [f"{name}: {text}" for name, text in rows if text not in (APPLIES, REFUSED)]
    assert counts[APPLIES] and counts[REFUSED], "one kind never came up"
    return f"{len(rows)} pairs, {counts[APPLIES]} apply, {counts[REFUSED]} do not, {len(differ)} differ", differ


def _by_way(pairs: Iterable[Pair]) -> list[list[Pair]]:
    pairs = list(pairs)
    return [[pair for pair in pairs if pair.way == way] for way in WAYS]


def test_every_touching_commit_and_patch(
    held: Callable[[str], PinnedStack], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each patch of each line, forward and back, on its files as each commit since its pin left them."""
    project = load_project(ROOT)
    for line in project.pins.lines:
        if "executorch" not in stack_sources(load_project(ROOT), line):
            continue
        carried_ = held(line)
        repository, patches = carried_.repository, carried_.stack.patches
        tip = refs.commit_of(repository, "main")
        parted = history.merge_base(repository, carried_.base, tip)
        commits = history.log(repository, parted, tip, carried_.stack.touched)
        with repository.objects() as objects:
            start = trees.read_ids(objects, [parted], carried_.stack.touched)[0]
            states = states_after(start, commits)
            contents = read_blobs(repository, objects, {at[1] for s in states for at in s.values() if at})
        pairs = []
        for commit, state in zip(commits, states, strict=True):
            files = {path: Blob(at[0], contents[at[1]]) for path, at in state.items() if at}
            for patch in patches:
                data = (ROOT / carried_.stack.folder / patch.name).read_bytes()
                pairs += [Pair(f"{patch.name} after {commit.shown}", patch, data, files, way) for way in WAYS]
                outcome = apply_patch(patch, files.get)
                if isinstance(outcome, Applied):  # the next stands on it
                    files = {path: blob for path, blob in {**files, **outcome.files}.items() if blob}
        said, differ = compared(pairs, tmp_path)
        with capsys.disabled():
            print(f"\n{line}: {len(commits)} commits x {len(patches)} patches, forward and back: {said}")
        assert not differ, "\n".join(differ)


def test_upstreams_own_diffs(
    held: Callable[[str], PinnedStack], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each commit's diff of each file, on that file at five tags."""
    project = load_project(ROOT)
    line = next(line for line in project.pins.lines if project.pins.line(line).get("executorch") == TAGS[0])
    repository = held(line).repository
    tip = refs.commit_of(repository, "main")
    parted = history.merge_base(repository, refs.commit_of(repository, TAGS[0]), tip)
    omitted = [*OMIT, *project.pins.source("executorch").list("exclude")]
    diffs, left = _diffs(repository, parted, tip, omitted)
    paths = sorted({patch.files[0].path for _, patch, _ in diffs})
    with repository.objects() as objects:
        states = trees.read_ids(objects, [refs.commit_of(repository, tag) for tag in TAGS], paths)
        wanted = {at[1] for state in states for path, at in state.items() if at and not excluded(path, omitted)}
        contents = read_blobs(repository, objects, wanted)
    pairs = []
    for commit, patch, diff in diffs:
        path = patch.files[0].path
        tried = set()
        for tag, state in zip(TAGS, states, strict=True):
            if state[path] not in tried and state[path] != trees.NO_ROOM:
                tried.add(state[path])
                files = _files(path, state[path], contents)
                pairs += [Pair(f"{commit[:10]} {path} at {tag}", patch, diff, files, way) for way in WAYS]
    said, differ = compared(pairs, tmp_path)
    with capsys.disabled():
        print(
            f"\n{len(diffs)} diffs x {len(TAGS)} tags = {len(diffs) * len(TAGS)}; each distinct one, forward and back: {said}"
        )
        print(f"left out: {dict(left)}")
    assert len(pairs) >= 20_000 and not differ, "\n".join(differ)


def _files(path: str, at: trees.At | None, contents: dict[str, bytes]) -> Files:
    if at is None:
        return {}
    data = contents[at[1]]
    if at[0] == FOLDER:
        return {f"{path}/{name}": Blob("100644", b"x") for name in data.decode().split("\0")}
    return {path: Blob(at[0], data)}


def _diffs(
    repository: git.Repository, base: str, tip: str, omitted: list[str]
) -> tuple[list[tuple[str, Patch, bytes]], Counter[str]]:
    """(commit, patch, diff) of each file that each commit changes, and what was left out."""
    words = ["--first-parent", "--diff-merges=first-parent", "--reverse", "--full-index", "--no-abbrev", "--no-renames"]
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
