"""What the cost of history and verify grows with: the distinct contents of the stack's files, and nothing else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from common import Trial, arguments, beyond, in_turn, table, trial

from kz_build.git import log as upstream
from kz_build.git import refs
from kz_build.git import tree_lookup as trees

COMMITS = (10, 100, 1000, 2000)
TAGS = (1, 5, 20, 80)


def timed(found: Trial, runs: int, *words: str) -> tuple[str, str]:
    """Milliseconds beyond `kz --version`: (with nothing remembered, again)."""

    def again() -> None:
        found.kz(*words)

    def first() -> None:
        found.forget()
        again()

    seconds = in_turn(runs, version=lambda: found.kz("--version"), first=first, again=again)
    return tuple(f"{beyond(seconds[name], seconds['version']):.0f}" for name in ("first", "again"))  # type: ignore[return-value]


def distinct(found: Trial, commits: list[str]) -> int:
    """How many different contents the stack's files have, file by file, in these commits."""
    with found.repository.objects() as objects:
        states = trees.read_ids(objects, commits, found.stack().touched)
    return len({(path, at) for state in states for path, at in state.items() if at})


def by_commits(found: Trial, runs: int) -> None:
    """The same stack over ever more of upstream's commits."""
    tip = found.commit("main")
    parted = upstream.merge_base(found.repository, found.base, tip)
    way = found.repository.git("rev-list", "--first-parent", "--reverse", f"{parted}..{tip}").decode().split()
    rows = []
    for count in COMMITS:
        to = way[count - 1]
        said = json.loads(found.kz("history", "--onto", to, "--json"))[0]
        touching = upstream.log(found.repository, parted, to, found.stack().touched)
        blobs = distinct(found, [parted, *(commit.id for commit in touching)])
        rows.append((f"{said['commits']:,}", len(touching), blobs, *timed(found, runs, "history", "--onto", to)))
    table(
        f"history: {len(found.stack().patches)} patches, ms beyond kz --version, medians of {runs} rounds",
        ("commits", "that touch the files", "distinct blobs", "nothing remembered", "again"),
        rows,
    )


def by_patches(found: Trial, runs: int) -> None:
    """Ever more of the stack over the same 2,000 commits."""
    tip = found.commit("main")
    parted = upstream.merge_base(found.repository, found.base, tip)
    names = [patch.name for patch in found.stack().patches]
    (found.patches / "checks.yaml").unlink(missing_ok=True)
    bodies = {name: (found.patches / name).read_bytes() for name in names}
    rows = []
    for count in range(1, len(names) + 1):
        for name in names:
            (found.patches / name).unlink(missing_ok=True)
        for name in names[:count]:
            (found.patches / name).write_bytes(bodies[name])
        (found.patches / "series").write_text("".join(f"{name}\n" for name in names[:count]))
        touching = upstream.log(found.repository, parted, tip, found.stack().touched)
        blobs = distinct(found, [parted, *(commit.id for commit in touching)])
        rows.append((count, len(found.stack().touched), blobs, *timed(found, runs, "history", "--onto", tip)))
    table(
        "history over all commits, without intent checks: ms beyond kz --version",
        ("patches", "files", "distinct blobs", "nothing remembered", "again"),
        rows,
    )


def by_tags(found: Trial, runs: int) -> None:
    """The same stack on ever more tags, newest first."""
    tags = [ref.removeprefix("refs/tags/") for ref in refs.refs(found.repository, "refs/tags/v*")][::-1]
    rows = []
    for count in sorted({min(count, len(tags)) for count in TAGS}):
        onto = tags[:count]
        blobs = distinct(found, [f"refs/tags/{tag}" for tag in onto])
        rows.append((count, blobs, *timed(found, runs, "verify", "--onto", *onto)))
    table(
        "verify: ms beyond kz --version",
        ("tags", "distinct blobs", "nothing remembered", "again"),
        rows,
    )


def main() -> None:
    """Commits, tags, and last the stack itself, which it cuts down."""
    project, runs = arguments(5)
    with tempfile.TemporaryDirectory() as folder:
        found = trial(project, Path(folder))
        by_commits(found, runs)
        by_tags(found, runs)
        by_patches(found, runs)


if __name__ == "__main__":
    main()
