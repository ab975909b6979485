"""Questions to an upstream repository over the network."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kz_build.core.errors import ConfigError
from kz_build.core.process import answered, checked, run
from kz_build.git.environment import upstream_environment
from kz_build.git.machine_errors import require_answer
from kz_build.git.object_types import output_lines


def resolve(url: str, version: str) -> str:
    """Return the commit that a tag, branch or full id names upstream.

    Raises UnreachableError if the server does not answer, ConfigError if it has no such name or names its commits by SHA-256.
    """
    if len(version) == 40 and set(version) <= set("0123456789abcdef"):
        return version
    # One request for all tags and branches: the answer to a wrong name lists similar ones.
    argv = ("git", "ls-remote", "--tags", "--heads", "--end-of-options", url)
    output = run(argv, env=upstream_environment())
    require_answer(argv, output)
    refs = {ref: oid for oid, ref in (line.split("\t") for line in output_lines(output.stdout))}
    _require_sha1(url, refs.values())
    for ref in (f"refs/tags/{version}^{{}}", f"refs/tags/{version}", f"refs/heads/{version}"):
        if ref in refs:
            return refs[ref]
    import difflib

    names = [r.split("/", 2)[2] for r in refs if not r.endswith("^{}")]
    near = difflib.get_close_matches(version, names, 3)
    there = f"near ones: {', '.join(near)}" if near else f"it has: {', '.join(names[-8:]) or 'none'}"
    raise ConfigError(f"{url} has no tag or branch {version!r}", hint=there)


def newest(url: str) -> str:
    """Return upstream's newest release tag: no folder in it, no suffix like -rc1; if there is none, its newest tag, else HEAD's commit."""
    words = ("-c", "versionsort.suffix=-", "ls-remote", "--tags", "--refs", "--sort=version:refname")
    rows = output_lines(checked(("git", *words, "--end-of-options", url), env=upstream_environment()))
    _require_sha1(url, (row.split("\t")[0] for row in rows))
    tags = [row.split("\t")[1].removeprefix("refs/tags/") for row in rows]
    if tags:
        return next((tag for tag in reversed(tags) if "/" not in tag and "-" not in tag), tags[-1])
    head = checked(("git", "ls-remote", "--end-of-options", url, "HEAD"), env=upstream_environment()).decode()
    if not head:
        raise ConfigError(f"{url} has neither a tag nor a commit", hint="is it empty?")
    _require_sha1(url, head.split()[:1])
    return head.split()[0]


def _require_sha1(url: str, ids: Iterable[str]) -> None:
    """Raise ConfigError for a repository of git's other object format: the store's clones have SHA-1 ids, as patches do."""
    if any(len(oid) != 40 for oid in ids):
        raise ConfigError(
            f"{url} is a repository with SHA-256 ids (git's --object-format=sha256); kz works with SHA-1 ids",
            hint="is there a mirror of it with SHA-1 ids?",
        )


def reachable(url: str, seconds: float) -> str:
    """Return '' if a git server answers, else its error. Raises CommandError if git was killed, which says nothing of the server."""
    argv = ("git", "ls-remote", "--quiet", "--exit-code", "--end-of-options", url, "HEAD")
    done = answered(argv, run(argv, env=upstream_environment(), timeout=seconds))
    if done.code in (0, 2):  # 2: it answered, and has no HEAD (a bundle of tags)
        return ""
    rows = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.code == 124:
        return rows[0]
    # Below its `fatal:` git has lines that suit any failure.
    why = next((row for row in rows if row.startswith("fatal: ")), f"git ls-remote ended with {done.code}")
    return re.sub(r"^fatal: (unable to access '[^']*': )?", "", why)
