"""verify: judge every patch against every target, even after a failure. Nothing is checked out."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kz_build.core.errors import ConfigError, MissingError
from kz_build.git import refs
from kz_build.git import repository as git
from kz_build.git.cat_file import Objects, ObjectsMissing
from kz_build.patch.verdict import Judgement, Verdict
from kz_build.pins.project import Project
from kz_build.stack.pinned import PinnedStack, pinned_stacks, require_stacks, with_files_fetched
from kz_build.stack.verdict_cache import Row, judge_commits

if TYPE_CHECKING:
    from pathlib import Path

    from kz_build.core.progress import Watch


class Version(NamedTuple):
    """A version to try a stack on. `name` as the user gave it; `date` is the commit's, '' for a source without dates."""

    name: str
    commit: str
    date: str


class TrialBuild(NamedTuple):
    """Whether a target builds from the patched version: `outcome` is `builds`, or what failed: `configure`, `compile`, `link`, or `build` for anything else.

    `units` counts the objects that the stack touches, `failed` is the first file that could not be made, `errors` are the
    first lines that say why, `log` is the path of all. `outside_stack`: what does not compile is nothing that the stack touches.
    """

    target: str
    outcome: str
    units: int
    failed: str
    errors: tuple[str, ...]
    log: str
    seconds: float
    outside_stack: bool = False


class VerifyResult(NamedTuple):
    """One stack against its targets: `rows[i][k]` is patch k on target i. `absent` are names that its upstream lacks.

    `builds[i]` is the build at target i, None where a patch does not hold; () if nothing was built. `unjudged` says why there are no
    targets, because the files cannot be had; '' for a stack that was judged.
    """

    line: str
    source: str
    folder: str
    patches: tuple[str, ...]
    targets: tuple[Version, ...]
    rows: tuple[tuple[Judgement, ...], ...]
    absent: tuple[str, ...] = ()
    builds: tuple[TrialBuild | None, ...] = ()
    unjudged: str = ""

    @property
    def holds(self) -> bool:
        """Whether every patch holds on every target."""
        return all(j.holds for row in self.rows for j in row)


def verify(
    project: Project,
    lines: Sequence[str],
    onto: Sequence[str] = (),
    tags: Sequence[str] = (),
    *,
    sources: Collection[str] = (),
    fetch: bool = False,
    watch: Watch | None = None,
    unjudged: dict[VerifyResult, MissingError] | None = None,
) -> tuple[VerifyResult, ...]:
    """Judge the stacks of these lines on each revision of `onto` and each tag that matches one of `tags`; without any, on their own pins.

    Revisions are those of upstream's git history: stacks on wheels are judged on their own pin, and left out if only revisions
    are named, unless `sources` names them and pins.yaml their repository. `sources` names the stacks, () all.

    A stack whose files cannot be had is added to `unjudged`, if others can be judged. Raises MissingError for it
    without that dict, or if there is no other; ConfigError for a name that no upstream has, or if
    nothing is left to judge.
    """
    require_stacks(project, lines, sources)
    results: list[VerifyResult] = []
    errors: dict[str, refs.UnknownRevisionError] = {}
    lacking: dict[VerifyResult, MissingError] = {}
    asked: set[Path] = set()
    for line in lines:
        for pinned in pinned_stacks(project, line, watch, sources):
            if onto or tags:
                from kz_build.stack.git_upstream import git_upstream

                if not (upstream := git_upstream(project, pinned) if sources or pinned.source.kind == "git" else None):
                    continue
                pinned = upstream
            at = pinned.repository.path
            if fetch and at not in asked and pinned.source.kind == "git" and pinned.repository.exists():
                refs.fetch_names(pinned.repository)
                asked.add(at)  # lines share their upstream
            try:
                judged = with_files_fetched(project, pinned, lambda c: verify_stack(project, c, onto, tags, errors))
            except MissingError as error:
                stack = pinned.files
                empty = VerifyResult(line, stack.source, stack.folder, stack.patches, (), (), unjudged=str(error))
                lacking[empty] = error
                continue
            results.append(judged)
    if lacking and (unjudged is None or not results):
        raise next(iter(lacking.values()))
    if unjudged is not None:
        unjudged.update(lacking)
    if not results and (onto or tags):
        raise ConfigError("no stack on a git source: nothing to verify on other revisions")
    if absent := set.intersection(*(set(result.absent) for result in results)) if results else set():
        raise next(error for name, error in errors.items() if name in absent)
    return tuple(results)


