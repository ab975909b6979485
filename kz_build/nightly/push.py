"""A commit pushed to a branch on GitHub, by git itself: without its hooks, and with the token in no argument and no message."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from kz_build.core import github
from kz_build.core.env import networked, variable
from kz_build.core.errors import CommandError
from kz_build.core.process import Output, run
from kz_build.git.object_types import output_lines
from kz_build.git.repository import Repository


class Remote(NamedTuple):
    """A repository on GitHub: its address, and the environment in which git may write there."""

    url: str
    token: str

    def git(self, *words: str, repository: Repository | None = None) -> Output:
        """Run git with the token, which only this server gets: no redirect, no other helper for passwords, no hook."""
        basic = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        header = f"http.{self.url}.extraHeader"
        settings = (
            ("core.hooksPath", "/dev/null"),
            ("credential.helper", ""),
            ("http.followRedirects", "false"),
            ("http.extraHeader", ""),  # what actions/checkout may have left, too
            (header, ""),
            (header, f"Authorization: Basic {basic}"),
        )
        argv = repository.argv(*words) if repository else ["git", *words]
        done = run(argv, env={**networked(settings), "GIT_ASKPASS": ""})
        return Output(done.code, self._without_token(done.stdout, basic), self._without_token(done.stderr, basic))

    def _without_token(self, text: bytes, basic: str) -> bytes:
        for secret in (self.token, basic):
            text = text.replace(secret.encode(), b"***")
        return text

    def tips(self, *branches: str) -> tuple[str, ...]:
        """Return the commits of branches, '' for one that is not there."""
        words = ("ls-remote", "--quiet", "--end-of-options", self.url, *(f"refs/heads/{name}" for name in branches))
        done = self.git(*words)
        if done.code:
            raise self._refused(branches[0], done)
        commits = {ref: commit for commit, ref in (row.split("\t") for row in output_lines(done.stdout))}
        return tuple(commits.get(f"refs/heads/{name}", "") for name in branches)

    def push(self, repository: Repository, commit: str, branch: str, expected: str) -> None:
        """Move a branch from the commit `expected` ('': it must not exist) to another. Raises CommandError if it is refused."""
        ref = f"refs/heads/{branch}"
        words = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no")
        lease = f"--force-with-lease={ref}:{expected}"
        done = self.git(*words, lease, "--end-of-options", self.url, f"{commit}:{ref}", repository=repository)
        if done.code:
            raise self._refused(branch, done)

    def _refused(self, branch: str, done: Output) -> CommandError:
        rows = [row for data in (done.stdout, done.stderr) for row in data.decode("utf-8", "replace").splitlines()]
        marks = ("!\t", "remote: ", "fatal: ", "error: ")
        reasons = [row.removeprefix(mark).split("\t")[-1] for mark in marks for row in rows if row.startswith(mark)]
        reason = reasons[0] if reasons else f"git ended with {done.code}"
        hint = ""
        if re.search(r"\b40[13]\b|denied|could not read Username", "\n".join(rows)):
            hint = "the token needs `contents: write`; in a workflow: `permissions: contents: write`"
        if "stale info" in reason:
            hint = f"somebody pushed to {branch} at the same time: the next run looks again"
        return CommandError(f"{self.url} refused {branch}: {reason}", hint=hint)


def remote(slug: str) -> Remote:
    """Return a repository of GITHUB_SERVER_URL. Raises MissingError without a token."""
    server = (variable("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")
    return Remote(f"{server}/{slug}.git", github.required_token("contents"))
