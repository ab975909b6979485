"""upstream: one patch made ready for a pull request: on upstream's own branch, linted, with its text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core.check import Check, Status
from kz_build.core.env import networked
from kz_build.core.errors import ConfigError, ConflictError
from kz_build.core.files import remove, write_atomic
from kz_build.core.process import find, run
from kz_build.git import fast_import, refs, worktree
from kz_build.git.worktree import Worktree, worktree_at
from kz_build.patch.apply import Applied
from kz_build.patch.attempt import apply_stack
from kz_build.patch.change import Patch
from kz_build.patch.place import places_text
from kz_build.patch.trailers import OURS, without_trailers
from kz_build.pins.project import Project
from kz_build.stack import session_folder
from kz_build.stack.apply import apply_source
from kz_build.stack.pinned import PinnedStack, patch_number, pinned_stack, with_files_fetched
from kz_build.stack.rebase import git_source
from kz_build.stack.sequencer import checkout, pick_remaining
from kz_build.stack.session import Session

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


@dataclass(frozen=True)
class Ready:
    """A patch as upstream would get it: a branch in a worktree, the linters' results, and a file with the request's text."""

    patch: str
    onto: str
    base: str
    commit: str
    branch: str
    worktree: Path
    text: Path
    url: str
    checks: tuple[Check, ...]
    range_diff: str
    notes: tuple[str, ...]


def submit_patch(project: Project, line: str, source: str, patch: str, onto: str, watch: Watch | None = None) -> Ready:
    """Pick one patch of a stack onto upstream's branch. Raises ConflictError like `rebase`, with a worktree to resolve it in."""
    pinned = pinned_stack(project, line, git_source(project, line, source), watch=watch)
    number = patch_number(pinned, patch)
    return with_files_fetched(project, pinned, lambda c: _start(project, c, number, onto))


def _start(project: Project, pinned: PinnedStack, number: int, onto: str) -> Ready:
    repo = pinned.repository
    line, name = pinned.stack.line, pinned.stack.source
    onto = onto or refs.trunk(repo)
    base = refs.resolve_revision(repo, onto)
    tip = apply_source(project, line, name, pinned.repository.watch)[0].commit
    words = ("--reverse", "--end-of-options", f"{pinned.base}..{tip}")
    commits = [pinned.base, *repo.git("rev-list", *words).decode().split()]
    tree = worktree_at(session_folder.folder_of(project, "upstream", line, name) / "tree", repo)
    if tree.exists() and (files := tree.dirty()):
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {f}" for f in files)]),
            hint=f"commit them in {tree.path}, or discard them with `git checkout`, and try again",
        )
    commit = _without_our_trailers(pinned, pinned.stack.patches[number], commits[number], commits[number + 1])
    session = Session(
        "upstream",
        line,
        name,
        line,
        onto,
        base,
        old_base=commits[number],
        old_tip=commit,
        stack_tip=commit,
        digest=pinned.stack.digest,
        tip=base,
        todo=(commit,),
        patch=pinned.stack.patches[number].name,
    )
    opened = session_folder.require_none(project, session)
    if not tree.exists():
        tree.create(session_folder.rerere_folder(project, name))
    return _go_on(project, pinned, opened)


def _without_our_trailers(pinned: PinnedStack, patch: Patch, parent: str, commit: str) -> str:
    """Return the patch's commit with a message that says nothing about our stack."""
    repo = pinned.repository
    clean = replace(patch, message=without_trailers(patch.message, OURS))
    if clean.message == patch.message:
        return commit
    with repo.objects() as objects:
        from kz_build.git.tree_lookup import read_paths

        before = read_paths(objects, parent, patch.reads)
    done = [outcome.commit for outcome in apply_stack((clean,), before.get) if isinstance(outcome, Applied)]
    return repo.fast_import(fast_import.commits_stream(parent, done, "refs/kz/upstream/patch")).decode().split()[-1]


def resume(project: Project, line: str, source: str) -> Ready:
    """Continue the open session."""
    opened = session_folder.find_session(project, "upstream", line, source)
    pinned = pinned_stack(project, opened.session.line, opened.session.source)
    return with_files_fetched(project, pinned, lambda fetched: _go_on(project, fetched, opened))


def _go_on(project: Project, stack: PinnedStack, opened: session_folder.SessionFolder) -> Ready:
    """Pick what is left, and put the patch on its branch."""
    pinned = session_folder.in_worktree(project, stack, opened)
    opened = pick_remaining(project, pinned, opened)
    session = opened.session
    repo = pinned.repository
    if session.tip == session.base:
        session_folder.end(opened)
        there = "".join(f", at {places_text(one.there)}" for one in session.dropped)
        raise ConfigError(
            f"upstream has it already at {session.version} {session.base[:10]}{there}", hint="drop the patch"
        )
    output = repo.git("log", "-1", "--format=%B", "--end-of-options", session.tip)
    message = output.decode("utf-8", "replace").rstrip("\n") + "\n"
    words = ("--name-only", "-z", "--end-of-options", session.base, session.tip)
    files = repo.git("diff", *words).decode("utf-8", "surrogateescape").split("\0")[:-1]
    tree = opened.worktree(pinned)
    checkout(pinned, tree, session.tip, {".lintrunner.toml", *files})
    name = re.sub(r"^[0-9]+-|[.]patch$", "", session.patch)
    branch = f"kz/{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}"  # a quilt folder's file may be named `a..b^`
    tree.output("checkout", "--quiet", "-B", branch)
    text = opened.folder / "pull-request.md"
    subject, _, body = message.partition("\n")
    write_atomic(text, f"# {subject}\n\n{body.strip()}\n".encode())
    compared = worktree.range_diff(repo, (session.old_base, session.old_tip), (session.base, session.tip))
    checks = _lint(tree, session.base, [name for name in files if (tree.path / name).is_file()])
    # The worktree stays: the user fixes what a linter finds there, and pushes the branch from there.
    remove(opened.folder / session_folder.FILE)
    return Ready(
        session.patch,
        session.version,
        session.base,
        session.tip,
        branch,
        tree.path,
        text,
        pinned.source.location,
        checks,
        compared,
        session.notes,
    )


def _lint(tree: Worktree, base: str, files: list[str]) -> tuple[Check, ...]:
    """Run git's own check of whitespace, and upstream's linters if they are installed."""
    spaces = tree.git("diff", "--check", "--no-color", "--end-of-options", base, "HEAD")
    output = spaces.stdout.decode("utf-8", "replace").strip()
    checks = [Check("", "whitespace", Status.FAIL if spaces.code else Status.PASS, output, False)]
    if not (tree.path / ".lintrunner.toml").is_file():
        return (*checks, Check("", "lintrunner", Status.SKIP, "upstream has no .lintrunner.toml", False))
    program = find("lintrunner")
    if not program:
        reason = "lintrunner is not installed: pip install lintrunner, then lintrunner init in the worktree"
        return (*checks, Check("", "lintrunner", Status.SKIP, reason, False))
    if not files:  # given none, it looks for some by itself
        return (*checks, Check("", "lintrunner", Status.SKIP, "the patch only removes files", False))
    # A file may be named like an option or a command of its own: `-x`, `init`.
    result = run([program, "--output=oneline", "--", *files], env=networked(), cwd=tree.path)
    output = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
    return (*checks, Check("", "lintrunner", Status.FAIL if result.code else Status.PASS, output, False))
