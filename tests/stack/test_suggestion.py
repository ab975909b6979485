"""Candidates at a conflict, and answers of other tools: shown, checked, and taken by a person."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz, snapshot
from tests.stack.upstreams import Project, Upstream, before, copied, project, put, started, text

OURS = put(text(), 10, "ours")
RESOLVED = put(OURS, 8, "theirs")
CHECKS = "first:\n  - contains: {file: a.txt, text: ours}\n"


@copied
def stopped(tmp_path: Path, kz: Kz) -> Project:
    """Two patches; at v2 upstream changed a line beside the first one's: git merges it, a patch does not apply."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})], checks=CHECKS)
    upstream.commit("Near it (#2)", {"a.txt": put(text(), 8, "theirs")}, tag="v2")
    return made


def stack(ours: Project) -> str:
    return (ours.root / "patches/l/up/0001-first.patch").read_text()


def test_the_conflict_shows_candidates_and_one_is_taken_by_its_number(stopped: Project) -> None:
    before = snapshot(stopped.root / "patches")
    done = stopped.kz("rebase", "--onto", "v2")
    assert done.returncode == 4
    assert "  candidates, each a whole result for the patch's files:\n    1. confidence " in done.stderr
    assert "\n       -line 10\n       +ours\n" in done.stderr and "kz rebase --take 1, or " in done.stderr
    assert snapshot(stopped.root / "patches") == before
    shown = stopped.kz("rebase", "--suggest")
    assert shown.returncode == 0 and shown.stdout.startswith("first\n  candidates, ") and "+ours" in shown.stdout
    for wrong in ("0", "99", "9" * 5000):
        refused = stopped.kz("rebase", "--take", wrong)
        assert refused.returncode == 2 and f"there is no candidate {wrong[:50]}" in refused.stderr, refused.stderr[
            -300:
        ]
    taken = stopped.kz("rebase", "--take", "1")
    assert taken.returncode == 0, taken.stderr
    assert "  first: candidate 1 was taken: " in taken.stdout
    assert " line 7\n theirs\n line 9\n-line 10\n+ours\n" in stack(stopped) and "Resolved-By" not in stack(stopped)
    assert {j["verdict"] for j in stopped.json("verify")[0]["rows"][0]} == {"clean"}
    again = stopped.kz("rebase", "--take", "1")
    assert again.returncode == 2 and "no rebase is in progress" in again.stderr


def test_what_another_tool_needs_is_in_the_json_and_its_answer_goes_through_the_same_gate(stopped: Project) -> None:
    assert stopped.kz("rebase", "--onto", "v2").returncode == 4
    found: dict[str, Any] = stopped.json("rebase", "--suggest")
    assert (found["base"]["a.txt"], found["theirs"]["a.txt"]) == (text(), OURS)
    assert found["ours"]["a.txt"] == put(text(), 8, "theirs")
    best = found["candidates"][0]
    assert best["files"] == {"a.txt": RESOLVED} and 0 < best["confidence"] <= 1 and best["reason"] and best["rule"]
    assert "-line 10\n+ours\n" in best["diff"] and "-line 8\n+theirs\n" in best["from_patched"]
    assert found["commits"][0].endswith("Near it (#2)")
    assert found["checks"] == [
        {"file": "a.txt", "kind": "contains", "where": f"{stopped.root}/out/rebase/l/up/checks.yaml:2"}
    ]

    answer = stopped.root / "answer.json"
    project_before, wrong = snapshot(stopped.root / "patches"), 0
    for content, reason in {
        '{"files": {"a.txt": "x\\n"}}': "out/rebase/l/up/checks.yaml:2): ",
        '{"files": {"b.txt": "ours\\n"}}': "b.txt is no file of the patch",
        json.dumps({"files": {"a.txt": found["ours"]["a.txt"]}}): "it changes nothing",
        json.dumps({"files": {"a.txt": RESOLVED + "<<<<<<< ours\n"}}): "a.txt has conflict markers",
        '{"files": {"a.txt": null}}': "a.txt is not in the tree",
    }.items():
        answer.write_text(content)
        done = stopped.kz("rebase", "--take", str(answer))
        assert done.returncode == 4 and "cannot be taken:" in done.stderr and reason in done.stderr, done.stderr
        wrong += 1
    for content in ("", "[]", "{}", '{"files": []}', '{"files": {"a.txt": 1}}', '{"files": {"a.txt": {"base64": "%"}}}',
                    '{"files": {"../a.txt": "x"}}', '{"files": {".git/hooks/x": "x"}}'):  # fmt: skip
        answer.write_text(content)
        done = stopped.kz("rebase", "--take", str(answer))
        assert done.returncode == 2 and str(answer) in done.stderr, (content, done.stderr)
    assert stopped.kz("rebase", "--take", "nowhere.json").returncode == 2
    assert wrong == 5 and snapshot(stopped.root / "patches") == project_before

    # A check that no longer fits upstream is edited beside the worktree, as for `continue`.
    checks = stopped.root / "out/rebase/l/up/checks.yaml"
    checks.write_text(checks.read_text().replace("ours", "mine"))
    answer.write_text(json.dumps({"files": {"a.txt": RESOLVED}}))
    refused = stopped.kz("rebase", "--take", str(answer))
    assert refused.returncode == 4 and "mine" in refused.stderr and str(checks) in refused.stderr
    checks.write_text(checks.read_text().replace("mine", "ours"))

    answer.write_text(json.dumps({"files": {"a.txt": {"base64": base64.b64encode(RESOLVED.encode()).decode()}}}))
    done = stopped.kz("rebase", "--take", str(answer))
    assert done.returncode == 0 and "first: the answer in answer.json was taken" in done.stdout, done.stderr
    assert "+ours" in stack(stopped)


