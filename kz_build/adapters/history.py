"""Upstream's history as git tells it: names, commits that touch a path, tags that hold a commit, merges of blobs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kz_build.adapters.environment import networked
from kz_build.adapters.git import Repository, local_environment, reachable
from kz_build.adapters.process import all_checked, checked, run, side_by_side
from kz_build.model.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.model.history import Commit


def fetch_names(repository: Repository) -> None:
    """Bring upstream's branch of the same name as its HEAD, the branches that were brought by name, and all tags."""
    own = refs(repository, "refs/heads")
    said = _asked(repository, "ls-remote", "--symref", "origin", "HEAD", *own).decode()
    rows = [line.split() for line in said.splitlines()]
    trunks = [words[1] for words in rows if words[0] == "ref:"]
    there = {*trunks, *(words[1] for words in rows if words[1] in own)}
    _fetch(repository, [*(f"+{ref}:{ref}" for ref in sorted(there)), "+refs/tags/*:refs/tags/*"])
    if trunks:
        repository.git("symbolic-ref", "HEAD", trunks[0])


def trunk(repository: Repository) -> str:
    """Name of upstream's own branch, main for most; upstream is asked where the clone has never heard of it."""
    for ask in (True, False):
        name = repository.git("symbolic-ref", "--short", "HEAD").decode().strip()
        if commit_of(repository, name):
            return name
        if ask:
            fetch_names(repository)
    raise ConfigError("upstream's HEAD names no branch", hint="is it empty?")


def fetch_name(repository: Repository, name: str) -> None:
    """Bring one branch by name. Raises CommandError when upstream has none."""
    _fetch(repository, [f"+refs/heads/{name}:refs/heads/{name}"])


def fetch_pulls(repository: Repository, numbers: Iterable[int] | None) -> tuple[int, ...]:
    """Bring the heads of pull requests, GitHub's refs/pull/N/head; None for all. Gives those that upstream has not."""
    if numbers is None:
        _fetch(repository, ["+refs/pull/*/head:refs/pull/*/head"])
        return ()
    wanted = {f"refs/pull/{n}/head": n for n in sorted(numbers)}
    if not wanted:
        return ()
    there = {row.split("\t")[1] for row in _asked(repository, "ls-remote", "origin", *wanted).decode().splitlines()}
    if there:
        _fetch(repository, [f"+{ref}:{ref}" for ref in wanted if ref in there])
    return tuple(n for ref, n in wanted.items() if ref not in there)


def fetch_pull(repository: Repository, number: int) -> str:
    """Bring one pull request; gives its head. Raises ConfigError where upstream has none of that number."""
    if fetch_pulls(repository, [number]):
        raise ConfigError(f"upstream has no pull request #{number}")
    return commit_of(repository, f"refs/pull/{number}/head")


def pulls(repository: Repository, since: str = "") -> dict[int, str]:
    """Number -> head of the pull requests in the clone; with `since` (YYYY-MM-DD) those whose head was committed then or later."""
    form = "%(refname) %(objectname)" + (" %(committerdate:short)" if since else "")
    found = {}
    for line in repository.git("for-each-ref", f"--format={form}", "refs/pull").decode().splitlines():
        name, head, *date = line.split(" ")
        number = name.split("/")[2]
        if name.endswith("/head") and number.isdigit() and (not date or date[0] >= since):
            found[int(number)] = head
    return found


def subjects(repository: Repository, commits: Collection[str]) -> dict[str, str]:
    """The first line of each commit's message."""
    if not commits:  # git would take HEAD
        return {}
    said = repository.git(
        "log", "--no-walk", "--stdin", "--format=%H %s", stdin="".join(f"{c}\n" for c in commits).encode()
    )
    rows = (row.partition(" ") for row in said.decode("utf-8", "replace").splitlines())
    return {commit: subject for commit, _, subject in rows}


