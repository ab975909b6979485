"""Worktrees in which a person resolves conflicts and edits a stack, each a repository of its own, with that person's configuration."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.errors import CommandError
from kz_build.core.files import new_folder, remove, write_atomic
from kz_build.core.process import Output, answered, checked, require_success, run
from kz_build.git.environment import local_environment, upstream_environment
from kz_build.git.repository import BORROWERS, Repository, commit_id, quoted
from kz_build.git.stale_locks import retry_past_stale_locks

# git remembers resolutions for the next line, and shows the common base in conflicts. No checkout ever is the whole tree.
_CONFIGURATION = """\
[core]
\tbare = false
\tlogAllRefUpdates = true
\tsparseCheckout = true
[gc]
\tauto = 0
[rerere]
\tenabled = true
[merge]
\tconflictStyle = zdiff3
"""


@dataclass(frozen=True)
class Worktree:
    """A repository with a checkout; its HEAD is detached, or on a branch that its user made.

    It borrows upstream's objects from a clone in the store, which may be deleted and fetched again. What nobody else has is
    its own: the stack's commits, and those that are made in it.
    """

    repository: Repository

    @property
    def path(self) -> Path:
        """Where its files are."""
        return self.repository.path.parent

    def exists(self) -> bool:
        """Return whether something was checked out completely: git writes the index last."""
        return (self.repository.path / "index").is_file()

    def create(self, resolutions: Path) -> None:
        """Create its repository without a checkout; `resolutions` is the folder where git remembers how conflicts were resolved."""
        with new_folder(self.path) as folder:
            words = ("init", "--quiet", "--template=", "--end-of-options", str(folder))
            checked(["git", *words], env=local_environment())
            git = folder / ".git"
            for probe in git.glob("t??????"):  # git tried symbolic links with it, and could not remove it
                remove(probe)
            (git / "info").mkdir()
            (git / "info" / "sparse-checkout").touch()
            (git / "config").write_text(f"{self.repository.configuration()}{_CONFIGURATION}")
            resolutions.mkdir(parents=True, exist_ok=True)
            (git / "rr-cache").symlink_to(os.path.relpath(resolutions, self.repository.path))

    def borrow(self) -> None:
        """Let it read the clone's objects, wherever the store is now, and let the store know."""
        clone = self.repository.lender or self.repository.path
        alternates = self.repository.path / "objects" / "info" / "alternates"
        for path, data in (
            (alternates, f"{quoted(str(clone / 'objects'))}\n".encode("utf-8", "surrogateescape")),
            (clone / BORROWERS / hashlib.sha256(bytes(self.path)).hexdigest()[:16], bytes(self.path)),
        ):
            if not path.is_file() or path.read_bytes() != data:
                write_atomic(path, data)

    def keep(self, tips: Collection[str], upstream: Collection[str]) -> None:
        """Copy what these commits have beyond upstream's into its own repository: in the store it can be deleted.

        The pack stays when its user runs `git gc`, which would borrow again what the store has.
        """
        repo = self.repository
        kept = set(repo.git("for-each-ref", "--format=%(objectname)", "refs/kz/kept").decode().split())
        if not (new := sorted(set(tips) - kept - set(upstream))):
            return
        revisions = "".join(f"{commit}\n" for commit in (*new, *(f"^{commit}" for commit in sorted(upstream))))
        base = repo.path / "objects" / "pack" / "pack"
        words = ("--revs", "--quiet", "--non-empty", "--missing=allow-promisor", "--end-of-options", str(base))
        if digest := repo.git("pack-objects", *words, stdin=revisions.encode()).decode().strip():
            Path(f"{base}-{digest}.keep").touch()
        refs = "".join(f"update refs/kz/kept/{commit} {commit}\n" for commit in new)
        repo.git("update-ref", "--stdin", stdin=refs.encode())

    def git(self, *words: str) -> Output:
        """Run git in it as its user would, but without an editor; return any exit code. Raises CommandError if it is killed."""
        argv = ["git", *words]
        return answered(argv, retry_past_stale_locks(self.path, lambda: run(argv, env=_environment(), cwd=self.path)))

    def output(self, *words: str) -> str:
        """Return git's output, names of files as Python has them. Raises CommandError."""
        done = self.git(*words)
        require_success(["git", *words], done)
        return os.fsdecode(done.stdout)

    def add(self, commit: str, paths: Collection[str], exclude: Sequence[str]) -> None:
        """Check a commit out for the first time, with the folders of these paths and nothing else, or everything where there
        are none; `git sparse-checkout add` adds more."""
        folders = sorted({path.rpartition("/")[0] for path in paths})
        patterns = [f"/{folder}/" if folder else "/*\n!/*/" for folder in folders] or ["/*"]
        patterns += [f"!{pattern}" for pattern in exclude]
        text = "".join(f"{pattern}\n" for pattern in patterns)
        write_atomic(self.repository.path / "info" / "sparse-checkout", text.encode())
        # Into the clone, for the next worktree: git would fetch them into this one.
        files = self.repository.entries(commit, exclude)
        wanted = {e.id for e in files if not e.submodule and (not folders or _within(e.path, folders))}
        self.repository.fetch_blobs(wanted)
        self.repository.git("update-ref", "--no-deref", "--end-of-options", "HEAD", commit)
        self.output("reset", "--quiet", "--hard", commit_id(commit))

    def head(self) -> str:
        """Return the commit of HEAD."""
        return self.output("rev-parse", "HEAD").strip()

    def reset_to(self, commit: str) -> None:
        """Move it to a commit; uncommitted changes are lost."""
        self.output("reset", "--quiet", "--hard")
        self.output("checkout", "--quiet", "--detach")
        # `git checkout` of another commit would exit with 0 on a full disk.
        self.output("reset", "--quiet", "--hard", commit_id(commit))

    def picking(self) -> bool:
        """Return whether a cherry-pick is in progress."""
        return self.git("rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD").code == 0

    def busy(self) -> str:
        """Return the operation that git is in the middle of: rebase, am, cherry-pick, merge, revert, or ''."""
        folder = Path(self.output("rev-parse", "--absolute-git-dir").strip())
        marks = {
            "rebase-merge": "rebase",
            "rebase-apply/applying": "am",
            "rebase-apply": "rebase",
            "CHERRY_PICK_HEAD": "cherry-pick",
            "MERGE_HEAD": "merge",
            "REVERT_HEAD": "revert",
        }
        return next((verb for mark, verb in marks.items() if (folder / mark).exists()), "")

    def unmerged(self) -> tuple[str, ...]:
        """Return the files with conflicts that are not marked as resolved."""
        return tuple(self.output("diff", "--name-only", "--diff-filter=U", "-z").split("\0")[:-1])

    def forget_resolutions(self, names: Iterable[str]) -> None:
        """Make git forget how conflicts in these files were resolved before, and write them with their markers again."""
        for name in names:
            self.output("rerere", "forget", "--", f":(literal){name}")
            # It fails where one side has no file: git never remembers such a conflict.
            self.git("checkout", "--merge", "--", f":(literal){name}")

    def marked(self) -> tuple[str, ...]:
        """Return the staged files that still contain conflict markers."""
        changed = [
            f":(literal){name}" for name in self.output("diff", "--cached", "--name-only", "-z").split("\0")[:-1]
        ]
        # Never the whole index: most of its files are not on this machine, and git would fetch them one by one.
        words = ("grep", "--cached", "--no-color", "-lzE", "^(<{7}|>{7}) ", "--", *changed)
        if not changed or (done := self.git(*words)).code == 1:  # 1: no file has one
            return ()
        require_success(["git", *words], done)
        return tuple(os.fsdecode(done.stdout).split("\0")[:-1])

    def dirty(self) -> tuple[str, ...]:
        """Return tracked files with uncommitted changes, and new files that git does not ignore."""
        rows = self.output("status", "--porcelain", "--no-renames", "-z").split("\0")
        return tuple(row[3:] for row in rows if row)

    def work(self) -> tuple[str, ...]:
        """Return the branches, tags and stash that its user made: a detached HEAD says nothing of them."""
        words = ("--format=%(refname:short)", "--", "refs/heads", "refs/tags", "refs/stash")
        return tuple(self.output("for-each-ref", *words).split())


