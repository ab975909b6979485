"""The project as it is committed: copies of it to work in, and the commit that a branch adds to it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConfigError
from kz_build.core.files import remove
from kz_build.core.locks import scratch_folder
from kz_build.core.process import answered, checked, run
from kz_build.git.environment import local_environment, upstream_environment
from kz_build.git.object_types import LINK
from kz_build.git.repository import Repository, commit_id
from kz_build.pins.load import load_project
from kz_build.pins.project import Project

WHO = ("kz_build", "kz_build@localhost")
"""Name and address of the committer."""
CONTENT = "Kz-Content"
"""The trailer of a commit that says what it changes."""


class Head(NamedTuple):
    """HEAD of the git repository that a project is in: its commit and branch, and the project's folder in it, '' or `a/b/`."""

    repository: Repository
    commit: str
    branch: str
    prefix: str


def head_of(project: Project) -> Head:
    """Return HEAD of the project's repository. Raises ConfigError if it has none, or is on no branch."""
    argv = ("git", "rev-parse", "--absolute-git-dir", "--show-prefix", "HEAD", "--symbolic-full-name", "HEAD")
    done = answered(argv, run(argv, env=upstream_environment(), cwd=project.root))
    folder, prefix, commit, ref, *_ = [*os.fsdecode(done.stdout).split("\n"), "", "", "", ""]
    if done.code or not ref.startswith("refs/heads/"):
        raise ConfigError(
            f"{project.root} is not in a git repository whose HEAD is on a branch with a commit",
            hint="what is committed there is judged: git checkout BRANCH",
        )
    return Head(Repository(Path(folder)), commit, ref.removeprefix("refs/heads/"), prefix)


def copy_of(head: Head, tree: str, folder: Path) -> Project:
    """Check the project out into a new folder as a tree of its repository has it, and load it.

    Symbolic links that lead out of the copy are left out: a pull request could have kz read this machine's files by them, and print them.
    """
    remove(folder)
    only = (f":(literal){head.prefix}",) if head.prefix else ()
    entries = head.repository.entries(tree, only=only)
    head.repository.checkout(entries, folder)
    top = os.path.realpath(folder)
    for link in (folder / entry.path for entry in entries if entry.mode == LINK):
        if not os.path.realpath(link).startswith(f"{top}/"):
            link.unlink()
    return load_project(folder / head.prefix)


def content_of(head: Head, project: Project, files: Collection[str]) -> tuple[str, str]:
    """Return (the tree of HEAD with these files of a copy, a digest of the files): the digest stays when others change.

    Raises ConfigError for a file behind a link: it would replace the link, and the rest of its folder be gone.
    """
    blobs: dict[str, str] = {}
    top = os.path.realpath(project.root)
    for name in sorted(files):
        path = project.root / name
        if os.path.realpath(path) != os.path.join(top, name):
            raise ConfigError(
                f"{name} lies behind a symbolic link: what moves one line changes the stack of another",
                hint="replace the link by a copy of the folder",
            )
        blobs[head.prefix + name] = blob_of(head, path.read_bytes()) if path.is_file() else ""
    return with_blobs(head, head.commit, blobs), hashlib.sha256(json.dumps(sorted(blobs.items())).encode()).hexdigest()


def blob_of(head: Head, data: bytes) -> str:
    """Return the id of a file's bytes, which are in the repository then."""
    return head.repository.git("hash-object", "-w", "--no-filters", "--stdin", stdin=data).decode().strip()


def with_blobs(head: Head, tree: str, blobs: Mapping[str, str]) -> str:
    """Return a tree with other blobs at these paths; '' removes a file."""
    listing = "".join(f"{'100644' if oid else 0} {oid or '0' * 40}\t{name}\0" for name, oid in blobs.items())
    with scratch_folder() as folder:
        env = {**local_environment(), "GIT_INDEX_FILE": str(folder / "index")}
        checked(head.repository.argv("read-tree", "--end-of-options", tree), env=env)
        checked(head.repository.argv("update-index", "-z", "--index-info"), env=env, stdin=os.fsencode(listing))
        return checked(head.repository.argv("write-tree"), env=env).decode().strip()


def commit_on(head: Head, tree: str, message: str, merged: str = "") -> str:
    """Commit a tree on HEAD, and on what was merged into it, with HEAD's date; return the commit. No ref changes, and the same gives the same commit."""
    words = ("log", "-1", "--format=%cI", "--end-of-options", head.commit)
    date = head.repository.git(*words).decode().strip()
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in zip(("NAME", "EMAIL", "DATE"), (*WHO, date), strict=True)
    }
    second = ("-p", commit_id(merged)) if merged else ()
    argv = head.repository.argv(
        "commit-tree", "-p", commit_id(head.commit), *second, "-F", "-", "--end-of-options", tree
    )
    return checked(argv, env={**local_environment(), **who}, stdin=message.encode()).decode().strip()


def diff(head: Head, commit: str) -> str:
    """Return what a commit changes, as git shows it."""
    words = (
        "diff-tree",
        "-p",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--end-of-options",
        head.commit,
        commit,
    )
    return head.repository.git(*words).decode("utf-8", "replace")
