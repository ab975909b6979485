"""Worktrees in which a person resolves conflicts and edits a stack: git's own, with that person's configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kz_build.core.env import networked
from kz_build.core.errors import CommandError
from kz_build.core.files import remove
from kz_build.core.process import Output, checked, run
from kz_build.git.repository import Repository, commit_id, local_environment

_UNFINISHED = "kz has not finished it"
"""Git's reason for the lock on a worktree that is being made."""


@dataclass(frozen=True)
class Worktree:
    """A worktree of a repository in the store; its HEAD is detached, or on a branch that its user made."""

    repository: Repository
    path: Path

    def exists(self) -> bool:
        """Return whether it was completed, and not thrown away since."""
        pointer = self.path / ".git"
        if not pointer.is_file():
            return False
        place = self.path / pointer.read_text().removeprefix("gitdir: ").strip()
        lock = place / "locked"
        return (place / "HEAD").is_file() and not (lock.is_file() and lock.read_text().strip() == _UNFINISHED)

    def git(self, *words: str) -> Output:
        """Run git in it as its user would, but without an editor; return any exit code."""
        return run(["git", *words], env=_environment(), cwd=self.path)

    def output(self, *words: str) -> str:
        """Return git's output. Raises CommandError."""
        return checked(["git", *words], env=_environment(), cwd=self.path).decode("utf-8", "replace")

    def add(self, commit: str, paths: Iterable[str], exclude: Sequence[str]) -> None:
        """Create it at a commit, with the folders of these paths and nothing else; `git sparse-checkout add` adds more.

        The remains of an unfinished one are removed.
        """
        remove(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        repo = self.repository
        repo.git("worktree", "prune")
        # git remembers resolutions for the next line, and shows the common base in conflicts.
        repo.git("config", "rerere.enabled", "true")
        repo.git("config", "merge.conflictStyle", "zdiff3")
        locked = ("--force", "--force", "--lock", "--reason", _UNFINISHED)
        words = ("--quiet", *locked, "--detach", "--no-checkout", "--end-of-options", str(self.path), commit)
        repo.git("worktree", "add", *words)
        folders = sorted({path.rpartition("/")[0] for path in paths})
        patterns = [f"/{folder}/" if folder else "/*\n!/*/" for folder in folders]
        patterns += [f"!{pattern}" for pattern in exclude]
        checked(
            ["git", "sparse-checkout", "set", "--no-cone", "--stdin"],
            env=networked(),
            cwd=self.path,
            stdin="".join(f"{pattern}\n" for pattern in patterns).encode(),
        )
        self.output("reset", "--quiet", "--hard", commit_id(commit))
        repo.git("worktree", "unlock", "--end-of-options", str(self.path))

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

    def marked(self) -> tuple[str, ...]:
        """Return the staged files that still contain conflict markers."""
        changed = [
            f":(literal){name}" for name in self.output("diff", "--cached", "--name-only", "-z").split("\0")[:-1]
        ]
        # Never the whole index: most of its files are not on this machine, and git would fetch them one by one.
        output = self.git("grep", "--cached", "-lzE", "^(<{7}|>{7}) ", "--", *changed).stdout if changed else b""
        return tuple(output.decode("utf-8", "replace").split("\0")[:-1])

    def dirty(self) -> tuple[str, ...]:
        """Return tracked files with uncommitted changes, and new files that git does not ignore."""
        rows = self.output("status", "--porcelain", "-z").split("\0")
        return tuple(row[3:] for row in rows if row)

    def remove(self) -> None:
        """Throw it away, complete or not."""
        if self.path.exists():
            words = ("worktree", "remove", "--force", "--force", "--end-of-options", str(self.path))
            if run(self.repository.argv(*words), env=local_environment()).code:
                remove(self.path)
            self.repository.git("worktree", "prune")


def _environment() -> dict[str, str]:
    """Name a committer: a stack does not store it, so users need not configure git."""
    who = {"GIT_COMMITTER_NAME": "kz_build", "GIT_COMMITTER_EMAIL": "kz_build@localhost"}
    return {**networked(), **who, "GIT_EDITOR": "true"}


def range_diff(repository: Repository, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Return git's comparison of two series, each as (base, tip); blobs that it requires are fetched."""
    ranges = (f"{commit_id(old[0])}..{commit_id(old[1])}", f"{commit_id(new[0])}..{commit_id(new[1])}")
    argv = repository.argv("range-diff", "--no-color", "--creation-factor=80", *ranges)
    try:
        return checked(argv, env=networked()).decode("utf-8", "replace")
    except CommandError as error:
        return f"(no range-diff: {str(error).splitlines()[-1]})\n"
