"""upstream: one patch made ready for a pull request: on upstream's own branch, linted, with its text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kz_build.core import locks
from kz_build.core.env import networked
from kz_build.core.errors import ConfigError, ConflictError
from kz_build.core.files import remove, write_atomic
from kz_build.core.process import find, run
from kz_build.core.result import CheckResult, Status
from kz_build.git import fast_import, refs, worktree
from kz_build.git.worktree import Worktree
from kz_build.patch.apply import Applied
from kz_build.patch.attempt import apply_stack
from kz_build.patch.change import Patch
from kz_build.patch.place import places_text
from kz_build.patch.trailers import OURS, without_trailers
from kz_build.pins.project import Project
from kz_build.stack import sessions
from kz_build.stack.apply import apply_source
from kz_build.stack.pinned import Carried, carried, chosen, reading
from kz_build.stack.rebase import git_source
from kz_build.stack.sequencer import lay, proceed
from kz_build.stack.session import Session

if TYPE_CHECKING:
    from kz_build.core.progress import Watch


@dataclass(frozen=True)
class Ready:
    """A patch as upstream would get it: a branch in a worktree, what linters say of it, and a file with the request's text."""

    patch: str
    onto: str
    base: str
    commit: str
    branch: str
    worktree: Path
    text: Path
    url: str
    checks: tuple[CheckResult, ...]
    range_diff: str
    notes: tuple[str, ...]


def upstream(project: Project, line: str, source: str, patch: str, onto: str, watch: Watch | None = None) -> Ready:
    """Pick one patch of a stack onto upstream's branch. Raises ConflictError like `rebase`, with a worktree to resolve it in."""
    held = carried(project, line, git_source(project, line, source), watch=watch)
    number = chosen(held, patch)
    return reading(project, held, lambda c: _begun(project, c, number, onto))


def _begun(project: Project, held: Carried, number: int, onto: str) -> Ready:
    repo = held.repository
    line, name = held.stack.line, held.stack.source
    base = refs.known_or_fetched(repo, onto)
    tip = apply_source(project, line, name, held.repository.watch)[0].commit
    words = ("--reverse", "--end-of-options", f"{held.base}..{tip}")
    commits = [held.base, *repo.git("rev-list", *words).decode().split()]
    tree = Worktree(repo, sessions.folder_of(project, "upstream", line, name) / "tree")
    if tree.exists() and (files := tree.dirty()):
        raise ConflictError(
            "\n".join(["the worktree has changes that are not committed:", *(f"  {f}" for f in files)]),
            hint=f"commit them in {tree.path}, or `git checkout` them away, and try again",
        )
    commit = _bare(project, held, held.stack.patches[number], commits[number], commits[number + 1])
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
        digest=held.stack.digest,
        tip=base,
        todo=(commit,),
        patch=held.stack.patches[number].name,
    )
    return _ready(project, held, proceed(project, held, sessions.new(project, session)))


def _bare(project: Project, held: Carried, patch: Patch, parent: str, commit: str) -> str:
    """The patch's commit with a message that says nothing of our stack."""
    repo = held.repository
    clean = replace(patch, message=without_trailers(patch.message, OURS))
    if clean.message == patch.message:
        return commit
    with repo.objects() as objects:
        from kz_build.git.tree_lookup import read_paths

        before = read_paths(objects, parent, patch.reads)
    done = [outcome.commit for outcome in apply_stack((clean,), before.get) if isinstance(outcome, Applied)]
    with locks.locked(project.store, repo.path.name):
        return repo.fast_import(fast_import.commits_stream(parent, done, "refs/kz/upstream/patch")).decode().split()[-1]


def resume(project: Project, line: str, source: str) -> Ready:
    """`--continue` of the one that is under way."""
    opened = sessions.the_one(project, "upstream", line, source)
    held = carried(project, opened.session.line, opened.session.source)
    return reading(project, held, lambda c: _ready(project, c, proceed(project, c, opened)))


def _ready(project: Project, held: Carried, opened: sessions.Open) -> Ready:
    session = opened.session
    repo = held.repository
    if session.tip == session.base:
        sessions.end(opened, repo)
        there = "".join(f", at {places_text(one.there)}" for one in session.dropped)
        raise ConfigError(
            f"upstream has it already at {session.version} {session.base[:10]}{there}", hint="drop the patch"
        )
    said = repo.git("log", "-1", "--format=%B", "--end-of-options", session.tip)
    message = said.decode("utf-8", "replace").rstrip("\n") + "\n"
    words = ("--name-only", "-z", "--end-of-options", session.base, session.tip)
    files = repo.git("diff", *words).decode("utf-8", "surrogateescape")
    tree = opened.worktree(repo)
    lay(held, tree, session.tip, {".lintrunner.toml", *files.split("\0")[:-1]})
    branch = f"kz/{re.sub(r'^[0-9]+-|[.]patch$', '', session.patch)}"
    tree.said("checkout", "--quiet", "-B", branch)
    text = opened.folder / "pull-request.md"
    subject, _, body = message.partition("\n")
    write_atomic(text, f"# {subject}\n\n{body.strip()}\n".encode())
    compared = worktree.range_diff(repo, (session.old_base, session.old_tip), (session.base, session.tip))
    checks = _linted(tree, session.base, tuple(files.split("\0")[:-1]))
    # The worktree stays: a linter's findings are mended there, and the branch is pushed from there.
    remove(opened.folder / sessions.FILE)
    return Ready(
        session.patch,
        session.version,
        session.base,
        session.tip,
        branch,
        tree.path,
        text,
        held.source.location,
        checks,
        compared,
        session.notes,
    )


def _linted(tree: Worktree, base: str, files: tuple[str, ...]) -> tuple[CheckResult, ...]:
    """git's own look at whitespace, and upstream's linters where they are installed."""
    spaces = tree.git("diff", "--check", "--end-of-options", base, "HEAD")
    said = spaces.stdout.decode("utf-8", "replace").strip()
    found = [CheckResult("", "whitespace", Status.FAIL if spaces.code else Status.PASS, said, False)]
    if not (tree.path / ".lintrunner.toml").is_file():
        return (*found, CheckResult("", "lintrunner", Status.SKIP, "upstream has no .lintrunner.toml", False))
    program = find("lintrunner")
    if not program:
        reason = "lintrunner is not installed: pip install lintrunner, then lintrunner init in the worktree"
        return (*found, CheckResult("", "lintrunner", Status.SKIP, reason, False))
    done = run([program, "--output=oneline", *files], env=networked(), cwd=tree.path)
    said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    return (*found, CheckResult("", "lintrunner", Status.FAIL if done.code else Status.PASS, said, False))
