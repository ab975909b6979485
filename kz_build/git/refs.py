"""Upstream's names for its commits: branches, tags, pull requests; in the clone, and at upstream."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.files import disk_errors
from kz_build.core.process import Output, answered, require_success, run
from kz_build.core.rules import bad_version
from kz_build.git.environment import local_environment, upstream_environment
from kz_build.git.object_types import cut_subject, output_lines
from kz_build.git.remote import reachable
from kz_build.git.repository import Repository

_INCOMPLETE = "kz-names-incomplete"
"""A clone's file that is there while its names are fetched, and after a fetch of them that was killed."""


class UnknownRevisionError(ConfigError):
    """Upstream has no such tag, branch, commit or pull request."""


def fetch_names(repository: Repository) -> None:
    """Fetch upstream's branch of the same name as its HEAD, the branches that were fetched by name, and all tags."""
    own = refs(repository, "refs/heads")
    output = _ls_remote(repository, "HEAD", *own, options=("--symref",))
    rows = [line.replace("\t", " ").split(" ") for line in output_lines(output)]
    heads = [words[1] for words in rows if words[0] == "ref:"]
    trunks = [ref for ref in heads if ref.startswith("refs/heads/")] or _guess_trunk(repository)
    existing = {*trunks, *(words[1] for words in rows if words[1] in own)}
    with _names_incomplete(repository):
        _fetch(repository, [*(f"+{ref}:{ref}" for ref in sorted(existing)), "+refs/tags/*:refs/tags/*"], atomic=True)
        if trunks:
            repository.git("symbolic-ref", "--end-of-options", "HEAD", trunks[0])


@contextlib.contextmanager
def _names_incomplete(repository: Repository) -> Iterator[None]:
    """Mark the clone's names as incomplete in this block: git writes one after the other, and may be killed between two.

    The mark stays after a kill. A git that fails by itself has changed no name (`--atomic`), and leaves the mark as it was.
    """
    mark = repository.path / _INCOMPLETE
    before = mark.exists()
    with disk_errors(mark):
        mark.touch()
    try:
        yield
    except (CommandError, MissingError) as error:
        if not before and not (isinstance(error, CommandError) and error.code < 0):
            mark.unlink(missing_ok=True)
        raise
    mark.unlink(missing_ok=True)


def has_all_names(repository: Repository) -> bool:
    """Return whether the last fetch of upstream's names was not killed on its way."""
    return not (repository.path / _INCOMPLETE).exists()


def _guess_trunk(repository: Repository) -> list[str]:
    """Guess the branch of HEAD if upstream does not name it (a bundle, a plain web server): one at the same commit, as git clone does."""
    rows = [row.split("\t") for row in output_lines(_ls_remote(repository, "HEAD", "refs/heads/*"))]
    head = next((commit for commit, ref in rows if ref == "HEAD"), "")
    same = [ref for commit, ref in rows if ref != "HEAD" and commit == head]
    return sorted(same, key=lambda ref: ref not in ("refs/heads/main", "refs/heads/master"))[:1]


def trunk(repository: Repository) -> str:
    """Return the name of upstream's own branch, usually main; upstream is asked if the clone does not know it."""
    if name := known_trunk(repository):
        return name
    fetch_names(repository)
    if name := known_trunk(repository):
        return name
    raise ConfigError(
        "upstream's HEAD names no branch", hint="it is empty, or a clone on no branch: git switch BRANCH there"
    )


def known_trunk(repository: Repository) -> str:
    """Return the name of upstream's own branch as the clone has it, '' if it does not know it, or not all of upstream's names."""
    if not has_all_names(repository):
        return ""
    name = repository.git("symbolic-ref", "--short", "HEAD").decode().strip()
    return name if commit_of(repository, name) else ""


def fetch_name(repository: Repository, name: str) -> None:
    """Fetch one branch by name. Raises CommandError if upstream has none."""
    _fetch(repository, [f"+refs/heads/{name}:refs/heads/{name}"])


def fetch_pulls(repository: Repository, numbers: Iterable[int] | None) -> tuple[int, ...]:
    """Fetch the heads of pull requests, GitHub's refs/pull/N/head; None for all. Return those that upstream lacks."""
    if numbers is None:
        _fetch(repository, ["+refs/pull/*/head:refs/pull/*/head"])
        return ()
    wanted = {f"refs/pull/{n}/head": n for n in sorted(numbers)}
    if not wanted:
        return ()
    existing = {row.split("\t")[1] for row in output_lines(_ls_remote(repository, *wanted))}
    if existing:
        _fetch(repository, [f"+{ref}:{ref}" for ref in wanted if ref in existing])
    return tuple(n for ref, n in wanted.items() if ref not in existing)


def fetch_pull(repository: Repository, number: int) -> str:
    """Fetch one pull request; return its head. Raises ConfigError if upstream has none with that number."""
    if fetch_pulls(repository, [number]):
        raise ConfigError(f"upstream has no pull request #{number}")
    return commit_of(repository, f"refs/pull/{number}/head")


