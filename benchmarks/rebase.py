"""kz rebase onto a tag where the stack is clean, files written, against git's own way by hand."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from common import arguments, beyond, checkout, git_at, in_turn, ms, peers_clone, ratio, table, trial

ONTO = "v1.2.0-rc3"


def main() -> None:
    """The whole stack; the peer writes patch files too, but neither pins nor lock, and judges nothing."""
    project, runs = arguments(10)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = trial(project, work)
        clone = peers_clone(project, found)
        exclude = project.pins.source(found.name).list("exclude")
        mails = [str(found.patches / p.name) for p in found.stack().patches]
        kept = work / "kept"
        shutil.copytree(found.root, kept)

        def rebase() -> None:
            shutil.copytree(kept, found.root, dirs_exist_ok=True)
            said = found.kz("rebase", "--onto", ONTO)
            assert ONTO in (found.root / "pins.yaml").read_text(), said

        def by_hand() -> None:
            tree = work / "tree"
            checkout(clone, tree, f"refs/tags/{ONTO}", exclude)
            git_at(tree, "am", "--quiet", "-3", *mails)
            git_at(tree, "format-patch", "--quiet", "--output-directory", str(work / "made"), f"refs/tags/{ONTO}..HEAD")
            shutil.rmtree(tree)
            git_at(clone, "worktree", "prune")

        quick = in_turn(runs, version=lambda: found.kz("--version"), rebase=rebase)
        slow = in_turn(max(runs // 5, 1), rebase=rebase, hand=by_hand)
        table(
            f"rebase: {len(mails)} patches onto {ONTO}, medians of {runs} rounds (by hand: {max(runs // 5, 1)})",
            ("contender", "ms", "ms beyond kz --version", "times kz rebase"),
            [
                ("kz --version", ms(quick["version"]), "", ""),
                (
                    "kz rebase, files written",
                    ms(quick["rebase"]),
                    f"{beyond(quick['rebase'], quick['version']):.0f}",
                    "1",
                ),
                (
                    "worktree, git am -3, format-patch",
                    ms(slow["hand"]),
                    "",
                    f"{ratio(slow['hand'], slow['rebase']):.0f}",
                ),
            ],
        )


if __name__ == "__main__":
    main()
