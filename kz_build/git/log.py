"""Upstream's history from git: commits that touch a path, tags that contain a commit, merges, renames."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kz_build.core.process import answered, checked_parallel, run
from kz_build.git.environment import local_environment
from kz_build.git.object_types import Commit, cut_subject, output_lines
from kz_build.git.refs import LIST, parse_refs
from kz_build.git.repository import Repository


def merge_bases(repository: Repository, tip: str, heads: Sequence[str]) -> dict[str, str]:
    """Return where each head parted from `tip`'s history, all from one walk; a head with nothing in common is left out."""
    output = repository.git(
        "rev-list", "--parents", "--stdin", stdin="".join(f"{h}\n" for h in (*heads, f"^{tip}")).encode()
    )
    parents = {words[0]: words[1:] for words in (line.split(" ") for line in output_lines(output))}
    # Children before parents: the first of several in this order is no ancestor of the others.
    order = repository.git("rev-list", "--topo-order", "--end-of-options", tip).decode().split()
    place = {commit: i for i, commit in enumerate(order)}
    bases = {}
    for head in heads:
        outside, remaining, seen = set(), [head], set()
        while remaining:
            commit = remaining.pop()
            if commit not in parents:
                outside.add(commit)
            elif commit not in seen:
                seen.add(commit)
                remaining += parents[commit]
        if outside:
            bases[head] = min(outside, key=lambda commit: place[commit])
    return bases


def merge_base(repository: Repository, a: str, b: str) -> str:
    """Return where two commits parted, '' if they have nothing in common."""
    argv = repository.argv("merge-base", "--end-of-options", a, b)
    done = answered(argv, run(argv, env=local_environment()))
    return done.stdout.decode().split("\n", 1)[0]


def cut_history(repository: Repository) -> str:
    """Return the hint for commits that have nothing in common because upstream is a shallow clone, '' if it is none."""
    if not (repository.path / "shallow").exists():
        return ""
    return (
        f"upstream gave a part of its history: if {repository.url} is a shallow clone, git fetch --unshallow there,"
        f" then rm -rf {shlex.quote(str(repository.path))}"
    )


def fork_point(repository: Repository, head: str, tip: str) -> str:
    """Return the commit that a branch started at, even if it was merged into `tip` since; '' if they have nothing in common."""
    base = merge_base(repository, head, tip)
    if base != head:
        return base
    words = ("--first-parent", "--ancestry-path", "--end-of-options", f"{head}..{tip}")
    merges = repository.git("rev-list", *words).decode().split()
    return merge_base(repository, head, f"{merges[-1]}^1") if merges else base


def landed(repository: Repository, tip: str, numbers: Collection[int]) -> dict[int, Commit]:
    """Return pull request -> the newest commit of tip's history whose subject ends with its number."""
    if not numbers:
        return {}
    output = repository.git(
        "log",
        "--first-parent",
        "--extended-regexp",
        f"--grep=\\(#({'|'.join(map(str, sorted(numbers)))})\\)",
        "--format=%H%x00%cI%x00%s",
        "--end-of-options",
        tip,
    )
    rows = (row.split("\0", 2) for row in output_lines(output))
    commits = [Commit(oid, date, cut_subject(subject)) for oid, date, subject in rows]
    return {c.pull: c for c in reversed(commits) if c.pull in numbers}


def with_subject(repository: Repository, base: str, tip: str, subject: str, paths: Iterable[str]) -> str:
    """Return the last commit of base..tip that touches one of these paths and has a subject as a line of its message.

    There GitHub writes the subjects of what it merges or squashes, with the number of the pull request. '' for none, and for
    a subject of one or two words, which many commits have.
    """
    wanted = _plain_subject(subject)
    if len(wanted.split()) < 3:
        return ""
    words = (
        "log",
        "-z",
        "--fixed-strings",
        f"--grep={wanted}",
        "--format=%H%n%B",
        "--end-of-options",
        f"{base}..{tip}",
    )
    for row in repository.git(*words, "--", *_specs(paths)).decode("utf-8", "replace").split("\0"):
        commit, *lines = row.split("\n")
        if wanted in map(_plain_subject, lines):
            return commit
    return ""


def _plain_subject(line: str) -> str:
    """Return a subject without `[PATCH]`, the `*` of a squashed commit, and the number of its pull request."""
    return re.sub(r"^\s*(?:\[[^]]*\] *|[*-] +)?|\s*(?:\(#\d+\))?\s*$", "", line)


def shown(repository: Repository, commit: str) -> str:
    """Return a commit as `id date subject`."""
    output = repository.git("log", "-1", "--format=%H%x00%cI%x00%s", "--end-of-options", commit)
    oid, date, subject = output.decode("utf-8", "replace").strip().split("\0", 2)
    return Commit(oid, date, cut_subject(subject)).shown


def log(
    repository: Repository, base: str, tip: str, paths: Iterable[str], *, whole: bool = False
) -> tuple[Commit, ...]:
    """Return the commits of base..tip (all of tip's if base is '') along first parents that touch a path, or without a path all of
    them, oldest first.

    Each has its changes to these paths, or to all files if `whole`.
    """
    words = (*_LOG, "--full-diff") if whole else _LOG
    span = f"{base}..{tip}" if base else tip
    return _commits(repository.git(*words, "--end-of-options", span, "--", *_specs(paths)))