def merge_bases(repository: Repository, tip: str, heads: Sequence[str]) -> dict[str, str]:
    """Where each head parted from `tip`'s history, all from one walk; a head with nothing in common is left out."""
    said = repository.git(
        "rev-list", "--parents", "--stdin", stdin="".join(f"{h}\n" for h in (*heads, f"^{tip}")).encode()
    )
    parents = {words[0]: words[1:] for words in (line.split(" ") for line in said.decode().splitlines())}
    # Children before parents: the first of several in this order is nobody's ancestor among them.
    order = repository.git("rev-list", "--topo-order", tip).decode().split()
    place = {commit: i for i, commit in enumerate(order)}
    found = {}
    for head in heads:
        outside, todo, seen = set(), [head], set()
        while todo:
            commit = todo.pop()
            if commit not in parents:
                outside.add(commit)
            elif commit not in seen:
                seen.add(commit)
                todo += parents[commit]
        if outside:
            found[head] = min(outside, key=lambda commit: place[commit])
    return found


def _fetch(repository: Repository, refspecs: Sequence[str]) -> None:
    from kz_build.adapters import store  # file locks are needed only where something is written

    with store.locked(repository.path.parent.parent, repository.path.name):
        _asked(
            repository,
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", "--stdin", "origin"),
            stdin="".join(f"{spec}\n" for spec in refspecs).encode(),
        )
        # All only make reading faster: twenty thousand files are slow to list, and which paths a commit changes is then
        # known without its trees. Where a killed git has left its lock behind, it is slower.
        repository.index_packs()
        for words in (("pack-refs", "--all"), ("commit-graph", "write", "--reachable", "--changed-paths")):
            run(repository.argv(*words), env=local_environment())


_LIST = (
    "-c",
    "versionsort.suffix=-",
    "for-each-ref",
    "--sort=version:refname",
    "--format=%(refname) %(objectname) %(*objectname)",
)


def _asked(repository: Repository, *words: str, stdin: bytes = b"") -> bytes:
    """What git says of upstream. Raises MissingError where it does not get there, CommandError where it is refused."""
    try:
        return checked(repository.argv(*words), env=networked(), stdin=stdin)
    except CommandError as error:
        url = repository.git("config", "remote.origin.url").decode().strip()
        if said := reachable(url, 8.0):
            brings = 'a network that reaches it, or a mirror: git config --global url."<mirror>".insteadOf ' + url
            raise MissingError((Missing(url, said, brings),)) from error
        raise


def refs(repository: Repository, *patterns: str) -> dict[str, str]:
    """Name -> commit of the references under `patterns` (refs/tags, say), in git's order of versions."""
    return _listed(repository.git(*_LIST, *patterns))


def _listed(said: bytes) -> dict[str, str]:
    rows = (line.split(" ") for line in said.decode("utf-8", "replace").splitlines())
    return {name: peeled or commit for name, commit, peeled in rows}


def is_tag(repository: Repository, name: str) -> bool:
    """Whether the clone has a tag of that name."""
    words = ("show-ref", "--verify", "--quiet", f"refs/tags/{name}")
    return run(repository.argv(*words), env=local_environment()).code == 0


def commit_of(repository: Repository, name: str) -> str:
    """Commit that a tag, branch, pull request or id names in the clone, '' where it knows none."""
    with repository.objects() as objects:
        found = objects.commit(name)
    return found[0] if found else ""


def known_or_fetched(repository: Repository, name: str) -> str:
    """Commit of a name; upstream is asked for its names where the clone has never heard of it. Raises ConfigError."""
    if commit := commit_of(repository, name):
        return commit
    fetch_names(repository)
    if commit := commit_of(repository, name):
        return commit
    try:
        if re.fullmatch("[0-9a-f]{40}", name):
            repository.fetch_commit(name, name, history=True)
        else:
            fetch_name(repository, name)
    except CommandError:
        import difflib

        names = [ref.split("/", 2)[2] for ref in refs(repository, "refs/tags", "refs/heads")]
        near = difflib.get_close_matches(name, names, 3)
        raise ConfigError(
            f"upstream has no tag, branch or commit {name!r}",
            hint=f"near ones: {', '.join(near)}" if near else "a commit that no branch has must be given in full",
        ) from None
    return commit_of(repository, name)


def merge_base(repository: Repository, a: str, b: str) -> str:
    """Where two commits parted, '' where they have nothing in common."""
    done = run(repository.argv("merge-base", a, b), env=local_environment())
    return done.stdout.decode().split("\n", 1)[0]


def forked(repository: Repository, head: str, tip: str) -> str:
    """The commit that a branch began at, also where it was merged into `tip` since; '' where they have nothing in common."""
    base = merge_base(repository, head, tip)
    if base != head:
        return base
    merges = repository.git("rev-list", "--first-parent", "--ancestry-path", f"{head}..{tip}").decode().split()
    return merge_base(repository, head, f"{merges[-1]}^1") if merges else base


