"""File contents against each other, as git sees them: diffs and three-way merges."""

from __future__ import annotations

from collections.abc import Sequence

from kz_build.core.locks import scratch_folder
from kz_build.core.process import answered, run_parallel
from kz_build.git.environment import local_environment
from kz_build.git.repository import Repository

MERGES = 16
"""How many merges of files run at the same time."""


def diff_blobs(repository: Repository, before: str, after: str) -> bytes:
    """Return git's diff between two blobs of the repository, without context."""
    return repository.git("diff", "--no-ext-diff", "--no-color", "-U0", "--end-of-options", before, after)


def changed_blobs(repository: Repository, base: str, tip: str, paths: Sequence[str]) -> set[str]:
    """Return the ids of all blobs that base..tip has before or after a change, in each commit and over all of it."""
    form = ("--raw", "--no-abbrev", "--no-renames", "-z")
    each = repository.git("log", "-m", "--format=", *form, "--end-of-options", f"{base}..{tip}", "--", *paths)
    whole = repository.git("diff-tree", "-r", *form, "--end-of-options", base, tip, "--", *paths)
    ids: set[str] = set()
    for field in (*each.split(b"\0"), *whole.split(b"\0")):
        if field.lstrip(b"\n").startswith(b":"):
            _, new, before, after, _ = field.decode().strip().lstrip(":").split(" ")
            ids |= {before, after} if new != "160000" else set()
    return {oid for oid in ids if oid.strip("0")}


def merge_file(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return git's three-way merge of file contents; None if it conflicts."""
    return merge_files([(ours, base, theirs)])[0]


def merge_files(triples: Sequence[tuple[bytes, bytes, bytes]]) -> list[bytes | None]:
    """Merge each (ours, base, theirs) as `merge_file` does, several at the same time."""
    results: list[bytes | None] = []
    for start in range(0, len(triples), MERGES):
        with scratch_folder() as folder:
            argvs = []
            for number, parts in enumerate(triples[start : start + MERGES]):
                files = [folder / f"{number}-{name}" for name in ("ours", "base", "theirs")]
                for file, data in zip(files, parts, strict=True):
                    file.write_bytes(data)
                argvs.append(["git", "merge-file", "-p", "-q", "--end-of-options", *map(str, files)])
            done = run_parallel(argvs, env=local_environment())
        ended = (answered(argv, one) for argv, one in zip(argvs, done, strict=True))
        results += [one.stdout if one.code == 0 else None for one in ended]
    return results
