"""kz history against `git bisect run git apply --check`, and where bisect is misled."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import ENV, Trial, arguments, beyond, checkout, git_at, in_turn, ms, peers_clone, ratio, table, trial

from kz_build.git import log as upstream
from kz_build.pins.project import Project

FLAPPING = "extension/android/jni/jni_layer_llama.cpp"
LINES = (467, 128)
"""Lines of that file at v1.2.0 that upstream took away, brought back by a revert, and took away again."""


def stories(found: Trial, to: str) -> dict[str, Any]:
    """Patch -> what kz says of it."""
    said = json.loads(found.kz("history", "--onto", to, "--json"))[0]
    steps: dict[str, Any] = {s["patch"]: s for s in said["patches"]}
    return {**steps, "": said}


def fits(tree: Path, mails: Sequence[str]) -> bool:
    """Whether git would apply these patches to what is checked out."""
    return subprocess.run(["git", "apply", "--check", *mails], cwd=tree, env=ENV, capture_output=True).returncode == 0


def bisect(tree: Path, good: str, bad: str, mails: Sequence[str]) -> str:
    """The commit that bisect names, or in parentheses why it has nothing to look for."""
    git_at(tree, "checkout", "--quiet", good)
    if not fits(tree, mails):
        return "(not without the patches before it)"
    git_at(tree, "checkout", "--quiet", bad)
    if fits(tree, mails):
        return "(holds at the end)"
    git_at(tree, "bisect", "start", "--first-parent", bad, good)
    git_at(tree, "bisect", "run", "git", "apply", "--check", *mails)
    named = git_at(tree, "rev-parse", "refs/bisect/bad")
    git_at(tree, "bisect", "reset")
    return named


def speed(project: Project, runs: int, work: Path) -> None:
    """The whole stack by kz, patch by patch by bisect."""
    found = trial(project, work)
    tip = found.commit("main")
    said = stories(found, tip)[""]
    tree = work / "bisect"
    checkout(peers_clone(project, found), tree, said["parted"], project.pins.source(found.name).list("exclude"))
    patches = found.stack().patches
    named: dict[str, str] = {}

    def again() -> None:
        found.kz("history", "--onto", tip)

    def first() -> None:
        found.forget()
        again()

    def bisects() -> None:
        for patch in patches:
            named[patch.name] = bisect(tree, said["parted"], tip, [str(found.patches / patch.name)])

    quick = in_turn(runs, version=lambda: found.kz("--version"), first=first, again=again)
    slow = in_turn(max(runs // 5, 1), version=lambda: found.kz("--version"), again=again, bisect=bisects)
    work_s = [max(a - b, 1e-4) for a, b in zip(slow["again"], slow["version"], strict=True)]
    broken = sum(not commit.startswith("(") for commit in named.values())
    table(
        f"history: {len(patches)} patches over {said['commits']:,} commits, medians of {runs} rounds"
        f" (bisect: {max(runs // 5, 1)}, of the {broken} patches that break on the way)",
        ("contender", "ms", "ms beyond kz --version", "times kz history", "times kz history beyond start"),
        [
            ("kz --version", ms(quick["version"]), "", "", ""),
            ("kz history, again", ms(quick["again"]), f"{beyond(quick['again'], quick['version']):.0f}", "1", "1"),
            (
                "kz history, nothing remembered",
                ms(quick["first"]),
                f"{beyond(quick['first'], quick['version']):.0f}",
                f"{ratio(quick['first'], quick['again']):.1f}",
                "",
            ),
            (
                "git bisect run git apply --check",
                ms(slow["bisect"]),
                "",
                f"{ratio(slow['bisect'], slow['again']):.0f}",
                f"{ratio(slow['bisect'], work_s):.0f}",
            ),
        ],
    )
    told = stories(found, tip)
    rows = [
        (
            p.name[:4],
            named[p.name] if named[p.name].startswith("(") else named[p.name][:10],
            ", ".join(s["commit"]["id"][:10] for s in told[p.name]["steps"]) or "(none)",
        )
        for p in patches
    ]
    table("what they name", ("patch", "bisect", "kz history: every change of the verdict"), rows)


def misled(project: Project, number: int, work: Path) -> None:
    """One line added in a file whose changes upstream reverted: what holds after each commit, by git, by kz, by bisect."""
    found = trial(project, work)
    tip = found.commit("main")
    tree = work / "probe"
    clone = peers_clone(project, found)
    checkout(clone, tree, found.base, project.pins.source(found.name).list("exclude"))
    lines = (tree / FLAPPING).read_text().split("\n")
    lines.insert(number, "// probe")
    (tree / FLAPPING).write_text("\n".join(lines))
    git_at(tree, "commit", "--quiet", "--all", "-m", "probe")
    shutil.rmtree(found.patches)
    found.patches.mkdir(parents=True)
    mail = found.patches / git_at(tree, "format-patch", "-1", "--zero-commit", "--full-index", "-o", str(found.patches))
    (found.patches / "series").write_text(f"{mail.name}\n")
    said = stories(found, tip)
    story, parted = said[mail.name], said[""]["parted"]
    changes = {step["commit"]["id"]: step["judgement"]["verdict"] in ("clean", "offset") for step in story["steps"]}
    rows, kz, wrong = [], True, 0
    for commit in upstream.log(found.repository, parted, tip, [FLAPPING]):
        git_at(tree, "checkout", "--quiet", "--force", commit.id)
        truth = fits(tree, [str(mail)])
        kz = changes.get(commit.id, kz)
        wrong += kz != truth
        rows.append((commit.id[:10], commit.date[:10], *("holds" if x else "-" for x in (truth, kz))))
    named = bisect(tree, parted, tip, [str(mail)])
    rows = [(*row, "<- the first bad commit" if row[0] == named[:10] else "") for row in rows]
    table(
        f"a line added after line {number} of {FLAPPING}",
        ("commit", "date", "git apply", "kz history", "git bisect"),
        rows,
    )
    first = next(row[0] for row in rows if row[2] == "-")
    since = next(b[0] for a, b in reversed(list(zip(rows, rows[1:], strict=False))) if a[2] != b[2])
    print(f"\nfirst broken by {first}, for good since {since}; bisect names {named[:10]} and no other; ", end="")
    print(f"kz is wrong at {wrong} of {len(rows)} commits")


def main() -> None:
    """The stack first, then the two lines."""
    project, runs = arguments(10)
    with tempfile.TemporaryDirectory() as folder:
        speed(project, runs, Path(folder))
    for number in LINES:
        with tempfile.TemporaryDirectory() as folder:
            misled(project, number, Path(folder))


if __name__ == "__main__":
    main()
