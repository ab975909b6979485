"""One pull request for each line, with what moved by itself. Its first line remembers what it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from kz_build.core import github
from kz_build.git.repository import Repository
from kz_build.nightly.head import CONTENT, WHO
from kz_build.nightly.push import remote


@dataclass(frozen=True)
class Proposal:
    """What a pull request proposes: a commit for `branch` on `head`, to be merged into the branch `base`. `content` is a digest
    of what it changes."""

    line: str
    branch: str
    base: str
    head: str
    commit: str
    content: str
    title: str
    body: str

    @property
    def marker(self) -> str:
        """The first line of its text, by which it is known again."""
        return f"kz-nightly-pull {self.line} {self.content}"


class Done(NamedTuple):
    """What was done about an issue or a pull request: opened, updated or nothing; and why nothing, if that is no success."""

    did: str
    url: str = ""
    why: str = ""


class _Pull(NamedTuple):
    number: int
    open: bool
    url: str
    body: str


def last_pull(store: Path, slug: str, proposal: Proposal) -> _Pull | None:
    """Return the open pull request of a branch, or the last one that was."""
    owner = slug.partition("/")[0]
    path = f"/repos/{slug}/pulls?state=all&head={owner}:{proposal.branch}&sort=created&direction=desc&per_page=100"
    pulls = sorted(github.items(store, path, _pull), key=lambda pull: (pull.open, pull.number))
    return pulls[-1] if pulls else None


def known(pull: _Pull | None, proposal: Proposal) -> Done | None:
    """Return what a pull request says about the same content: it is open, or a person has closed it; None if it has other content."""
    if pull is None or not pull.body.startswith(github.comment_marker(proposal.marker)):
        return None
    return Done("nothing", pull.url, "" if pull.open else "it was closed with the same content")


def propose(store: Path, slug: str, repository: Repository, proposal: Proposal) -> Done:
    """Push the branch, and open or update its pull request, unless the last one had the same content."""
    pull = last_pull(store, slug, proposal)
    if done := known(pull, proposal):
        return done
    at = remote(slug)
    tip, base = at.tips(proposal.branch, proposal.base)
    if base != proposal.head:  # a push would take along what nobody has pushed yet
        why = f"{proposal.base} there is not at {proposal.head[:10]}, which is HEAD here"
        return Done("nothing", pull.url if pull else "", why)
    if tip and not _ours(store, slug, tip):
        why = f"{proposal.branch} has commits of others: merge it, or delete it"
        return Done("nothing", pull.url if pull else "", why)
    if tip != proposal.commit:
        at.push(repository, proposal.commit, proposal.branch, tip)
    path = f"/repos/{slug}/pulls"
    text = {"title": proposal.title, "body": github.body_with_marker(proposal.body, proposal.marker)}
    if pull and pull.open:
        github.write("PATCH", f"{path}/{pull.number}", text)
        return Done("updated", pull.url)
    new = github.write("POST", path, {**text, "head": proposal.branch, "base": proposal.base})
    return Done("opened", github.parse(_pull, new, path).url)


def _ours(store: Path, slug: str, commit: str) -> bool:
    """Return whether kz made a commit: one that a person amends has another committer."""

    def made_by_kz(data: Mapping[str, object]) -> bool:
        who = cast(Mapping[str, object], data["committer"])
        return (who["name"], who["email"]) == WHO and f"\n{CONTENT}: " in str(data["message"])

    return github.read(store, f"/repos/{slug}/git/commits/{commit}", made_by_kz)


def _pull(data: Mapping[str, object]) -> _Pull:
    return _Pull(int(str(data["number"])), data["state"] == "open", str(data["html_url"]), str(data["body"] or ""))
