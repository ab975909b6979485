"""queue: the open pull requests of one's own repository on its branch as it is now, each alone and every two together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import combinations
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kz_build.core.env import variable
from kz_build.core.errors import CommandError, ConfigError, KzError, LockError, MissingError
from kz_build.core.files import remove
from kz_build.core.github import open_pulls
from kz_build.core.github_types import slug_of
from kz_build.core.process import answered, require_success, run
from kz_build.core.progress import Event
from kz_build.core.rules import bad_id
from kz_build.git.environment import local_environment, upstream_environment
from kz_build.git.machine_errors import require_answer
from kz_build.git.repository import commit_id
from kz_build.nightly.head import Head, blob_of, commit_on, copy_of, head_of, with_blobs
from kz_build.patch.text import cell
from kz_build.pins.load import LOCK, PINS
from kz_build.pins.lock_file import Lock, parse_lock
from kz_build.stack.apply import apply
from kz_build.upstream.verify import verify

if TYPE_CHECKING:
    from kz_build.core.progress import Watch
    from kz_build.pins.project import Project

One = TypeVar("One")
Result = TypeVar("Result")


class Queued(NamedTuple):
    """A pull request (`#12`) or a revision that was named. `relevant`: it changes pins or stacks. `problems` are what it alone
    breaks, in sentences; `unknown` says why it could not be judged."""

    name: str
    title: str
    head: str
    relevant: bool = False
    problems: tuple[str, ...] = ()
    unknown: str = ""


class Pair(NamedTuple):
    """Two that hold alone, and what breaks with both; `unknown` says why that could not be judged."""

    first: str
    second: str
    problems: tuple[str, ...]
    unknown: str = ""


class Queue(NamedTuple):
    """The branch with its own problems, what waits for it, and the pairs that break it together or could not be judged."""

    branch: str
    commit: str
    problems: tuple[str, ...]
    queued: tuple[Queued, ...]
    pairs: tuple[Pair, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing that waits breaks a stack."""
        return not any(one.problems for one in self.queued) and not any(pair.problems for pair in self.pairs)


def queue(project: Project, revisions: Sequence[str], watch: Watch | None = None) -> Queue:
    """Merge each open pull request, or each of these revisions, into HEAD's branch, and apply all stacks; then every two that hold.

    Nothing in the repository changes but objects that no ref names. Raises ConfigError for a revision that is none, MissingError
    without GitHub or if the branch itself cannot be judged, UnreachableError if a pull request's commits cannot be fetched.
    """
    head = head_of(project)
    waiting = _named(head, revisions) if revisions else _pulls(project, head)
    _require_history(head, waiting)
    folder = project.out("queue")
    try:
        own = _problems(head, head.commit, project, watch)
        trials = {one.name: _Trial(head, project, watch, own, one) for one in waiting}
        queued = tuple(_shown(trials.values(), "alone", watch, lambda trial: trial.alone()))
        sound = [trials[one.name] for one in queued if one.relevant and not (one.problems or one.unknown)]
        pairs = tuple(_shown([*combinations(sound, 2)], "every two", watch, lambda two: two[1].after(two[0])))
    finally:
        remove(folder)
    return Queue(head.branch, head.commit, own, queued, tuple(pair for pair in pairs if pair.problems or pair.unknown))


def _require_history(head: Head, waiting: Sequence[Queued]) -> None:
    """Raise ConfigError if a shallow clone lacks the history since something parted from the branch: nothing can be merged then."""
    if head.repository.git("rev-parse", "--is-shallow-repository").strip() != b"true":
        return
    for one in waiting:
        if not _common(head, one):
            raise ConfigError(
                f"this clone is shallow: it lacks the history since {one.name} and {head.branch} parted",
                hint="git fetch --unshallow; in GitHub Actions: fetch-depth: 0 of actions/checkout",
            )


def _common(head: Head, one: Queued) -> bool:
    argv = head.repository.argv("merge-base", commit_id(head.commit), commit_id(one.head))
    done = run(argv, env=local_environment())
    if done.code not in (0, 1):  # 1: there is none
        require_success(argv, done)
    return done.code == 0