def worktree_at(path: Path, repository: Repository) -> Worktree:
    """Return the worktree in a folder that borrows from a clone, or whose repository this is; it may not exist yet."""
    return Worktree(repository._replace(path=path / ".git", lender=repository.lender or repository.path))


def _within(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") if folder else "/" not in path for folder in folders)


def _environment() -> dict[str, str]:
    """Name a committer: a stack does not store it, so users need not configure git. What only reads takes no lock, which
    would stay if it is killed. The user's settings must not hide a new file, call a conflict resolved, or take lines from a
    message.
    """
    who = {"GIT_COMMITTER_NAME": "kz_build", "GIT_COMMITTER_EMAIL": "kz_build@localhost"}
    settings = ("status.showUntrackedFiles", "normal"), ("rerere.autoUpdate", "false")
    message = ("commit.cleanup", "verbatim"), ("i18n.commitEncoding", "UTF-8")
    return {**upstream_environment(*settings, *message), **who, "GIT_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "0"}


def range_diff(repository: Repository, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Return git's comparison of two series, each as (base, tip); blobs that it requires are fetched.

    '' if one has no commit: git then takes its range for the name of a file.
    """
    if old[0] == old[1] or new[0] == new[1]:
        return ""
    ranges = (f"{commit_id(old[0])}..{commit_id(old[1])}", f"{commit_id(new[0])}..{commit_id(new[1])}")
    argv = repository.argv("range-diff", "--no-color", "--creation-factor=80", *ranges)
    try:
        return checked(argv, env=upstream_environment()).decode("utf-8", "replace")
    except CommandError as error:
        return f"(no range-diff: {str(error).splitlines()[-1]})\n"