class Walk(NamedTuple):
    """base..tip along first parents: the number of commits, those that touch the paths, and the releases above."""

    total: int
    commits: tuple[Commit, ...]
    above: bytes
    tags: bytes

    def first_tags(self, commits: Collection[str]) -> dict[str, str]:
        """Return the first release that contains each commit: the lowest version without a suffix like -rc1, or with one
        if there is no other; '' if none has it."""
        return _first_tags(self.above, self.tags, commits)


def walk(repository: Repository, base: str, tip: str, paths: Iterable[str]) -> Walk:
    """Run all of a history's questions to git at the same time."""
    span = f"{base}..{tip}"
    count = repository.argv("rev-list", "--count", "--first-parent", "--end-of-options", span)
    specs = _specs(paths) or [":(top,exclude)*"]  # without a path, git lists every commit
    words = [*_above(repository, base), count, repository.argv(*_LOG, "--end-of-options", span, "--", *specs)]
    above, tags, total, log_output = checked_parallel(words, env=local_environment())
    return Walk(int(total), _commits(log_output), above, tags)


def first_tags(repository: Repository, commits: Collection[str], since: str) -> dict[str, str]:
    """Return the same as Walk's; `since` is a revision that contains none of the commits."""
    above, tags = checked_parallel(_above(repository, since), env=local_environment())
    return _first_tags(above, tags, commits)


_LOG = (
    "log",
    "--first-parent",
    "--reverse",
    "--diff-merges=first-parent",
    "--raw",
    "--no-abbrev",
    "--no-renames",
    "-z",
    "--format=%x01%H%x00%cI%x00%s%x00",
)


def _specs(paths: Iterable[str]) -> list[str]:
    return [f":(literal){path}" for path in sorted(paths)]


def _commits(output: bytes) -> tuple[Commit, ...]:
    commits: list[tuple[str, str, str, list[tuple[str, str, str, str]]]] = []
    fields = iter(output.split(b"\0"))
    for field in fields:
        if field.startswith(b"\1"):  # subjects and paths may contain it, too: they are known by their place
            commits.append((field[1:].decode(), next(fields).decode(), next(fields).decode("utf-8", "replace"), []))
        elif facts := field.strip(b"\n").decode():
            _, mode, before, after, _ = facts.split(" ")
            commits[-1][3].append((os.fsdecode(next(fields)), mode, before, after))
    return tuple(
        Commit(commit, date, cut_subject(subject), tuple(changes)) for commit, date, subject, changes in commits
    )


def _above(repository: Repository, since: str) -> list[list[str]]:
    """Commands for every commit that a tag has and `since` lacks, with its parents; then the tags in git's order of versions."""
    return [
        repository.argv(
            "rev-list", "--topo-order", "--parents", "--exclude=*/*", "--tags", "--end-of-options", f"^{since}"
        ),
        repository.argv(*LIST, "refs/tags/*"),
    ]


def _first_tags(above: bytes, tags: bytes, commits: Collection[str]) -> dict[str, str]:
    holds: dict[str, frozenset[str]] = {}
    for row in reversed(output_lines(above)):
        commit, *parents = row.split(" ")
        own = frozenset((commit,) if commit in commits else ())
        holds[commit] = own.union(*(holds.get(parent, own) for parent in parents))
    named = [(ref.removeprefix("refs/tags/"), at) for ref, at in parse_refs(tags).items()]
    named.sort(key=lambda tag: "-" in tag[0])  # the order of versions stays; those with a suffix come after the others
    return {commit: next((tag for tag, at in named if commit in holds.get(at, ())), "") for commit in commits}


def renamed(repository: Repository, base: str, tip: str, path: str) -> tuple[Commit, str] | None:
    """Return the commit between base and tip that removed a path, and where the file went ('' if it was deleted).

    Renames of renames are followed. None if no commit on the way did it.
    """
    last: tuple[Commit, str] | None = None
    for _ in range(10):
        commits = [
            commit
            for commit in log(repository, base, tip, [path], whole=True)
            if any(name == path and not after.strip("0") for name, _, _, after in commit.changes)
        ]
        if not commits:
            return last
        commit = commits[-1]
        new_path = _new_path(repository, commit, path)
        last = (commit, new_path)
        if not new_path:
            return last
        base, path = commit.id, new_path
    return last


def _new_path(repository: Repository, commit: Commit, path: str) -> str:
    """Return where a commit moved a file to, by git's own measure of similarity."""
    old = next(before for name, _, before, _ in commit.changes if name == path)
    added = [
        (name, after)
        for name, _, before, after in commit.changes
        if not before.strip("0") and Path(name).suffix == Path(path).suffix
    ]
    exact = next((name for name, oid in added if oid == old), "")
    if exact or not added:
        return exact
    repository.fetch_blobs({old, *(oid for _, oid in added)})
    names = [f":(literal){name}" for name in (path, *(name for name, _ in added))]
    words = ("-r", "-z", "-M", "--name-status", "--end-of-options", f"{commit.id}^1", commit.id, "--")
    fields = repository.git("diff-tree", *words, *names).split(b"\0")
    for at, field in enumerate(fields):
        if field.startswith(b"R") and os.fsdecode(fields[at + 1]) == path:
            return os.fsdecode(fields[at + 2])
    return ""