def _shown(what: Collection[One], phase: str, watch: Watch | None, do: Callable[[One], Result]) -> Iterator[Result]:
    """Yield what `do` makes of each; `watch` gets how many are done."""
    for number, one in enumerate(what):
        if watch:
            watch(Event(phase, number, len(what)))
        yield do(one)


class _Trial:
    """One that waits, merged into the branch."""

    def __init__(self, head: Head, project: Project, watch: Watch | None, own: tuple[str, ...], one: Queued) -> None:
        self.head, self.project, self.watch, self.own, self.one = head, project, watch, own, one
        self.merged, self.relocked = "", False

    def alone(self) -> Queued:
        """Merge it into the branch and judge the result; one that git cannot merge does not stop the others."""
        try:
            if not _common(self.head, self.one):
                return self.one._replace(relevant=True, problems=(f"there is no merge base with {self.head.branch}",))
            if not self._relevant():
                return self.one
            merge = _merge(self.head, self.head.commit, self.one.head)
            self.merged, self.relocked = commit_on(self.head, merge.tree, "merged", self.one.head), merge.relocked
            return self.one._replace(relevant=True, problems=self._judged(merge))
        except KzError as error:
            problem = _sentence(error)
            own = self.one._replace(relevant=True)
            return own._replace(unknown=problem) if _unanswered(error) else own._replace(problems=(problem,))

    def after(self, other: _Trial) -> Pair:
        """Merge it into the branch with the other one, and judge the result; two that git cannot merge do not stop the others."""
        names = other.one.name, self.one.name
        try:
            merge = _merge(self.head, other.merged, self.one.head)
            merge = merge._replace(relocked=merge.relocked or other.relocked or self.relocked)
            return Pair(*names, self._judged(merge))
        except KzError as error:
            problem = _sentence(error)
            return Pair(*names, (), problem) if _unanswered(error) else Pair(*names, (problem,))

    def _judged(self, merge: _Merge) -> tuple[str, ...]:
        if merge.conflicts:
            return (f"conflict in {', '.join(merge.conflicts)}",)
        problems = _problems(self.head, merge.tree, self.project, self.watch, relocked=merge.relocked)
        return tuple(problem for problem in problems if problem not in self.own)

    def _relevant(self) -> bool:
        words = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--end-of-options")
        span = f"{self.head.commit}...{self.one.head}"
        names = os.fsdecode(self.head.repository.git(*words, span)).split("\0")
        stacks = {
            self.project.stack_folder(line, s) for line in self.project.pins.lines for s in self.project.pins.line(line)
        }
        folders = {PurePosixPath(folder).parts[0] for folder in stacks}
        own = [name.removeprefix(self.head.prefix) for name in names if name.startswith(self.head.prefix)]
        return any(name in (PINS, LOCK) or name.split("/")[0] in folders for name in own)


class _Merge(NamedTuple):
    """A merge: its tree, and the files with conflicts. `relocked`: there was one in pins.lock alone, which a person writes again after
    the merge; in the tree each of its entries is that of the side that changed it."""

    tree: str
    conflicts: tuple[str, ...]
    relocked: bool = False


def _merge(head: Head, base: str, other: str) -> _Merge:
    words = ("merge-tree", "--write-tree", "--no-messages", "-z")
    argv = head.repository.argv(*words, commit_id(base), commit_id(other))
    done = run(argv, env=local_environment())
    if done.code not in (0, 1):  # 1 is a conflict
        require_success(argv, done)
    tree, *rows = os.fsdecode(done.stdout).split("\0")
    stages: dict[str, dict[str, str]] = {}
    for facts, _, name in (row.partition("\t") for row in rows if row):
        _, blob, stage = facts.split(" ")
        stages.setdefault(name, {})[stage] = blob
    lock = head.prefix + LOCK
    if stages.keys() == {lock} and stages[lock].keys() >= {"2", "3"}:  # neither side has removed it
        blobs = (stages[lock].get(stage) for stage in "123")
        texts = [head.repository.git("cat-file", "blob", "--end-of-options", blob) if blob else b"" for blob in blobs]
        return _Merge(with_blobs(head, tree, {lock: blob_of(head, _merged_lock(*texts))}), (), relocked=True)
    names = sorted(stages.keys() - {lock}) or sorted(stages)
    if done.code and not names:  # git knows conflicts of folders alone
        names = ["folders that one side has split"]
    return _Merge(tree, tuple(names))