def verify_stack(
    project: Project,
    pinned: PinnedStack,
    onto: Sequence[str],
    tags: Sequence[str] = (),
    errors: dict[str, refs.UnknownRevisionError] | None = None,
) -> VerifyResult:
    """Judge one stack on each tag that matches and each revision of `onto`; without any, on its pin.

    What upstream lacks is left out, and added to `errors`; without them it raises UnknownRevisionError.
    """
    on_pin = not (onto or tags)
    absent: dict[str, refs.UnknownRevisionError] = {}
    names = [pinned.version] if on_pin else []
    for pattern in tags:
        try:
            names += _tags(pinned.repository, pattern)
        except refs.UnknownRevisionError as error:
            absent[pattern] = error
    names = list(dict.fromkeys([*names, *onto]))
    with pinned.repository.objects() as objects:
        targets = _targets(pinned, objects, names, on_pin=on_pin)
        if None not in targets and not absent:
            return _judge(project, pinned, objects, [t for t in targets if t])

    for name, target in zip(names, targets, strict=True):
        if target is None:
            try:
                refs.resolve_revision(pinned.repository, name)
            except refs.UnknownRevisionError as error:
                absent[name] = error
    if absent and errors is None:
        raise next(iter(absent.values()))
    if errors is not None:
        errors.update(absent)
    with pinned.repository.objects() as objects:
        resolved = [t for t in _targets(pinned, objects, names, on_pin=False) if t]
        return _judge(project, pinned, objects, resolved)._replace(absent=tuple(absent))


def _tags(repository: git.Repository, pattern: str) -> list[str]:
    """Return the tags that match, in git's order of versions; upstream is asked if the clone has none, or not all."""
    for ask in (False, True) if refs.has_all_names(repository) else (True,):
        if ask:
            refs.fetch_names(repository)
        names = [ref.removeprefix("refs/tags/") for ref in refs.refs(repository, "refs/tags")]
        if matches := [name for name in names if fnmatch.fnmatchcase(name, pattern)]:
            return matches
    hint = f"its newest: {', '.join(names[-3:])}" if names else "it has no tags"
    raise refs.UnknownRevisionError(f"no tag of upstream matches {pattern!r}", hint=hint)


def _targets(pinned: PinnedStack, objects: Objects, names: Sequence[str], *, on_pin: bool) -> list[Version | None]:
    if on_pin:
        own = objects.commit(pinned.base)
        if own is None:
            raise ObjectsMissing(f"the commit {pinned.base} is not in the partial clone")
        return [Version(pinned.version, own[0], own[1] if pinned.source.kind == "git" else "")]
    return [Version(name, *at) if at else None for name, at in zip(names, objects.commits(names), strict=True)]


def _judge(project: Project, pinned: PinnedStack, objects: Objects, targets: Sequence[Version]) -> VerifyResult:
    def with_renames(commit: str, row: Row) -> Row:
        if not any(j.verdict is Verdict.MISSING for j in row):
            return row
        from kz_build.stack.renames import follow_rename

        return tuple(follow_rename(pinned, commit, j) for j in row)

    rows = judge_commits(pinned, project.store, objects, [target.commit for target in targets], with_renames)
    files = pinned.files
    return VerifyResult(files.line, files.source, files.folder, files.patches, tuple(targets), tuple(rows))