def test_an_answer_writes_no_file_over_a_folder_and_no_link_of_its_own(tmp_path: Path, kz: Kz) -> None:
    """A folder has files that the patch must not touch; a link's content is a path of the machine."""
    upstream = started(tmp_path)
    (upstream.folder / "link").symlink_to("b.txt")
    made = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS})])
    upstream.commit("Without it", {"a.txt": None})
    upstream.commit("A folder (#2)", {"a.txt/x": "x\n"}, tag="v2")
    assert made.kz("rebase", "--onto", "v2").returncode == 4
    answer = made.root / "answer.json"
    for files, reason in (
        ({"a.txt": "ours\n"}, "a.txt is a folder"),
        ({"link": "/etc/passwd"}, "link is a symbolic link"),
        ({"x\nkz: all is well": "x"}, "  x\\nkz: all is well is no file of the patch"),
    ):
        answer.write_text(json.dumps({"files": files}))
        done = made.kz("rebase", "--take", str(answer))
        assert done.returncode == 4 and reason in done.stderr, done.stderr
    answer.write_text(json.dumps({"files": {"link": "b.txt"}}))
    assert made.kz("rebase", "--take", str(answer)).returncode == 0


def test_the_reason_names_upstreams_commit(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("check", {"a.txt": put(text(), 5, "line 5 is checked")})])
    upstream.commit("Elsewhere (#2)", {"a.txt": put(text(), 20, "x")})
    upstream.commit("Rows (#3)", {"a.txt": put(put(text(), 20, "x"), 5, "row 5")})
    upstream.commit("Later (#4)", {"a.txt": put(put(text(), 20, "y"), 5, "row 5")}, tag="v2")
    assert made.kz("rebase", "--onto", "v2").returncode == 4
    found: dict[str, Any] = made.json("rebase", "--suggest")
    best = found["possible"][0]
    assert "\nrow 5 is checked\n" in best["files"]["a.txt"]
    assert best["reason"].startswith("upstream changed `line` to `row`; ")
    assert best["reason"].endswith("Rows (#3)") and "upstream did that in " in best["reason"]
    assert [commit.rpartition("(")[2] for commit in found["commits"]] == ["#2)", "#3)", "#4)"]


