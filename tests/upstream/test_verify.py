"""kz verify as a user meets it: a real upstream that moves, and each verdict on what it did."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import hash_cache
from kz_build.core.files import remove
from kz_build.upstream.text_verdicts import ranges
from tests.conftest import Kz, snapshot
from tests.stack.upstreams import Files, Project, before, copied, project, put, started, text

OURS = put(text(), 10, "ours")
"""The patch of most tests: line 10 of a.txt; its context are lines 7 to 13."""


def judged(found: Any, target: str, patch: int = 0) -> dict[str, Any]:
    """The judgement of a patch on one target, from the JSON."""
    names = [t["name"] for t in found[0]["targets"]]
    return dict(found[0]["rows"][names.index(target)][patch])


def last(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip().splitlines()[-1]


one_patch = copied(lambda folder, kz: project(folder, kz, started(folder), [("ours", {"a.txt": OURS})]))


@pytest.mark.parametrize(
    ("files", "verdict", "code", "reason"),
    [
        ({"b.txt": put(text(), 10, "theirs")}, "clean", 0, ""),
        ({"a.txt": before(text(), 1, "new", "new")}, "offset", 0, ""),
        ({"a.txt": put(text(), 2)}, "offset", 0, ""),
        ({"a.txt": OURS}, "upstreamed", 0, "what it changes is there already"),
        # git merges changes with a line between them, where a patch wants its context to the letter.
        ({"a.txt": put(text(), 8, "theirs")}, "merged", 4, "three-way merge"),
        ({"a.txt": put(put(text(), 9, "theirs"), 11, "theirs")}, "context", 4, "only the lines around it changed"),
        ({"a.txt": put(text(), 10, "theirs")}, "content", 4, "`line 10`"),
        ({"a.txt": None}, "missing", 4, "removed by"),
        ({"a.txt": None, "dir/c.txt": text()}, "missing", 4, "renamed to dir/c.txt by"),
    ],
)  # fmt: skip
def test_verdicts(one_patch: Project, files: Files, verdict: str, code: int, reason: str) -> None:
    ours, commit = one_patch, one_patch.upstream.commit("Theirs (#7)", files)
    found = judged(ours.json("verify", "--onto", "main", code=code), "main")
    assert found["verdict"] == verdict and reason in found["reason"]
    if verdict == "missing":
        assert f"{commit[:10]} 2026-01-02 Theirs (#7)" in found["reason"]
    offset = len((files.get("a.txt") or "").splitlines()) - 20 if verdict == "offset" else 0
    assert found["offset"] == offset
    shown = ours.kz("verify", "--onto", "main")
    cell = f"{offset:+d}" if offset else verdict
    assert re.search(rf"^  0001-ours +{re.escape(cell)}$", shown.stdout, re.MULTILINE)
    # A merge is shown for what it would do, and nothing else is.
    assert ("        -line 10\n        +ours\n" in shown.stdout) == (verdict == "merged")


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "reason"),
    [
        ({"new.txt": "ours\n"}, {"new.txt": "ours\n"}, "upstreamed", "there already"),
        ({"new.txt": "ours\n"}, {"new.txt": "theirs\n"}, "content", "the file it creates is there already"),
        ({"a.txt": None}, {"a.txt": None}, "upstreamed", "there already"),
        ({"a.txt": None}, {"a.txt": put(text(), 2, "theirs")}, "content", ""),
        # A hunk that only inserts applies twice.
        ({"a.txt": before(text(), 10, "ours")}, {"a.txt": before(text(), 10, "ours")}, "upstreamed", "there already"),
        ({"a.txt": before(text(), 10, "ours")}, {"a.txt": before(text(), 10, "theirs")}, "content", "no longer together"),
        ({"a.txt": OURS}, {"a.txt": put(text(), 10, "  line 10")}, "content", "`line 10`, which has other white space now"),
        ({"a.txt": OURS}, {"a.txt": text().replace("\n", "\r\n")}, "content", "`line 10`, which has other white space now"),
        ({"a.txt": OURS}, {"a.txt": ""}, "content", "`line 10`, which is gone"),
        # One file of two: the worst of them counts, and it is named.
        ({"a.txt": OURS, "b.txt": OURS}, {"b.txt": put(text(), 10, "theirs")}, "content", "`line 10`"),
        ({"a.txt": OURS, "b.txt": OURS}, {"a.txt": put(text(), 10, "theirs"), "b.txt": None}, "missing", "removed by"),
        ({"a.txt": OURS, "b.txt": OURS}, {"b.txt": OURS}, "merged", "upstream has this part of the patch already"),
        ({"a.txt": OURS, "b.txt": OURS}, {"a.txt": OURS, "b.txt": put(text(), 10, "theirs")}, "content", "`line 10`"),
        ({"a.txt": OURS, "b.txt": OURS}, {"b.txt": put(OURS, 15, "theirs"), "a.txt": put(text(), 10, "x")}, "content", "`line 10`"),
    ],
)  # fmt: skip
def test_verdicts_on_files_that_come_go_or_change_in_part(
    tmp_path: Path, kz: Kz, ours: Files, theirs: Files, verdict: str, reason: str
) -> None:
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("ours", ours)])
    upstream.commit("Theirs", theirs)
    found = judged(made.json("verify", "--onto", "main", code=0 if verdict == "upstreamed" else 4), "main")
    assert (found["verdict"], reason in found["reason"]) == (verdict, True), found
    assert (
        found["path"] == min(theirs, key=lambda path: (theirs[path] is not None, theirs[path] == ours.get(path), path))
        or verdict == "upstreamed"
    )


def test_a_renamed_file_is_followed_over_two_renames_and_says_where_the_patch_fits(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("both", {"a.txt": OURS, "b.txt": OURS})])
    upstream.commit("Move (#7)", {"a.txt": None, "dir/a.txt": text()})
    # Not the same content: found by git's measure of likeness.
    upstream.commit("Move again (#8)", {"dir/a.txt": None, "far/c.txt": put(text(), 19, "theirs")}, tag="v2")
    upstream.commit("Change (#9)", {"far/c.txt": put(text(), 10, "theirs")})
    found = ours.json("verify", "--onto", "v2", "main", code=4)
    assert "renamed to far/c.txt by" in judged(found, "v2")["reason"] and "(#8)" in judged(found, "v2")["reason"]
    assert judged(found, "v2")["reason"].endswith("; the patch fits there")
    assert judged(found, "main")["reason"].endswith("; the patch does not fit there")


def test_a_rename_is_followed_without_a_network_once_it_was_seen(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    ours = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})])
    upstream.commit("Move", {"a.txt": None, "far/c.txt": put(text(), 19, "theirs")})
    first = ours.kz("verify", "--onto", "main")
    upstream.folder.rename(tmp_path / "gone")
    again = ours.kz("verify", "--onto", "main")
    assert (again.returncode, again.stdout) == (4, first.stdout) and "renamed to far/c.txt" in again.stdout


def test_after_a_failing_patch_the_later_ones_are_judged_without_it_and_marked_so(tmp_path: Path, kz: Kz) -> None:
    on_it = put(OURS, 16, "ours too")
    upstream = started(tmp_path)
    ours = project(
        tmp_path, kz, upstream,
        [("first", {"a.txt": OURS}), ("middle", {"b.txt": OURS}), ("on it", {"b.txt": on_it}),
         ("needs it", {"b.txt": put(on_it, 11, "ours again")}), ("last", {"c.txt": "new\n"})],
    )  # fmt: skip
    upstream.commit("Theirs", {"b.txt": put(text(), 10, "theirs")}, tag="v2")
    found = ours.json("verify", "--onto", "v2", "v1", code=4)
    assert [j["verdict"] for j in found[0]["rows"][0]] == ["clean", "content", "clean", "context", "clean"]
    assert [j["without"] for j in found[0]["rows"][0]] == [
        [],
        [],
        ["0002-middle.patch"],
        ["0002-middle.patch"],
        [],
    ]
    assert {j["verdict"] for j in found[0]["rows"][1]} == {"clean"}
    assert ours.json("verify", "--onto", "v2", "--onto", "v1", code=4) == found
    shown = ours.kz("verify", "--onto", "v2", "v1")
    assert re.search(r"^  0003-on-it +clean\* +clean$", shown.stdout, re.MULTILINE)
    assert "judged without 0002" in shown.stdout and "  * judged without earlier patches" in shown.stdout


CHECKS = """ours:
  - contains: {file: a.txt, text: ours, count: 1}
  - absent: {file: other.txt, text: "50%, bad"}
