"""nightly: every line against upstream's newest version for it. What moves by itself is proposed, what does not is reported."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kz_build.core.env import variable
from kz_build.core.errors import ConfigError, ConflictError, KzError, Missing, MissingError
from kz_build.core.files import remove
from kz_build.git import refs
from kz_build.nightly import text
from kz_build.nightly.head import CONTENT, commit_on, content_of, copy_of, diff, head_of
from kz_build.nightly.issue import Told, Trouble, reported, tell
from kz_build.nightly.move import Moved, move, next_version
from kz_build.nightly.pull_request import Done, Proposal, known, last_pull, propose
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.report.diff import Change
from kz_build.stack.files import stack_sources
from kz_build.stack.git_upstream import git_upstream, pin_of
from kz_build.stack.pinned import PinnedStack, pinned_stack, with_files_fetched
from kz_build.stack.rebase import abort, rebase, suggest
from kz_build.stack.stack_history import StackHistory, judge_history
from kz_build.upstream.history import why

if TYPE_CHECKING:
    from pathlib import Path

    from kz_build.core.progress import Watch
    from kz_build.stack.suggestion import Suggestion

_T = TypeVar("_T")


@dataclass(frozen=True)
class StackNight:
    """One stack: `to` is the version that it moves to, or was judged on. `history`, `changes`, `text` and `issue` are those of
    one that a person must move, and of the newest line on upstream's branch."""

    line: str
    source: str
    pin: str
    to: str = ""
    history: StackHistory | None = None
    changes: tuple[Change, ...] = ()
    text: str = ""
    issue: Done | None = None


@dataclass(frozen=True)
class LineNight:
    """One line: its stacks, and the pull request of those that moved. `body` and `diff` are those of a dry run."""

    line: str
    stacks: tuple[StackNight, ...]
    pull: Done | None = None
    title: str = ""
    body: str = ""
    diff: str = ""


@dataclass(frozen=True)
class Nightly:
    """The result of a night."""

    lines: tuple[LineNight, ...]


class Night:
    """One run: what is committed, where it is told, and the failures; one of them does not end the run."""

    def __init__(self, project: Project, watch: Watch | None, *, dry_run: bool) -> None:
        self.project, self.watch, self.dry_run = project, watch, dry_run
        self.slug = _repository(required=not dry_run)
        self.head = head_of(project)
        self.failures: list[KzError] = []
        self.fetched: set[Path] = set()
        self.troubles: list[Trouble] = []

    def run(self) -> Nightly:
        """Judge and move every line."""
        try:
            return self._run()
        finally:
            remove(self.project.out("nightly"))

    def _run(self) -> Nightly:
        copy = copy_of(self.head, self.head.commit, self.project.out("nightly", "head"))
        stacks = {line: _git_sources(copy, line) for line in copy.pins.lines}
        lines = [line for line, sources in stacks.items() if sources]
        if not lines:
            raise ConfigError("no line has a stack on a git source")
        newest = {source: line for line in lines for source in stacks[line]}
        done = [self._attempt(partial(self._line, copy, line, stacks[line], newest)) for line in lines]
        return Nightly(tuple(line for line in done if line))

    def _attempt(self, do: Callable[[], _T]) -> _T | None:
        try:
            return do()
        except KzError as error:
            self.failures.append(error)
            return None

    def _line(self, copy: Project, line: str, sources: Sequence[str], newest: Mapping[str, str]) -> LineNight:
        opened = {source: self._attempt(partial(_on_git, copy, line, source, self.watch)) for source in sources}
        stacks = {source: pinned for source, pinned in opened.items() if pinned}
        asked = {source: self._attempt(partial(self._next, copy, pinned)) for source, pinned in stacks.items()}
        nexts = {source: to for source, to in asked.items() if to is not None}
        results = self._moves(line, {source: to for source, to in nexts.items() if to})
        nights = []
        for source in nexts:
            pinned = stacks[source]
            night = StackNight(line, source, pinned.version, nexts[source])
            stuck = source in results and not results[source]
            if stuck or newest[source] == line:
                night = self._attempt(partial(self._judge, copy, pinned, nexts[source] if stuck else "")) or night
            elif self._attempt(partial(reported, self.project.store, self.slug, line, source)):
                to = nexts[source] or pinned.version  # where every patch holds
                night = self._attempt(partial(self._judge, copy, pinned, to)) or night
            nights.append(night)
        moves = [one for one in results.values() if one]
        proposed = self._attempt(lambda: self._propose(line, moves, tuple(nights))) if moves else None
        return proposed or LineNight(line, tuple(nights))

    def _next(self, copy: Project, pinned: PinnedStack) -> str:
        def ask(fetched: PinnedStack) -> str:
            if fetched.repository.path not in self.fetched:
                refs.fetch_names(fetched.repository)
                self.fetched.add(fetched.repository.path)  # two sources of one address have a clone each
            return next_version(copy, fetched)

        return with_files_fetched(copy, pinned, ask)

    def _moves(self, line: str, nexts: dict[str, str]) -> dict[str, Moved | None]:
        """Move the stacks of a line that can, in a copy of the project of its own."""
        if not nexts:
            return {}
        moved = copy_of(self.head, self.head.commit, self.project.out("nightly", "lines", line))
        results: dict[str, Moved | None] = {}
        for source, to in nexts.items():
            if pinned := _on_git(moved, line, source, self.watch):
                results[source] = move(moved, pinned, to, self.watch)
            moved = load_project(moved.root)
        return results

    def _judge(self, copy: Project, pinned: PinnedStack, to: str) -> StackNight:
        """Judge a stack on the version where it is stuck, or on upstream's branch, and tell what is new."""
        history = with_files_fetched(copy, pinned, lambda c: judge_history(copy, c, to))
        diffs = why(copy, history, self.watch)
        hunks = {s.patch: diffs.get((s.patch, s.since.commit.id), "") for s in history.patches if s.since}
        suggestion = _suggestion(copy, history, self.watch)
        trouble = Trouble(history, hunks, _command(copy, history, as_new_line=not to), suggestion)
        self.troubles.append(trouble)
        report = self._attempt(lambda: tell(self.project.store, self.slug, trouble, dry_run=self.dry_run)) or Told(
            (), "", Done("failed")
        )
        shown = report.text if self.dry_run else ""
        return StackNight(
            history.line, history.source, pinned.version, history.to, history, report.changes, shown, report.done
        )

    def _stuck(self, nights: Sequence[StackNight]) -> list[Trouble]:
        """Return what keeps stacks of a line where they are, while others move."""
        places = {(night.line, night.source, night.to) for night in nights if night.history}
        wheres = ((one, (one.history.line, one.history.source, one.history.to)) for one in self.troubles)
        return [one for one, where in wheres if where in places and one.broken]

    def _propose(self, line: str, moves: Sequence[Moved], nights: tuple[StackNight, ...]) -> LineNight:
        moved = load_project(self.project.out("nightly", "lines", line) / self.head.prefix)
        tree, content = content_of(self.head, moved, {file for one in moves for file in one.written.files})
        commit = commit_on(self.head, tree, text.commit_message(line, moves, f"{CONTENT}: {content}"))
        title, body = text.pull_title(line, moves), text.pull_body(line, moves, self._stuck(nights))
        proposal = Proposal(
            line, f"kz/nightly-{line}", self.head.branch, self.head.commit, commit, content, title, body
        )
        if not self.dry_run:
            return LineNight(
                line, nights, propose(self.project.store, self.slug, self.head.repository, proposal), title
            )
        pull = last_pull(self.project.store, self.slug, proposal) if self.slug else None
        would = Done(
            "would be updated" if pull and pull.open else "would be opened", pull.url if pull and pull.open else ""
        )
        return LineNight(line, nights, known(pull, proposal) or would, title, body, diff(self.head, commit))


