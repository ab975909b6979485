"""What upstream calls its commits: branches, tags, pull requests; in the clone, and asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kz_build.core.env import networked
from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.process import Output, required, run
from kz_build.git.remote import reachable
from kz_build.git.repository import Repository, local_environment


def fetch_names(repository: Repository) -> None:
    """Bring upstream's branch of the same name as its HEAD, the branches that were brought by name, and all tags."""
    own = refs(repository, "refs/heads")
    said = _asked(repository, "HEAD", *own, options=("--symref",)).decode()
    rows = [line.split() for line in said.splitlines()]
    heads = [words[1] for words in rows if words[0] == "ref:"]
    trunks = [ref for ref in heads if ref.startswith("refs/heads/")] or _guessed(repository)
    there = {*trunks, *(words[1] for words in rows if words[1] in own)}
    _fetch(repository, [*(f"+{ref}:{ref}" for ref in sorted(there)), "+refs/tags/*:refs/tags/*"])
    if trunks:
        repository.git("symbolic-ref", "--end-of-options", "HEAD", trunks[0])


def _guessed(repository: Repository) -> list[str]:
    """Where upstream sends no name with its HEAD (a bundle, a plain web server): a branch at the same commit, as git's clone takes."""
    rows = [row.split("\t") for row in _asked(repository, "HEAD", "refs/heads/*").decode().splitlines()]
    head = next((commit for commit, ref in rows if ref == "HEAD"), "")
    same = [ref for commit, ref in rows if ref != "HEAD" and commit == head]
    return sorted(same, key=lambda ref: ref not in ("refs/heads/main", "refs/heads/master"))[:1]


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
    there = {row.split("\t")[1] for row in _asked(repository, *wanted).decode().splitlines()}
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


def _fetch(repository: Repository, refspecs: Sequence[str]) -> None:
    from kz_build.core import locks  # file locks are needed only where something is written

    with locks.locked(repository.path.parent.parent, repository.path.name, repository.watch):
        specs = "".join(f"{spec}\n" for spec in refspecs).encode()
        _reached(repository, *repository.fetch(["--stdin"], stdin=specs))
        # All only make reading faster: twenty thousand files are slow to list, and which paths a commit changes is then
        # known without its trees. Where a killed git has left its lock behind, it is slower.
        repository.index_packs()
        graph = repository.argv("commit-graph", "write", "--reachable", "--changed-paths")
        for argv in (repository.argv("pack-refs", "--all"), graph):
            run(argv, env=local_environment())


LIST = (
    "-c",
    "versionsort.suffix=-",
    "for-each-ref",
    "--sort=version:refname",
    "--format=%(refname) %(objectname) %(*objectname)",
)


def _asked(repository: Repository, *refs: str, options: Sequence[str] = ()) -> bytes:
    """What upstream says of its refs. Raises MissingError where git does not reach it, CommandError where it is refused."""
    argv = repository.argv("ls-remote", *options, "--end-of-options", "origin", *refs)
    done = run(argv, env=networked())
    _reached(repository, argv, done)
    return done.stdout


def _reached(repository: Repository, argv: Sequence[str], done: Output) -> None:
    try:
        required(argv, done)
    except CommandError as error:
        url = repository.git("config", "remote.origin.url").decode().strip()
        if said := reachable(url, 8.0):
            brings = 'a network that reaches it, or a mirror: git config --global url."<mirror>".insteadOf ' + url
            raise MissingError((Missing(url, said, brings),)) from error
        raise


def refs(repository: Repository, *patterns: str) -> dict[str, str]:
    """Name -> commit of the references under `patterns` (refs/tags, say), in git's order of versions."""
    return listed(repository.git(*LIST, "--end-of-options", *patterns))


def listed(said: bytes) -> dict[str, str]:
    """Name -> commit of what git lists in the form of `LIST`."""
    rows = (line.split(" ") for line in said.decode("utf-8", "replace").splitlines())
    return {name: peeled or commit for name, commit, peeled in rows}


def is_tag(repository: Repository, name: str) -> bool:
    """Whether the clone has a tag of that name."""
    words = ("show-ref", "--verify", "--quiet", "--end-of-options", f"refs/tags/{name}")
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


def releases(repository: Repository) -> tuple[str, ...]:
    """Tags that name a release, in git's order of versions: no folder in them, no suffix like -rc1."""
    names = (ref.removeprefix("refs/tags/") for ref in refs(repository, "refs/tags"))
    return tuple(name for name in names if "/" not in name and "-" not in name)