"""


@copied
def checked(tmp_path: Path, kz: Kz) -> Project:
    """A patch that applies on v2, where it does not do what it is for, and is there already on v3."""
    upstream = started(tmp_path)
    made = project(tmp_path, kz, upstream, [("ours", {"a.txt": OURS})], CHECKS)
    upstream.commit("Theirs (#7)", {"other.txt": "50%, bad\n"}, tag="v2")
    upstream.commit("Take it (#8)", {"a.txt": OURS, "other.txt": "good\n"}, tag="v3")
    return made


def test_a_patch_that_applies_and_does_not_do_what_it_is_for_fails(checked: Project) -> None:
    found = checked.json("verify", "--onto", "v2", code=4)
    assert judged(found, "v2")["verdict"] == "clean"
    assert judged(found, "v2")["intents"] == [
        "absent (patches/l/up/checks.yaml:3): other.txt contains '50%, bad'",
    ]
    shown = checked.kz("verify", "--onto", "v2")
    assert re.search(r"^  0001-ours +intent$", shown.stdout, re.MULTILINE) and last(shown) == "kz: exit 4 (conflict)"
    assert "kz: 1 patch does not hold on v2" in shown.stderr


def test_on_github_annotations_stand_at_the_hunk_and_a_summary_is_written(checked: Project, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    checked.upstream.commit("Break (#9)", {"a.txt": put(text(), 10, "theirs")}, tag="v4")
    done = checked.kz("verify", "--tags", "v*", **env)
    rows = [row for row in done.stdout.splitlines() if row.startswith("::")]
    assert len(rows) == 3 and done.returncode == 4
    patch = (checked.root / "patches/l/up/0001-ours.patch").read_text().splitlines()
    number = next(n for n, line in enumerate(patch, 1) if line.startswith("@@"))
    assert f"::error file=patches/l/up/0001-ours.patch,line={number},title=up content::" in done.stdout
    assert "other.txt contains '50%25, bad'" in done.stdout and "title=up intent::" in done.stdout
    assert (
        ",title=up upstreamed::upstreamed at v3; what it changes is there already, at a.txt:7-13; drop the patch there"
        in done.stdout
    )
    assert [row.split(" ")[0] for row in rows].count("::notice") == 1
    text_ = summary.read_text()
    assert text_.startswith("# before\n| l / up | `v1` | `v2` | `v3` | `v4` |\n|---|---|---|---|---|\n")
    assert "| `0001-ours` | clean | **intent** | upstreamed | **content** |" in text_
    # Programs that read the JSON do not meet annotations in it.
    done = checked.kz("verify", "--tags", "v*", "--json", **env)
    assert len(json.loads(done.stdout)[0]["rows"]) == 4 and done.stderr.count("::error ") == 2
    # Of a project in a folder of the repository, GitHub is told the path from the repository's root, wherever kz is started.
    env |= {"KZ_CACHE": str(tmp_path / "store")}
    done = checked.run("-C", "project", "verify", "--onto", "v4", cwd=tmp_path, **env)
    assert "::error file=project/patches/l/up/0001-ours.patch," in done.stdout
    env |= {"GITHUB_WORKSPACE": str(tmp_path)}
    for folder in (checked.root, checked.root / "patches"):
        done = checked.run("verify", "--onto", "v4", cwd=folder, **env)
        assert "::error file=project/patches/l/up/0001-ours.patch," in done.stdout


def test_every_target_in_the_order_asked_and_80_columns_wide(tmp_path: Path, kz: Kz) -> None:
    upstream = started(tmp_path)
    name = "a patch with quite a long subject that says in full what it is for"
    deep = "a/rather/long/path/to/a/file/as/upstreams/have/them/in/their/trees/a.txt"
    upstream.commit("Deep", {deep: text()}, tag="v2")
    ours = project(tmp_path, kz, upstream, [(name, {deep: put(text(), 10, "a long line of ours " * 5)})], pin="v2")
    for number in range(3, 14):
        upstream.commit(f"Theirs {number}", {deep: put(text(), 2, *["theirs"] * number)}, tag=f"v{number}")
    head = upstream.commit("Theirs", {deep: put(text(), 10, "theirs")})
    done = ours.kz("verify", "--onto", "main", head, head[:12], "v3", "--tags", "v*")
    assert done.returncode == 4
    heads = re.findall(r"v\d+|main|[0-9a-f]{10,12}", "".join(re.findall(r"^ {20}.*$", done.stdout, re.MULTILINE)[::3]))
    assert heads == ["v1", *(f"v{n}" for n in range(2, 14)), "main", head[:10], head[:12]]
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"a-patch-with-qui.*… missing +clean +\+2 +\+3$", done.stdout, re.MULTILINE)
    two = json.loads(ours.kz("verify", "--tags", "v1", "v3", "--tags", "v1?", "--json").stdout)[0]["targets"]
    assert [target["name"] for target in two] == ["v1", "v3", "v10", "v11", "v12", "v13"]
    # One revision leaves room for the name.
    one = ours.kz("verify")
    assert re.search(r"^  0001-a-patch-with-quite-a-long-subject-that-says-in-full- clean$", one.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("names", "shown"),
    [("abc", "a, b, c"), ("abcd", "a … d"), ("bcdefh", "b … f, h"), ("bdfh", "b, d, f, h"), ("aefgh", "a, e … h")],
)
def test_columns_side_by_side_are_named_as_a_range(names: str, shown: str) -> None:
    assert ", ".join(ranges(names, "abcdefgh")) == shown


def test_verify_writes_nothing_into_the_project_and_needs_no_network_twice(checked: Project, tmp_path: Path) -> None:
    before = snapshot(checked.root)
    first = checked.kz("verify", "--tags", "v*", "--onto", "main")
    assert snapshot(checked.root) == before
    checked.upstream.folder.rename(tmp_path / "gone")
    assert checked.kz("verify", "--tags", "v*", "--onto", "main").stdout == first.stdout


def test_new_commits_are_asked_for_only_with_fetch(checked: Project) -> None:
    assert checked.kz("verify", "--onto", "main").returncode == 0  # v3: upstreamed
    checked.upstream.commit("Break (#9)", {"a.txt": put(text(), 10, "theirs")})
    assert checked.kz("verify", "--onto", "main").returncode == 0
    assert checked.kz("verify", "--onto", "main", "--fetch").returncode == 4


def test_a_branch_is_brought_by_name_and_renewed_with_the_others(checked: Project) -> None:
    up = checked.upstream
    for name in ("release/1", "release/2"):
        up.git("branch", name, "v1")
    assert checked.kz("verify", "--onto", "release/1", "release/2").returncode == 0
    up.git("checkout", "-q", "release/1")
    up.commit("Break (#9)", {"a.txt": put(text(), 10, "theirs")})
    up.git("branch", "-D", "release/2")
    assert checked.kz("verify", "--onto", "release/1", "release/2").returncode == 0
    found = checked.json("verify", "--onto", "release/1", "main", "--fetch", code=4)
    assert [judged(found, name)["verdict"] for name in ("release/1", "main")] == ["content", "upstreamed"]


def test_a_commit_that_no_branch_has_is_brought_by_its_full_id(checked: Project) -> None:
    head = checked.upstream.pull(5, {"a.txt": put(text(), 10, "theirs")}, base="v1")
    found = checked.json("verify", "--onto", head, code=4)
    assert judged(found, head)["verdict"] == "content"
    short = checked.kz("verify", "--onto", "0123456789ab")
    assert short.returncode == 2 and "must be given in full" in short.stderr


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--onto", "v22"], 2, "upstream has no tag, branch or commit 'v22'\n  -> near ones: v2"),
        (["--onto", ""], 2, "upstream has no tag, branch or commit ''"),
        (["--onto", "a\nb"], 2, "upstream has no tag, branch or commit"),
        (["--onto", "../../etc/passwd"], 2, "upstream has no tag, branch or commit"),
        (["--onto=--upload-pack=touch bad"], 2, "upstream has no tag, branch or commit"),
        (["--onto", "f" * 40], 2, "upstream has no tag, branch or commit"),
        (["--onto"], 2, "expected at least one argument"),
        (["--line", "et-9"], 2, "et-9"),
        (["--tags", "w*"], 2, "no tag of upstream matches 'w*'\n  -> its newest: v1, v2, v3"),
        (["--tags", ""], 2, "no tag of upstream matches ''"),
    ],
)
def test_bad_input(checked: Project, argv: list[str], code: int, said: str) -> None:
    before = snapshot(checked.root)
    done = checked.kz("verify", *argv)
    assert (done.returncode, last(done)) == (code, f"kz: exit {code} (config)"), done.stderr
    assert said in done.stderr and done.stdout == "" and snapshot(checked.root) == before
    assert not (checked.root / "bad").exists()


@pytest.mark.parametrize(
    "argv", [["--onto", "v9"], ["--tags", "v9*"], ["--onto", "main", "--fetch"], ["--onto", "e" * 40]]
)
def test_without_a_network_it_says_so(checked: Project, tmp_path: Path, argv: list[str]) -> None:
    assert checked.kz("verify").returncode == 0
    checked.upstream.folder.rename(tmp_path / "gone")
    done = checked.kz("verify", *argv)
    assert (done.returncode, last(done)) == (6, "kz: exit 6 (missing)"), done.stderr
    assert "https://github.com/up/stream" in done.stderr and "insteadOf" in done.stderr


def test_what_this_machine_overrides_is_judged(checked: Project, tmp_path: Path) -> None:
    local = checked.root / "pins.local.yaml"
    local.write_text("lines: {l: {up: v2}}\n")
    assert judged(checked.json("verify", code=4), "v2")["intents"]
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "a.txt").write_text(before(text(), 1, "one", "two"))
    (folder / "other.txt").write_text("good\n")
    local.write_text(f"sources: {{up: {{folder: {folder}}}}}\n")
    found = checked.json("verify")
    assert found[0]["rows"][0][0]["offset"] == 2


def test_without_a_network_or_a_clone_it_says_so(checked: Project, tmp_path: Path) -> None:
    checked.upstream.folder.rename(tmp_path / "gone")
    done = checked.kz("verify", KZ_CACHE=str(tmp_path / "empty"))
    assert (done.returncode, last(done)) == (6, "kz: exit 6 (missing)"), done.stderr


def test_a_pin_that_is_not_in_the_lock(checked: Project) -> None:
    (checked.root / "pins.yaml").write_text((checked.root / "pins.yaml").read_text().replace("up: v1", "up: v2"))
    done = checked.kz("verify")
    assert done.returncode == 3 and "kz lock --write" in done.stderr


def test_a_stack_that_only_the_lock_has_is_no_success(checked: Project) -> None:
    remove(checked.root / "patches/l/up")
    for argv in (["verify"], ["status"], ["history"]):
        done = checked.kz(*argv)
        assert done.returncode == 3 and "up of l has no stack, pins.lock says" in done.stderr, (argv, done.stderr)


def test_a_store_that_takes_no_verdict_does_not_keep_one_from_being_judged(
    one_patch: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hash_cache, "_told", False)
    ours, place = one_patch, one_patch.root.parent / "store" / "verdicts"
    remove(place)
    place.write_text("in the way")
    done = ours.kz("verify")
    assert done.returncode == 0 and "clean" in done.stdout, done.stderr
    assert done.stderr.count("takes no file") == 1 and str(place) in done.stderr