def test_code_that_a_merged_branch_split_off_is_found_in_the_new_files(tmp_path: Path, kz: Kz) -> None:
    """One file is moved, of the other a half goes to a new file; both by a merge, after a commit that changes many others."""
    upstream, rows = Upstream(tmp_path / "up"), text().replace("line", "row")
    upstream.commit("Start", {"a.txt": text(), "b.txt": rows}, tag="v1")
    first, second = put(text(), 10, "ours"), put(rows, 5, "ours too")
    made = project(tmp_path, kz, upstream, [("first", {"a.txt": first}), ("second", {"b.txt": second})])
    upstream.commit("Many (#2)", {"a.txt": put(text(), 20, "x"), **{f"many/{n}.txt": text(3) for n in range(50)}})
    again = {f"many/{n}.txt": text(4) for n in range(50)}
    upstream.commit("Many again (#3)", {"a.txt": put(text(), 20, "y"), **again})
    upstream.git("checkout", "-q", "-b", "split")
    lines = put(text(), 20, "y").splitlines(keepends=True)
    half, rest = "".join(lines[:14]), "".join(lines[14:])
    moved = put(rows, 6, "theirs")
    upstream.commit("Split", {"a.txt": rest, "core/a.txt": half, "b.txt": None, "core/b.txt": moved})
    upstream.git("checkout", "-q", "main")
    upstream.git("merge", "-q", "--no-ff", "-m", "Split (#4)", "split")
    upstream.git("tag", "v2")
    assert made.kz("rebase", "--onto", "v2").returncode == 4
    found: dict[str, Any] = made.json("rebase", "--suggest")
    assert found["candidates"][0]["files"] == {"core/a.txt": put(half, 10, "ours")}
    stopped = made.kz("rebase", "--take", "1")
    assert stopped.returncode == 4 and "b.txt: renamed to core/b.txt by " in stopped.stderr, stopped.stderr
    best = made.json("rebase", "--suggest")["candidates"][0]
    assert best["files"] == {"core/b.txt": put(moved, 5, "ours too")}


def test_what_another_line_made_of_the_patch_is_the_first_candidate(stopped: Project) -> None:
    assert stopped.kz("rebase", "--onto", "v2", "--as", "m").returncode == 4
    by_hand = put(RESOLVED, 12, "ours, again")
    answer = stopped.root / "answer.json"
    answer.write_text(json.dumps({"files": {"a.txt": by_hand}}))
    assert stopped.kz("rebase", "--take", str(answer)).returncode == 0
    assert stopped.kz("rebase", "--line", "l", "--onto", "v2").returncode == 4
    found: dict[str, Any] = stopped.json("rebase", "--suggest")
    first, second = found["candidates"][:2]
    assert (first["rule"], first["confidence"], first["files"]) == ("another line's patch", 0.95, {"a.txt": by_hand})
    assert first["reason"].startswith("line m, on v2, has this patch") and second["files"] == {"a.txt": RESOLVED}
    assert stopped.kz("rebase", "abort").returncode == 0
    done = stopped.kz("rebase", "--line", "l", "--onto", "v2", "--take-above", "0.95")
    assert done.returncode == 0 and "ours, again" in stack(stopped), done.stderr


def test_a_candidate_is_taken_unasked_only_on_request_and_the_patch_says_so(stopped: Project) -> None:
    assert stopped.kz("rebase", "--onto", "v2", "--take-above", "1").returncode == 4
    assert stopped.kz("rebase", "abort").returncode == 0
    done = stopped.kz("rebase", "--onto", "v2", "--take-above", "0.5")
    assert done.returncode == 0, done.stderr
    assert "first: conflict resolved unasked, confidence 0." in done.stdout
    assert "\nResolved-By: kz rebase, by " in stack(stopped)
    assert "Resolved-By" not in (stopped.root / "patches/l/up/0002-second.patch").read_text()
    assert not (stopped.root / "out/rebase/l/up").exists()


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("--onto", "v2", "--take", "1"), "begin a rebase: not with --take"),
        (("continue", "--suggest"), "do not go together"),
        (("--onto", "v2", "--take-above", "2"), "is not between 0 and 1"),
        (("--suggest",), "no rebase is in progress"),
        (("--take", "1"), "no rebase is in progress"),
    ],
)
def test_options_that_do_not_fit(stopped: Project, argv: tuple[str, ...], reason: str) -> None:
    done = stopped.kz("rebase", *argv)
    assert done.returncode == 2 and reason in done.stderr, done.stderr


