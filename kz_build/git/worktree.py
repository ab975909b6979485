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
"""The reason of git's lock on a worktree that is being made."""


@dataclass(frozen=True)
class Worktree:
    """A worktree of a repository in the store; its HEAD is detached, or on a branch that its user made."""

    repository: Repository
    path: Path

    def exists(self) -> bool:
        """Whether it was made to its end and not thrown away since."""
        pointer = self.path / ".git"
        if not pointer.is_file():
            return False
        place = self.path / pointer.read_text().removeprefix("gitdir: ").strip()
        lock = place / "locked"
        return (place / "HEAD").is_file() and not (lock.is_file() and lock.read_text().strip() == _UNFINISHED)

    def git(self, *words: str) -> Output:
        """Run git in it as its user would, but without an editor; whatever its exit code."""
        return run(["git", *words], env=_environment(), cwd=self.path)

    def said(self, *words: str) -> str:
        """What git prints. Raises CommandError."""
        return checked(["git", *words], env=_environment(), cwd=self.path).decode("utf-8", "replace")

    def add(self, commit: str, paths: Iterable[str], exclude: Sequence[str]) -> None:
        """Make it at a commit, with the folders of these paths and nothing else; `git sparse-checkout add` adds more.

        What was left of one that was not finished is removed.
        """
        remove(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        repo = self.repository
        repo.git("worktree", "prune")
        # Resolutions are remembered for the next line, and conflicts show what both sides came from.
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
        self.said("reset", "--quiet", "--hard", commit_id(commit))
        repo.git("worktree", "unlock", "--end-of-options", str(self.path))

    def head(self) -> str:
        """Commit that HEAD is at."""
        return self.said("rev-parse", "HEAD").strip()

    def at(self, commit: str) -> None:
        """Move it to a commit; uncommitted changes are lost."""
        self.said("reset", "--quiet", "--hard")
        self.said("checkout", "--quiet", "--detach")
        # `git checkout` of another commit would end with 0 where the disk is full.
        self.said("reset", "--quiet", "--hard", commit_id(commit))

    def picking(self) -> bool:
        """Whether a cherry-pick is under way."""
        return self.git("rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD").code == 0

    def busy(self) -> str:
        """What git is in the middle of, by the command that goes on with it: rebase, am, cherry-pick, merge, revert, or ''."""
        folder = Path(self.said("rev-parse", "--absolute-git-dir").strip())
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
        """Files with conflicts that nobody has marked as resolved."""
        return tuple(self.said("diff", "--name-only", "--diff-filter=U", "-z").split("\0")[:-1])

    def marked(self) -> tuple[str, ...]:
        """Staged files that still hold conflict markers."""
        changed = [f":(literal){name}" for name in self.said("diff", "--cached", "--name-only", "-z").split("\0")[:-1]]
        # Never the whole index: most of its files are not on this machine, and git would fetch them one by one.
        said = self.git("grep", "--cached", "-lzE", "^(<{7}|>{7}) ", "--", *changed).stdout if changed else b""
        return tuple(said.decode("utf-8", "replace").split("\0")[:-1])

    def dirty(self) -> tuple[str, ...]:
        """Tracked files with changes that are not committed, and new files that git would not ignore."""
        rows = self.said("status", "--porcelain", "-z").split("\0")
        return tuple(row[3:] for row in rows if row)

    def remove(self) -> None:
        """Throw it away, or what there is of it."""
        if self.path.exists():
            words = ("worktree", "remove", "--force", "--force", "--end-of-options", str(self.path))
            if run(self.repository.argv(*words), env=local_environment()).code:
                remove(self.path)
            self.repository.git("worktree", "prune")


def _environment() -> dict[str, str]:
    """Who commits is not kept in a stack, so nobody has to tell git who they are."""
    who = {"GIT_COMMITTER_NAME": "kz_build", "GIT_COMMITTER_EMAIL": "kz_build@localhost"}
    return {**networked(), **who, "GIT_EDITOR": "true"}


def range_diff(repository: Repository, old: tuple[str, str], new: tuple[str, str]) -> str:
    """git's own comparison of two series, each as (base, tip); blobs that it needs are fetched."""
    ranges = (f"{commit_id(old[0])}..{commit_id(old[1])}", f"{commit_id(new[0])}..{commit_id(new[1])}")
    argv = repository.argv("range-diff", "--no-color", "--creation-factor=80", *ranges)
    try:
        return checked(argv, env=networked()).decode("utf-8", "replace")
    except CommandError as error:
        return f"(no range-diff: {str(error).splitlines()[-1]})\n"