def landed(repository: Repository, tip: str, numbers: Collection[int]) -> dict[int, Commit]:
    """Pull request -> the newest commit of tip's history whose subject ends with its number."""
    if not numbers:
        return {}
    said = repository.git(
        "log",
        "--first-parent",
        "--extended-regexp",
        f"--grep=\\(#({'|'.join(map(str, sorted(numbers)))})\\)",
        "--format=%H%x00%cI%x00%s",
        tip,
    )
    rows = (row.split("\0", 2) for row in said.decode("utf-8", "replace").splitlines())
    commits = [Commit(oid, date, subject) for oid, date, subject in rows]
    return {c.pull: c for c in reversed(commits) if c.pull in numbers}


def log(repository: Repository, base: str, tip: str, paths: Iterable[str]) -> tuple[Commit, ...]:
    """Commits of base..tip (all of tip's where base is '') along first parents that touch one of the paths, oldest first."""
    return _commits(repository.git(*_log(f"{base}..{tip}" if base else tip, paths)))


class Walk(NamedTuple):
    """base..tip along first parents: how many commits, those that touch the paths, and what the releases hold of it."""

    total: int
    commits: tuple[Commit, ...]
    above: bytes
    tags: bytes

    def first_tags(self, commits: Collection[str]) -> dict[str, str]:
        """The first release that has each commit: the lowest version without a suffix like -rc1, or with one if there is
        no other; '' where none has it."""
        return _first_tags(self.above, self.tags, commits)


def walk(repository: Repository, base: str, tip: str, paths: Iterable[str]) -> Walk:
    """All that a history asks of git, at the same time."""
    span = f"{base}..{tip}"
    count = repository.argv("rev-list", "--count", "--first-parent", span)
    words = [*_above(repository, base), count, repository.argv(*_log(span, paths))]
    above, tags, total, said = all_checked(words, env=local_environment())
    return Walk(int(total), _commits(said), above, tags)


def first_tags(repository: Repository, commits: Collection[str], since: str) -> dict[str, str]:
    """As Walk's; `since` is a revision that has none of the commits."""
    above, tags = all_checked(_above(repository, since), env=local_environment())
    return _first_tags(above, tags, commits)


def _log(span: str, paths: Iterable[str]) -> tuple[str, ...]:
    form = (
        "--diff-merges=first-parent",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-z",
        "--format=%x01%H%x00%cI%x00%s%x00",
    )
    return ("log", "--first-parent", "--reverse", *form, span, "--", *(f":(literal){path}" for path in sorted(paths)))


def _commits(said: bytes) -> tuple[Commit, ...]:
    found = []
    for record in said.split(b"\1")[1:]:
        commit, date, subject, *rest = record.split(b"\0")
        changes = []
        fields = [field.strip(b"\n") for field in rest if field.strip(b"\n")]
        for facts, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, before, after, _ = facts.decode().split(" ")
            changes.append((os.fsdecode(path), mode, before, after))
        found.append(Commit(commit.decode(), date.decode(), subject.decode("utf-8", "replace"), tuple(changes)))
    return tuple(found)


def releases(repository: Repository) -> tuple[str, ...]:
    """Tags that name a release, in git's order of versions: no folder in them, no suffix like -rc1."""
    names = (ref.removeprefix("refs/tags/") for ref in refs(repository, "refs/tags"))
    return tuple(name for name in names if "/" not in name and "-" not in name)


def _above(repository: Repository, since: str) -> list[list[str]]:
    """Every commit that a tag has and `since` has not, with its parents; then the tags in git's order of versions."""
    return [
        repository.argv("rev-list", "--topo-order", "--parents", "--exclude=*/*", "--tags", f"^{since}"),
        repository.argv(*_LIST, "refs/tags/*"),
    ]


