"""apply: sources + stacks -> trees, as git objects whose ids are compared with the lock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.errors import ConflictError, LockError, Problem
from kz_build.git import fast_import
from kz_build.git import repository as git
from kz_build.git import tree_lookup as trees
from kz_build.git.cat_file import ObjectsMissing
from kz_build.git.object_types import Blob
from kz_build.patch.apply import Applied, Refused, Stack, content
from kz_build.patch.attempt import apply_stack
from kz_build.patch.intent_checks import evaluate
from kz_build.patch.place import places_text
from kz_build.pins.project import Project
from kz_build.sources.fetched import Tree
from kz_build.stack.files import require_stacks_of_lock, stack_sources
from kz_build.stack.pinned import PinnedStack, pinned_stack, with_files_fetched

if TYPE_CHECKING:
    from kz_build.core.progress import Watch

CACHE_EPOCH = "6"
"""Part of the name of every result: change it with any rule that could change a tree."""


def apply(
    project: Project, line: str, watch: Watch | None = None, only: Sequence[str] | None = None
) -> tuple[Tree, ...]:
    """Apply every stack of a line, or those on the sources in `only`. Raises ConflictError for all failures, LockError for other
    trees than those of the lock, and for a stack that only the lock has."""
    require_stacks_of_lock(project, line, only)
    names = stack_sources(project, line)
    return _apply_all(project, line, [name for name in names if only is None or name in only], watch)


def apply_source(project: Project, line: str, name: str, watch: Watch | None = None) -> tuple[Tree, Path]:
    """Apply the stack of one source; return its tree and the repository that has it."""
    tree = _apply_all(project, line, (name,), watch)[0]
    return tree, tree.repository


def stack_tip(project: Project, pinned: PinnedStack) -> str:
    """Return the last commit of a stack on its pin: the pin's own without patches."""
    if not pinned.stack.patches:
        return pinned.base
    return apply_source(project, pinned.stack.line, pinned.stack.source, pinned.repository.watch)[0].commit


def _apply_all(project: Project, line: str, names: Sequence[str], watch: Watch | None) -> tuple[Tree, ...]:
    trees = []
    problems: list[Problem] = []
    for name in names:
        pinned = pinned_stack(project, line, name, watch=watch)
        tree, failures = with_files_fetched(
            project, pinned, lambda c: apply_to(c.repository, c.base, c.stack.mails, c.locked)
        )
        problems += failures
        if tree:
            trees.append(tree)
    if problems:
        raise ConflictError(
            "\n".join(["the stack does not hold:", *(f"  {p}" for p in problems)]),
            hint="nothing was changed; fix the patch named first, those after it were tried without it",
        )
    for tree in trees:
        if tree.locked is not None and tree.locked != tree.tree:
            raise LockError(
                f"{tree.source} of {line} with its stack has tree {tree.tree}, pins.lock says {tree.locked or '(unknown)'}",
                hint=f"if you changed the stack: kz lock --write --line {line}",
            )
    return tuple(trees)


def apply_to(
    repository: git.Repository, base: str, stack: Stack, locked: str | None
) -> tuple[Tree | None, list[Problem]]:
    """Apply one stack to a commit; return its tree, or the problems of all its patches and checks."""
    paths = stack.touched
    ref = f"refs/kz/stack/{CACHE_EPOCH}-{base[:16]}-{stack.digest[:16]}"
    with repository.objects() as objects:
        before = trees.read_paths(objects, base, paths)
        outcomes = apply_stack(stack.patches, before.get)
        problems = [_refusal(stack, o, base) for o in outcomes if isinstance(o, Refused)]
        applied = [o for o in outcomes if isinstance(o, Applied)]
        problems += _intent_problems(stack, before, applied, {o.patch.slug for o in outcomes if isinstance(o, Refused)})
        if problems:
            return None, problems
        done = objects.get(ref) if applied else None
        commit = done[0] if done else _write(repository, base, applied, ref)
        got = objects.get(f"{commit}^{{tree}}")
        if got is None:
            raise ObjectsMissing(f"the commit {commit} is not in the partial clone")
    states = tuple((o.patch.name, _state(o)) for o in applied)
    return Tree(stack.source, repository.path, base, commit, got[0], locked, states), []


def _write(repository: git.Repository, base: str, applied: Sequence[Applied], ref: str) -> str:
    if not applied:
        return base
    stream = fast_import.commits_stream(base, [outcome.commit for outcome in applied], ref)
    return repository.fast_import(stream).decode().split()[-1]


def _state(outcome: Applied) -> str:
    moved = [f"{offset:+d} ({path})" for path, _, offset in outcome.offsets]
    state = "offset " + ", ".join(moved) if moved else "clean"
    return "; ".join(text for text in (state, outcome.patch.left_out_text) if text)


def _refusal(stack: Stack, refused: Refused, base: str) -> Problem:
    text = f"{refused.path}: {refused.reason}"
    if refused.there:
        text += f", at {places_text([str(place) for place in refused.there])}"
    if refused.upstreamed:
        text += f" of {base[:12]}: drop the patch"
    return Problem(f"{stack.folder}/{refused.patch.name}", refused.patch_line, text)


def _intent_problems(
    stack: Stack, before: dict[str, Blob | None], applied: Sequence[Applied], refused: set[str]
) -> list[Problem]:
    after = dict(before)
    for outcome in applied:
        after.update(outcome.files)

    problems = []
    for check in stack.checks:
        if check.slug not in refused and (failure := evaluate(check, content(after.get(check.file)))):
            file, _, line = check.where.rpartition(":")
            problems.append(Problem(file, int(line), f"{check.slug}: {check.kind}: {failure}"))
    return problems
