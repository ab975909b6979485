"""kz history: who broke a patch, and for how long, on a real upstream that changes its mind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz, snapshot
from tests.stack.upstreams import Project, Upstream, before, project, put, started, text

OURS = put(text(), 10, "ours")
CONTEXT = put(put(text(), 9, "theirs"), 11, "theirs")
CONTENT = put(CONTEXT, 10, "theirs")


def told(ours: Project, *argv: str) -> dict[str, Any]:
    """The story of the first patch, from the JSON."""
    return dict(ours.json("history", *argv)[0]["patches"][0])


def steps(story: dict[str, Any]) -> list[tuple[str, str]]:
    return [(s["commit"]["subject"], s["judgement"]["verdict"]) for s in story["steps"]]


def test_who_broke_the_context_and_who_took_the_content(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS}), ("other", {"b.txt": OURS})])
    upstream.commit("Drift (#6)", {"a.txt": before(text(), 1, "new"), "b.txt": before(text(), 1, "1", "2", "3")})
    upstream.commit("Elsewhere (#5)", {"other.txt": "x\n"})
    context = upstream.commit("Rework the lines beside it, at some length (#7)", {"a.txt": CONTEXT}, tag="v2-rc1")
    upstream.git("tag", "v2")
    upstream.git("tag", "ciflow/7")
    content = upstream.commit("Take it (#8)", {"a.txt": CONTENT}, tag="v10-rc1")
    upstream.commit("Move on (#9)", {"a.txt": put(CONTENT, 10, "theirs too")}, tag="v10")
    upstream.git("tag", "v9", content)

    found = ours.json("history")[0]
    assert (found["commits"], found["touching"], found["pin"], found["to"]) == (5, 4, "v1", "main")
    story = found["patches"][0]
    assert steps(story) == [("Rework the lines beside it, at some length (#7)", "context"), ("Take it (#8)", "content")]
    assert (story["broke"], story["taken"], story["since"], story["flaps"]) == (context, content, context, 0)
    first, second = (s["commit"] for s in story["steps"])
    assert (first["pull"], first["tag"], first["date"][:10]) == (7, "v2", "2026-01-04")
    assert (second["pull"], second["tag"]) == (8, "v9")
    # Drift is no step, and the end of the walk carries it.
    assert found["patches"][1]["steps"] == [] and found["patches"][1]["now"]["offset"] == 3

    shown = ours.kz("history")
    assert shown.returncode == 0 and max(map(len, shown.stdout.splitlines())) <= 80
    assert "  0001-ours: broken (content)\n" in shown.stdout and "  0002-other: +3\n" in shown.stdout
    assert f"      2026-01-04 {context[:10]} context    Rework the lines beside it, at some\n" in shown.stdout
    assert re.search(r"length \(#7\)\n +first to break it; in v2\n", shown.stdout)
    assert re.search(r"Take it \(#8\)\n +first to take its lines; in v9\n", shown.stdout)
    assert ": 5, on files of the stack: 4\n" in shown.stdout


def test_no_commit_is_on_files_of_a_stack_without_patches(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    upstream.commit("Later", {"a.txt": put(text(), 3, "later")}, tag="v2")
    done = project(tmp_path, kz, upstream, []).kz("history")
    assert done.returncode == 0 and ": 1, on files of the stack: 0\n" in done.stdout, done.stdout + done.stderr


def test_an_upstream_may_have_a_mailmap(tmp_path: Path, kz: Kz) -> None:
    """In a bare clone git log reads it, and in one without contents it is not there."""
    upstream = started(tmp_path)
    upstream.commit("Names", {".mailmap": "A <a@example.org> <b@example.org>\n"}, tag="v1.1")
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    upstream.commit("Take it (#8)", {"a.txt": CONTENT}, tag="v2")
    assert [step for step, _ in steps(told(ours))] == ["Take it (#8)"]
    for words in (("verify", "--onto", "v2"), ("rebase", "--onto", "v2")):
        done = ours.kz(*words)
        assert done.returncode == 4, done.stderr


def test_a_subject_without_an_end_is_cut(tmp_path: Path, kz: Kz) -> None:
    """A patch's and a commit's; what a subject ends with is kept, since it names the pull request."""
    long = "x" * 100_000
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    (patch,) = (ours.root / "patches/l/up").glob("*.patch")
    patch.write_text(patch.read_text().replace("Subject: [PATCH] ours", f"Subject: [PATCH] {long}"))
    upstream.commit(f"{long} (#7)", {"a.txt": CONTENT})
    upstream.pull(9, {"a.txt": put(CONTENT, 10, "another")}, subject=long)
    assert ours.kz("lock", "--write").returncode == 0
    for words in (
        ("history",),
        ("radar", "--pr", "9"),
        ("verify", "--onto", "main"),
        ("rebase", "--onto", "main"),
        ("status",),
    ):
        done = ours.kz(*words)
        assert done.returncode in (0, 4), done.stderr
        assert len(done.stdout + done.stderr) < 10_000, words
    assert told(ours)["steps"][0]["commit"]["pull"] == 7


def test_flaps_and_reverts_are_shown_as_such(tmp_path: Path, kz: Kz) -> None:
    """Between a pin that holds and a main that does not, a bisection may end at any of three commits."""
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    landed = upstream.commit("Take it (#7)", {"a.txt": CONTENT}, tag="v2")
    upstream.commit('Revert "Take it (#7)"', {"a.txt": text()})
    upstream.commit("Take it again (#8)", {"a.txt": CONTENT})
    upstream.commit("Back out #8 (#9)", {"a.txt": text()}, tag="v3")
    last = upstream.commit("Take it, third try (#10)", {"a.txt": CONTENT})
    story = told(ours)
    assert [s["holds"] for s in story["steps"]] == [False, True, False, True, False]
    assert [s["back"] for s in story["steps"]] == [False, True, True, True, True]
    assert [s["commit"]["pull"] for s in story["steps"]] == [7, 0, 8, 9, 10]  # the revert is not #7's
    assert (story["broke"], story["taken"], story["since"], story["flaps"]) == (landed, landed, last, 2)
    shown = ours.kz("history").stdout
    assert "  0001-ours: broken (content), held again 2 times on the way\n" in shown
    assert shown.count("restores an earlier file") == 4
    assert re.search(r"third try \(#10\)\n +broken since; restores an earlier file\n", shown)
    # Up to a revert it holds.
    assert told(ours, "--onto", "v3")["holds"] is True
    assert "  0001-ours: clean, held again 2 times on the way\n" in ours.kz("history", "--onto", "v3").stdout
    assert "held again once on the way" in ours.kz("history", "--onto", "v3~1").stdout


def test_a_patch_that_upstream_takes_and_gives_back(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    upstream.commit("Ours, upstream (#7)", {"a.txt": OURS})
    upstream.commit("Back out (#8)", {"a.txt": text()})
    upstream.commit("Ours, again (#9)", {"a.txt": OURS})
    story = told(ours)
    assert [v for _, v in steps(story)] == ["upstreamed", "clean", "upstreamed"]
    assert (story["broke"], story["since"], story["flaps"], story["holds"]) == ("", "", 0, True)


def test_a_removed_file_does_not_count_as_brought_back(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS}), ("new", {"c.txt": "ours\n"})])
    upstream.commit("Add theirs (#6)", {"c.txt": "theirs\n"})
    upstream.commit("Remove (#7)", {"a.txt": None})
    story = told(ours)
    assert steps(story) == [("Remove (#7)", "missing")] and story["steps"][0]["back"] is False


def test_a_renamed_file_is_named(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    moved = upstream.commit("Move (#7)", {"a.txt": None, "dir/a.txt": put(text(), 19, "theirs")})
    upstream.commit("Move on (#8)", {"dir/a.txt": None, "c.txt": put(text(), 19, "theirs")})
    story = told(ours)
    assert steps(story) == [("Move (#7)", "missing")] and story["broke"] == moved
    assert story["steps"][0]["judgement"]["reason"].startswith("renamed to dir/a.txt by ")
    assert story["now"]["reason"].startswith("renamed to c.txt by ")
    assert "renamed to dir/a.txt by" in ours.kz("history").stdout


def test_why_shows_what_happened_to_the_patchs_lines_and_to_no_others(tmp_path: Path, kz: Kz) -> None:
    long = text(60)
    upstream = Upstream(tmp_path / "up")
    upstream.commit("Start", {"a.txt": long}, tag="v1")
    # The first stands on lines 27 to 33, the other puts a line between 49 and 50.
    ours = project(
        tmp_path, kz, upstream, [("ours", {"a.txt": put(long, 30, "ours")}), ("put", {"a.txt": before(put(long, 30, "ours"), 50, "put")})]
    )  # fmt: skip
    # All of one commit: lines 10, 26 (beside the first) and 32 (in it), a line before 27 (which parts nothing), one
    # between 49 and 50 (which parts the other's).
    theirs = before(before(put(put(put(long, 10, "far"), 26, "beside"), 32, "in it"), 50, "between"), 27, "at its edge")
    upstream.commit("Theirs (#7)", {"a.txt": theirs})
    said = ours.kz("history", "--why")
    assert said.returncode == 0, said.stderr
    changes = re.findall(r"^        ([-+](?!--).*)$", said.stdout, re.MULTILINE)
    assert changes == ["-line 32", "+in it", "+between"]
    assert said.stdout.count("--- a.txt") == 2
    whys = [s["why"] for p in ours.json("history", "--why")[0]["patches"] for s in p["steps"]]
    assert len(whys) == 2 and whys[0].startswith("--- a.txt\n@@ -32 +33 @@") and "far" not in "".join(whys)
    assert "why" not in told(ours)["steps"][0]


def test_a_patch_that_stops_doing_what_it_is_for_is_broken_by_the_file_that_its_check_reads(
    tmp_path: Path, kz: Kz
) -> None:
    upstream = started(tmp_path)
    checks = "ours:\n  - absent: {file: other.txt, text: bad}\n"
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})], checks)
    broke = upstream.commit("Be bad (#7)", {"other.txt": "bad\n"})
    taken = upstream.commit("Take it (#8)", {"a.txt": CONTENT})
    story = told(ours)
    assert (story["broke"], story["taken"], story["since"]) == (broke, taken, broke)
    shown = ours.kz("history").stdout
    assert f"{broke[:10]} intent     Be bad (#7)\n" in shown and "intent: absent (patches/l/up/checks.yaml:2)" in shown
    assert shown.count("first to take its lines") == 1


def test_a_patch_judged_without_an_earlier_one_says_so(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(
        tmp_path, kz, upstream, [("ours", {"a.txt": OURS}), ("on it", {"a.txt": put(OURS, 10, "ours", "too")})]
    )  # fmt: skip
    upstream.commit("Take it (#7)", {"a.txt": put(text(), 10, "theirs")})
    shown = ours.kz("history").stdout.split("0002-on-it")[1]
    assert "first to break it; judged without 0001" in shown and "take its lines" not in shown


def test_from_a_release_branch_the_walk_starts_where_it_left_main(tmp_path: Path, kz: Kz) -> None:
    """The pin's own commits are not upstream's main: a patch may hold on the pin and never have held on main."""
    upstream = started(tmp_path)
    upstream.git("checkout", "-q", "-b", "release")
    upstream.commit("Only here", {"a.txt": CONTENT}, tag="v1.1")
    upstream.git("checkout", "-q", "main")
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": put(CONTENT, 10, "ours")})], pin="v1.1")
    upstream.commit("Theirs (#7)", {"a.txt": put(text(), 8)})
    story = told(ours)
    assert (story["pin"]["verdict"], story["start"]["verdict"]) == ("clean", "content")
    assert (story["broke"], story["taken"], story["since"]) == ("", "", "")
    shown = ours.kz("history").stdout
    assert f"      content already at {upstream.commits[0][:10]}, where v1.1 left main\n" in shown
    assert "Theirs" not in shown
    upstream.commit("Merge it (#8)", {"a.txt": CONTENT})
    broke = upstream.commit("Break it (#9)", {"a.txt": text()})
    assert ours.kz("history", "--fetch").returncode == 0
    story = told(ours)
    assert (story["broke"], story["taken"], story["since"], story["flaps"]) == (broke, broke, broke, 1)


def test_history_writes_nothing_into_the_project_and_needs_no_network_twice(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    upstream.commit("Take it (#7)", {"a.txt": CONTENT})
    files = snapshot(ours.root)
    first = ours.kz("history", "--why")
    assert snapshot(ours.root) == files and first.returncode == 0
    upstream.folder.rename(tmp_path / "gone")
    assert ours.kz("history", "--why").stdout == first.stdout
    lost = ours.kz("history", "--onto", "v9")
    assert lost.returncode == 6 and "insteadOf" in lost.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["--onto", "v22"], "upstream has no tag, branch or commit 'v22'"), (["--line", "m"], "'m'"), (["--onto", "alien"], "no common history")],
)  # fmt: skip
def test_bad_input(tmp_path: Path, kz: Kz, argv: list[str], said: str) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    upstream.git("checkout", "-q", "--orphan", "alien")
    upstream.commit("Alien", {"a.txt": text()})
    done = ours.kz("history", *argv)
    assert done.returncode == 2 and said in done.stderr and done.stderr.endswith("kz: exit 2 (config)\n"), done.stderr