def test_a_number_without_a_candidate(stopped: Project) -> None:
    assert stopped.kz("rebase", "--onto", "v2").returncode == 4
    for number in ("0", "9"):
        done = stopped.kz("rebase", "--take", number)
        assert done.returncode == 2 and f"there is no candidate {number}" in done.stderr


def test_where_none_is_likely_possible_ones_are_shown_apart_and_can_be_taken(tmp_path: Path, kz: Kz) -> None:
    """Both insert a line at one place: in which order, a person must say."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("first", {"a.txt": before(text(), 5, "ours")})])
    upstream.commit("More (#2)", {"a.txt": before(text(), 5, "theirs")}, tag="v2")
    stopped = made.kz("rebase", "--onto", "v2", "--take-above", "0.05")
    assert stopped.returncode == 4 and "kz is not sure; one of these may be right" in stopped.stderr, stopped.stderr
    assert "    1. confidence 0." in stopped.stderr and "kz rebase --take 1" not in stopped.stderr
    found: dict[str, Any] = made.json("rebase", "--suggest")
    assert found["candidates"] == []
    possible = [one["files"]["a.txt"] for one in found["possible"]]
    assert possible[:2] == [before(text(), 5, "theirs", "ours"), before(text(), 5, "ours", "theirs")]
    taken = made.kz("rebase", "--take", "2")
    assert taken.returncode == 0 and "first: candidate 2 was taken: " in taken.stdout, taken.stderr
    assert "+ours\n theirs\n line 5\n" in stack(made)


def test_a_mode_that_the_patch_changes_is_in_its_candidates_and_in_answers(stopped: Project) -> None:
    file = stopped.root / "patches/l/up/0001-first.patch"
    made = re.sub(r"(index \S+) 100644", r"old mode 100644\nnew mode 100755\n\1", file.read_text())
    file.write_text(made + "diff --git a/b.txt b/b.txt\nold mode 100644\nnew mode 100755\n")
    assert stopped.kz("lock", "--write").returncode == 0
    assert stopped.kz("rebase", "--onto", "v2").returncode == 4
    best = stopped.json("rebase", "--suggest")["candidates"][0]
    assert best["diff"].count("new mode 100755") == 2
    answer = stopped.root / "answer.json"
    answer.write_text(json.dumps({"files": best["files"]}))
    assert stopped.kz("rebase", "--take", str(answer)).returncode == 0
    assert stack(stopped).count("new mode 100755") == 2


def test_a_link_in_place_of_a_file_is_left_to_a_person(stopped: Project) -> None:
    """A result has contents alone: that of a link would become a file's."""
    file = stopped.root / "patches/l/up/0001-first.patch"
    lines = text().replace("line", "-line")
    gone = f"deleted file mode 100644\n--- a/b.txt\n+++ /dev/null\n@@ -1,20 +0,0 @@\n{lines}"
    link = "new file mode 120000\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n"
    names = "diff --git a/b.txt b/b.txt\n"
    file.write_text(file.read_text() + names + gone + names + link)
    (stopped.root / "patches/l/up/series").write_text(f"{file.name}\n")
    (stopped.root / "patches/l/up/0002-second.patch").unlink()
    assert stopped.kz("lock", "--write").returncode == 0
    assert stopped.kz("rebase", "--onto", "v2").returncode == 4
    found = stopped.json("rebase", "--suggest")
    assert not found["candidates"] and not found["possible"]


def test_a_candidate_that_is_no_longer_what_was_shown_is_not_taken(stopped: Project) -> None:
    assert stopped.kz("rebase", "--onto", "v2").returncode == 4
    checks = stopped.root / "out/rebase/l/up/checks.yaml"
    checks.write_text(checks.read_text().replace("ours", "line 10"))
    for _ in range(2):  # the refusal shows none, so it changes nothing
        done = stopped.kz("rebase", "--take", "1")
        assert done.returncode == 4 and "candidate 1 is no longer what was shown" in done.stderr, done.stderr
    assert "kz finds no candidate" in stopped.kz("rebase", "--suggest").stdout
    assert "there is no candidate 1" in stopped.kz("rebase", "--take", "1").stderr
