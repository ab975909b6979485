"""apply: sources + stacks -> trees, as git objects, their ids compared with the lock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kz_build.adapters import fastimport, git
from kz_build.adapters.project import load_stack, stack_sources
from kz_build.model.errors import ConfigError, ConflictError, LockError, Problem
from kz_build.model.intent import evaluate
from kz_build.model.project import Project
from kz_build.model.sources import Tree
from kz_build.model.stack import Applied, Blob, Refused, Stack, apply_stack

ENGINE = "1"
"""Part of the name of every result: a change of the rules that could change a tree must change it."""


def apply(project: Project, line: str, progress: Any = None, only: Sequence[str] | None = None) -> tuple[Tree, ...]:
    """Apply every stack of a line, or those on the sources in `only`. Raises ConflictError for all patches and checks that fail, LockError for other trees."""
    project.pins.line(line)
    names = stack_sources(project.root, line)
    return _proved(project, line, [name for name in names if only is None or name in only], progress)


def apply_source(project: Project, line: str, name: str, progress: Any = None) -> tuple[Tree, Path]:
    """Apply the stack of one source; gives its tree and the repository that holds it."""
    tree = _proved(project, line, (name,), progress)[0]
    return tree, tree.repository


def _proved(project: Project, line: str, names: Sequence[str], progress: Any) -> tuple[Tree, ...]:
    trees = []
    problems: list[Problem] = []
    for name in names:
        stack = load_stack(project.root, line, name)
        if stack is None:
            raise ConfigError(f"{name} has no stack on line {line}", hint=f"patches/{line}/{name}/series would be it")
        tree, found = _apply(project, line, stack, progress)
        problems += found
        if tree:
            trees.append(tree)
    if problems:
        raise ConflictError(
            "\n".join(["the stack does not hold:", *(f"  {p}" for p in problems)]),
            hint="nothing was changed; mend the patch named first, those after it were tried without it",
        )
    for tree in trees:
        if tree.locked is not None and tree.locked != tree.tree:
            raise LockError(
                f"{tree.source} of {line} with its stack has tree {tree.tree}, pins.lock says {tree.locked or '(unknown)'}",
                hint=f"did the stack change on purpose? kz lock --write --line {line}",
            )
    return tuple(trees)


def apply_to(
    repository: git.Repository, base: str, stack: Stack, locked: str | None
) -> tuple[Tree | None, list[Problem]]:
    """Apply one stack to a commit: its tree, or the problems of all its patches and checks."""
    paths = touched(stack)
    ref = f"refs/kz/stack/{ENGINE}-{base[:16]}-{stack.digest[:16]}"
    with repository.objects() as objects:
        before = git.read_paths(objects, base, paths)
        outcomes = apply_stack(stack.patches, before.get)
        problems = [_refusal(stack, o, base) for o in outcomes if isinstance(o, Refused)]
        applied = [o for o in outcomes if isinstance(o, Applied)]
        problems += _intents(stack, before, applied, {o.patch.slug for o in outcomes if isinstance(o, Refused)})
        if problems:
            return None, problems
        done = objects.get(ref) if applied else None
        commit = done[0] if done else _write(repository, base, applied, ref)
        got = objects.get(f"{commit}^{{tree}}")
        assert got is not None
    states = tuple((o.patch.name, _state(o)) for o in applied)
    return Tree(stack.source, repository.path, base, commit, got[0], locked, states), []


def touched(stack: Stack) -> frozenset[str]:
    """Paths that a stack changes or that its checks read."""
    return frozenset(f.path for p in stack.patches for f in p.files) | {c.file for c in stack.checks}


def _write(repository: git.Repository, base: str, applied: Sequence[Applied], ref: str) -> str:
    if not applied:
        return base
    from kz_build.adapters import store  # file locks are needed only where something is written

    with store.locked(repository.path.parent.parent, repository.path.name):
        return repository.fast_import(fastimport.commits_stream(base, applied, ref)).decode().split()[-1]


def _apply(project: Project, line: str, stack: Stack, progress: Any) -> tuple[Tree | None, list[Problem]]:
    """Apply a stack to the locked commit; what is not here yet of it is fetched first."""
    overridden = project.pins.overridden(line, stack.source)
    entry = project.lock.entry(line, stack.source) if overridden else project.locked(line, stack.source)
    source = project.pins.source(stack.source)
    if entry and entry.get("commit") and not overridden:
        path = (
            git.contents_path(project.store)
            if source.kind == "wheel"
            else git.repository_path(project.store, source.name, project.git_url(source))
        )
        repository = git.Repository(path)
        try:
            if repository.exists():
                return apply_to(repository, str(entry["commit"]), stack, _patched(entry))
        except git.ObjectsMissing:
            pass
    commit, path, locked = _fetched_base(project, line, stack, _patched(entry), progress)
    return apply_to(git.Repository(path), commit, stack, locked)


def _patched(entry: Any) -> str:
    return str(((entry or {}).get("patched") or {}).get("tree") or "")


def _fetched_base(
    project: Project, line: str, stack: Stack, locked: str, progress: Any
) -> tuple[str, Path, str | None]:
    from kz_build.adapters import clones, store
    from kz_build.model.request import Request, quiet
    from kz_build.stages import fetch

    request = Request(line, (stack.source,), paths={stack.source: touched(stack)}, progress=progress or quiet)
    found = fetch.fetch(project, request)[0]
    if found.kind in ("git", "folder"):
        at = found.trees[0]
        return at.commit, at.repository, None if found.note else locked
    assert found.file is not None
    at = clones.import_files(project.store, "", store.wheel_files(found.file), found.identity)
    return at.commit, at.repository, None if found.note else locked


def _state(outcome: Applied) -> str:
    moved = [f"{offset:+d} ({path})" for path, _, offset in outcome.offsets]
    return "offset " + ", ".join(moved) if moved else "clean"


def _refusal(stack: Stack, refused: Refused, base: str) -> Problem:
    text = f"{refused.path}: {refused.reason}"
    if refused.upstreamed:
        text = f"{refused.path}: what it changes is there already at {base[:12]}: drop the patch"
    return Problem(f"{stack.folder}/{refused.patch.name}", refused.patch_line, text)


def _intents(
    stack: Stack, before: dict[str, Blob | None], applied: Sequence[Applied], refused: set[str]
) -> list[Problem]:
    after = dict(before)
    for outcome in applied:
        after.update(outcome.files)

    def read(path: str) -> bytes | None:
        blob = after.get(path)
        return blob.data if blob else None

    found = []
    for check in stack.checks:
        if check.slug not in refused and (said := evaluate(check, read)):
            file, _, line = check.where.rpartition(":")
            found.append(Problem(file, int(line), f"{check.slug}: {check.kind}: {said}"))
    return found