def pulls(repository: Repository, since: str = "") -> dict[int, str]:
    """Return number -> head of the pull requests in the clone; with `since` (YYYY-MM-DD) only heads committed then or later."""
    form = "%(refname) %(objectname)" + (" %(committerdate:short)" if since else "")
    heads = {}
    for line in output_lines(repository.git("for-each-ref", f"--format={form}", "refs/pull")):
        name, head, *date = line.split(" ")
        number = name.split("/")[2]
        # Upstream may have any name there: ² is a digit, too, and no number.
        if name.endswith("/head") and re.fullmatch("[0-9]{1,18}", number) and (not date or date[0] >= since):
            heads[int(number)] = head
    return heads


def subjects(repository: Repository, commits: Collection[str]) -> dict[str, str]:
    """Return the first line of each commit's message, as it is shown."""
    if not commits:  # git would take HEAD
        return {}
    output = repository.git(
        "log", "--no-walk", "--stdin", "--format=%H %s", stdin="".join(f"{c}\n" for c in commits).encode()
    )
    rows = (row.partition(" ") for row in output_lines(output))
    return {commit: cut_subject(subject) for commit, _, subject in rows}


def _fetch(repository: Repository, refspecs: Sequence[str], *, atomic: bool = False) -> None:
    from kz_build.core import locks  # file locks are needed only where something is written

    with locks.lock(repository.path.parent.parent, repository.path.name, repository.watch):
        specs = "".join(f"{spec}\n" for spec in refspecs).encode()
        _require_reached(repository, *repository.fetch(["--atomic", "--stdin"] if atomic else ["--stdin"], stdin=specs))
        # These only make reading faster: twenty thousand files are slow to list, and the paths that a commit changes are
        # then known without its trees. A lock file of a killed git makes it slower.
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


def _ls_remote(repository: Repository, *refs: str, options: Sequence[str] = ()) -> bytes:
    """Run git ls-remote. Raises MissingError if git does not reach upstream, CommandError if upstream refuses."""
    argv = repository.argv("ls-remote", *options, "--end-of-options", "origin", *refs)
    result = run(argv, env=upstream_environment())
    _require_reached(repository, argv, result)
    return result.stdout


def _require_reached(repository: Repository, argv: Sequence[str], done: Output) -> None:
    try:
        require_success(argv, done)
    except CommandError as error:
        if error.code < 0:  # it was killed, which says nothing of upstream
            raise
        url = repository.git("config", "remote.origin.url").decode().strip()
        if problem := reachable(url, 8.0):
            remedy = 'a network that reaches it, or a mirror: git config --global url."<mirror>".insteadOf ' + url
            raise MissingError((Missing(url, problem, remedy),)) from error
        raise


def refs(repository: Repository, *patterns: str) -> dict[str, str]:
    """Return name -> commit of the references under `patterns` (such as refs/tags), in git's order of versions."""
    return parse_refs(repository.git(*LIST, "--end-of-options", *patterns))


def parse_refs(output: bytes) -> dict[str, str]:
    """Return name -> commit of git's output in the form of `LIST`."""
    rows = (line.split(" ") for line in output_lines(output))
    return {name: peeled or commit for name, commit, peeled in rows}


def is_tag(repository: Repository, name: str) -> bool:
    """Return whether the clone has a tag of that name."""
    argv = repository.argv("show-ref", "--verify", "--quiet", "--end-of-options", f"refs/tags/{name}")
    return answered(argv, run(argv, env=local_environment())).code == 0


def commit_of(repository: Repository, name: str) -> str:
    """Return the commit that a tag, branch, pull request or id names in the clone, '' if it knows none."""
    with repository.objects() as objects:
        commit = objects.commit(name)
    return commit[0] if commit else ""


def resolve_revision(repository: Repository, name: str) -> str:
    """Return the commit of a name; upstream is asked for its names if the clone does not know it. Raises ConfigError."""
    if commit := commit_of(repository, name):
        return commit
    fetch_names(repository)
    if commit := commit_of(repository, name):
        return commit
    try:
        if re.fullmatch("[0-9a-f]{40}", name):
            repository.fetch_commit(name, name, history=True)
        elif not bad_version(name):  # git would take `*` for every branch
            fetch_name(repository, name)
    except CommandError as error:
        if error.code < 0:  # it was killed, which says nothing of upstream
            raise
    if commit := commit_of(repository, name):
        return commit
    import difflib

    names = [ref.split("/", 2)[2] for ref in refs(repository, "refs/tags", "refs/heads")]
    near = difflib.get_close_matches(name, names, 3)
    newest, hint = releases(repository)[-3:], "a commit that no branch has must be given in full"
    if near:
        hint = f"near ones: {', '.join(near)}"
    elif newest and not re.fullmatch("[0-9a-f]{4,39}", name):
        hint = f"its newest tags: {', '.join(newest)}"
    raise UnknownRevisionError(f"upstream has no tag, branch or commit {name!r}", hint=hint)


def releases(repository: Repository) -> tuple[str, ...]:
    """Return the tags that name a release, in git's order of versions: no folder in them, no suffix like -rc1."""
    names = (ref.removeprefix("refs/tags/") for ref in refs(repository, "refs/tags"))
    return tuple(name for name in names if "/" not in name and "-" not in name)