def _first_tags(above: bytes, tags: bytes, commits: Collection[str]) -> dict[str, str]:
    holds: dict[str, frozenset[str]] = {}
    for row in reversed(above.decode().splitlines()):
        commit, *parents = row.split(" ")
        own = frozenset((commit,) if commit in commits else ())
        holds[commit] = own.union(*(holds.get(parent, own) for parent in parents))
    named = [(ref.removeprefix("refs/tags/"), at) for ref, at in _listed(tags).items()]
    named.sort(
        key=lambda tag: "-" in tag[0]
    )  # the order of versions stays, and those with a suffix come after the others
    return {commit: next((tag for tag, at in named if commit in holds.get(at, ())), "") for commit in commits}


def diff_blobs(repository: Repository, before: str, after: str) -> bytes:
    """git's diff between two blobs of the repository, without context."""
    return repository.git("diff", "--no-ext-diff", "--no-color", "-U0", before, after)


def changed_blobs(repository: Repository, base: str, tip: str, paths: Sequence[str]) -> set[str]:
    """Ids of all blobs that base..tip has before or after a change, each commit's and all of it as one."""
    form = ("--raw", "--no-abbrev", "--no-renames", "-z")
    words = (
        ("log", "-m", "--format=", *form, f"{base}..{tip}", "--", *paths),
        ("diff-tree", "-r", *form, base, tip, "--", *paths),
    )
    found: set[str] = set()
    for word in words:
        for field in repository.git(*word).split(b"\0"):
            if field.lstrip(b"\n").startswith(b":"):
                _, new, before, after, _ = field.decode().strip().lstrip(":").split(" ")
                found |= {before, after} if new != "160000" else set()
    return {oid for oid in found if oid.strip("0")}


def merge_file(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """git's three-way merge of file contents; None where it conflicts."""
    return merge_files([(ours, base, theirs)])[0]


def merge_files(asked: Sequence[tuple[bytes, bytes, bytes]]) -> list[bytes | None]:
    """As `merge_file`, for each (ours, base, theirs), several at the same time."""
    found: list[bytes | None] = []
    for start in range(0, len(asked), MERGES):
        with tempfile.TemporaryDirectory(prefix="kz-merge-") as folder:
            argvs = []
            for number, parts in enumerate(asked[start : start + MERGES]):
                files = [Path(folder, f"{number}-{name}") for name in ("ours", "base", "theirs")]
                for file, data in zip(files, parts, strict=True):
                    file.write_bytes(data)
                argvs.append(["git", "merge-file", "-p", "-q", *map(str, files)])
            done = side_by_side(argvs, env=local_environment())
        found += [one.stdout if one.code == 0 else None for one in done]
    return found


MERGES = 16
"""How many merges of files run at the same time."""


def renamed(repository: Repository, base: str, tip: str, path: str) -> tuple[Commit, str] | None:
    """The commit between base and tip that took a path away, and where the file went ('' where it was removed).

    Renames of renames are followed. None where no commit on the way did it.
    """
    last: tuple[Commit, str] | None = None
    for _ in range(10):
        commits = [c for c in log(repository, base, tip, [path]) if any(not a.strip("0") for _, _, _, a in c.changes)]
        if not commits:
            return last
        commit = commits[-1]
        went = _went(repository, commit.id, path)
        last = (commit, went)
        if not went:
            return last
        base, path = commit.id, went
    return last


def _went(repository: Repository, commit: str, path: str) -> str:
    """Where a commit moved a file to, by git's own measure of likeness."""
    rows = repository.git("diff-tree", "-r", "--raw", "--no-abbrev", "--no-commit-id", "--no-renames", "-z", commit)
    fields = rows.split(b"\0")
    old, added = "", []
    for facts, name in zip(fields[::2], fields[1::2], strict=False):
        _, _, before, after, status = facts.decode().split(" ")
        if os.fsdecode(name) == path:
            old = before
        elif status == "A" and Path(os.fsdecode(name)).suffix == Path(path).suffix:
            added.append((os.fsdecode(name), after))
    if not old:
        return ""
    exact = next((name for name, oid in added if oid == old), "")
    if exact or not added:
        return exact
    repository.fetch_blobs({old, *(oid for _, oid in added)})
    names = [f":(literal){name}" for name in (path, *(name for name, _ in added))]
    said = repository.git("diff-tree", "-r", "-M", "--name-status", "--no-commit-id", "-z", commit, "--", *names)
    fields = said.split(b"\0")
    for at, field in enumerate(fields):
        if field.startswith(b"R") and os.fsdecode(fields[at + 1]) == path:
            return os.fsdecode(fields[at + 2])
    return ""
