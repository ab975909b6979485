"""kz verify against git's own ways to try a stack on several tags."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import Trial, arguments, beyond, checkout, git_at, in_turn, ms, peers_clone, ratio, table, trial

TAGS = ("v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0")


def stack_tip(found: Trial, clone: Path, work: Path, exclude: Sequence[str]) -> str:
    """The stack as commits in the peers' clone."""
    tree = work / "tip"
    checkout(clone, tree, found.base, exclude)
    git_at(tree, "am", "--quiet", *(str(found.patches / p.name) for p in found.stack().patches))
    tip = git_at(tree, "rev-parse", "HEAD")
    git_at(clone, "worktree", "remove", "--force", str(tree))
    return tip


def main() -> None:
    """Five tags; peers once per tag."""
    project, runs = arguments(10)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = trial(project, work)
        clone = peers_clone(project, found)
        exclude = project.pins.source(found.name).list("exclude")
        tip = stack_tip(found, clone, work, exclude)
        mails = [str(found.patches / p.name) for p in found.stack().patches]

        def verify() -> None:
            found.kz("verify", "--onto", *TAGS)

        def first() -> None:
            found.forget()
            verify()

        def merge_tree() -> None:
            for tag in TAGS:
                git_at(clone, "merge-tree", "--write-tree", f"refs/tags/{tag}", tip, check=False)

        def worktree_am() -> None:
            for tag in TAGS:
                tree = work / "am"
                checkout(clone, tree, f"refs/tags/{tag}", exclude)
                git_at(tree, "am", "--quiet", "-3", *mails, check=False)
                shutil.rmtree(tree)
                git_at(clone, "worktree", "prune")

        quick = in_turn(runs, version=lambda: found.kz("--version"), first=first, again=verify, merge=merge_tree)
        slow = in_turn(max(runs // 5, 1), version=lambda: found.kz("--version"), again=verify, am=worktree_am)
        work_ms = [max(a - b, 1e-4) for a, b in zip(quick["again"], quick["version"], strict=True)]
        slow_ms = [max(a - b, 1e-4) for a, b in zip(slow["again"], slow["version"], strict=True)]
        table(
            f"verify: {len(mails)} patches x {len(TAGS)} tags, medians of {runs} rounds (am: {max(runs // 5, 1)})",
            ("contender", "ms", "ms beyond kz --version", "times kz verify", "times kz verify beyond start"),
            [
                ("kz --version", ms(quick["version"]), "", "", ""),
                ("kz verify, again", ms(quick["again"]), f"{beyond(quick['again'], quick['version']):.0f}", "1", "1"),
                (
                    "kz verify, nothing remembered",
                    ms(quick["first"]),
                    f"{beyond(quick['first'], quick['version']):.0f}",
                    f"{ratio(quick['first'], quick['again']):.1f}",
                    "",
                ),
                (
                    "git merge-tree a tag",
                    ms(quick["merge"]),
                    "",
                    f"{ratio(quick['merge'], quick['again']):.1f}",
                    f"{ratio(quick['merge'], work_ms):.0f}",
                ),
                (
                    "worktree + git am -3 a tag",
                    ms(slow["am"]),
                    "",
                    f"{ratio(slow['am'], slow['again']):.0f}",
                    f"{ratio(slow['am'], slow_ms):.0f}",
                ),
            ],
        )


if __name__ == "__main__":
    main()