def _suggestion(copy: Project, history: StackHistory, watch: Watch | None) -> Suggestion | None:
    """Return candidates for the first patch that does not apply, from a rebase in the copy that is thrown away."""
    onto = pin_of(copy.pins.source(history.source), history.to)
    if not onto or all(one.now.holds for one in history.patches):
        return None
    try:
        rebase(copy, history.line, history.source, onto, watch=watch)
    except ConflictError:
        with contextlib.suppress(ConfigError):  # it stopped at the end, where a check fails
            return suggest(copy, history.line, history.source)
    finally:
        with contextlib.suppress(ConfigError):
            abort(copy, "rebase", history.line, history.source)
    return None


def _repository(*, required: bool) -> str:
    """Return GITHUB_REPOSITORY. Raises MissingError or ConfigError."""
    slug = variable("GITHUB_REPOSITORY")
    if not slug and required:
        why = "the nightly run writes to its issues and pull requests"
        missing = Missing("GITHUB_REPOSITORY", why, "kz nightly --dry-run shows the same anywhere")
        raise MissingError((missing,))
    if slug and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", slug, re.ASCII):
        raise ConfigError(f"GITHUB_REPOSITORY is {slug!r}, not OWNER/NAME")
    return slug


def _git_sources(project: Project, line: str) -> tuple[str, ...]:
    """Return the sources with stacks that follow a git repository: a wheel's is the one that pins.yaml names."""
    names = ((name, project.pins.source(name)) for name in stack_sources(project, line))
    return tuple(name for name, source in names if source.kind == "git" or source.options.get("upstream"))


def _on_git(project: Project, line: str, source: str, watch: Watch | None) -> PinnedStack | None:
    return git_upstream(project, pinned_stack(project, line, source, watch=watch))


def _command(project: Project, history: StackHistory, *, as_new_line: bool) -> str:
    onto = pin_of(project.pins.source(history.source), history.to)
    if not onto:  # a wheel cannot be of upstream's branch
        return shlex.join(["kz", "history", "--line", history.line, "--source", history.source, "--why"])
    words = ["kz", "rebase", "--line", history.line, "--source", history.source, "--onto", onto]
    return shlex.join([*words, *(("--as", "NEW-LINE") if as_new_line else ())])