def _merged_lock(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return a lock with each entry of the side that moved its pin, else of the one that changed it."""
    try:
        sides = [parse_lock(data, LOCK).lines if data else {} for data in (base, ours, theirs)]
    except LockError:
        return theirs  # what the branch has may be what it repairs
    places = {(line, source) for lines in sides for line in lines for source in lines[line]}
    merged: dict[str, dict[str, Any]] = {}
    for line, source in places:
        was, *entries = (lines.get(line, {}).get(source) or {} for lines in sides)
        moved = [entry for entry in entries if entry.get("version") != was.get("version")]
        changed = [entry for entry in entries if {**entry, "patched": ""} != {**was, "patched": ""}]
        if entry := (moved or changed or entries)[0]:
            merged.setdefault(line, {})[source] = entry
    return Lock(merged).text().encode()


def _problems(
    head: Head, tree: str, project: Project, watch: Watch | None, *, relocked: bool = False
) -> tuple[str, ...]:
    """Return what is wrong with the project in a tree, a sentence each. Nobody compares patched trees with a lock that must be written again."""
    try:
        copy = copy_of(head, tree, project.out("queue", "project"))
        results = verify(copy, copy.pins.lines, watch=watch)
    except KzError as error:
        if _unanswered(error):
            raise
        return (_sentence(error),)
    problems = [
        f"{result.line} {result.source} {judgement.patch.removesuffix('.patch')}: {cell(judgement)}"
        + (f", {judgement.reason}" if judgement.reason else "")
        for result in results
        for row in result.rows
        for judgement in row
        if not judgement.holds
    ]
    if problems or relocked:
        return tuple(problems)
    return tuple(filter(None, (_wrong_lock(copy, line, watch) for line in copy.pins.lines)))


def _wrong_lock(copy: Project, line: str, watch: Watch | None) -> str:
    """Return how the patched trees of a line differ from pins.lock, '' if they do not."""
    try:
        apply(copy, line, watch)
    except KzError as error:
        if _unanswered(error):
            raise
        return _sentence(error)
    return ""


def _unanswered(error: KzError) -> bool:
    """Return whether an error says nothing of the stacks: a server or a tool is missing, a git failed or was killed, the disk is full."""
    return isinstance(error, CommandError) or error.exit_code == MissingError.exit_code


def _sentence(error: KzError) -> str:
    return " ".join(line.strip() for line in str(error).splitlines()[:3])


def _named(head: Head, revisions: Sequence[str]) -> list[Queued]:
    waiting = []
    for name in dict.fromkeys(revisions):
        argv = head.repository.argv("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        done = answered(argv, run(argv, env=local_environment()))
        commit = done.stdout.decode("utf-8", "replace").strip()
        if done.code or bad_id(commit):  # git's answer to `^main` is no commit
            raise ConfigError(
                f"{name!r} is no branch or commit of this repository", hint="git fetch gets what others pushed"
            )
        title = head.repository.git("log", "-1", "--format=%s", "--end-of-options", commit).decode("utf-8", "replace")
        waiting.append(Queued(name, title.strip(), commit))
    return waiting


def _pulls(project: Project, head: Head) -> list[Queued]:
    """Return the open pull requests on GitHub, oldest first, with their commits fetched."""
    argv = head.repository.argv("config", "--get", "remote.origin.url")
    url = answered(argv, run(argv, env=local_environment())).stdout.decode("utf-8", "replace")
    slug = variable("GITHUB_REPOSITORY") or slug_of(url.strip())
    if not slug:
        raise ConfigError(
            "the remote `origin` is not a repository on GitHub, so nothing says which pull requests are open",
            hint="name branches: kz queue BRANCH…",
        )
    pulls = sorted(open_pulls(project.store, slug), key=lambda pull: pull.number)
    # By their commits: a ref may have moved since GitHub was asked.
    wanted = [commit_id(pull.head) for pull in pulls if not head.repository.has(pull.head)]
    if wanted:
        argv = head.repository.argv(
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--end-of-options", "origin", *wanted
        )
        done = run(argv, env=upstream_environment(), timeout=None)
        require_answer(argv, done)
        require_success(argv, done)
    return [Queued(f"#{pull.number}", pull.title, pull.head) for pull in pulls]
