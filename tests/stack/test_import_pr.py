"""kz import-pr, kz status and kz upstream: to upstream and back, against an upstream with pull requests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kz
from tests.core.test_github import Answer, Api, make_api, raw_pull
from tests.stack.test_edit import git
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import OURS, kept, worktree
from tests.stack.upstreams import Project, before, copied, project, put, started, text

__all__ = ["make_api"]
PULL = "https://github.com/up/stream/pull/"


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """One patch on a.txt at v1, and a main that has moved on."""
    made = project(tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS})])
    made.upstream.commit("Move on (#3)", {"other.txt": "moved on\n"}, tag="v2")
    return made


def branch(ours: Project, number: int, *steps: tuple[str, dict[str, str | None]], base: str = "main") -> str:
    """A pull request of several commits."""
    up = ours.upstream
    up.git("checkout", "-q", "--detach", base)
    for subject, files in steps:
        up.commit(subject, files)
    head = up.git("rev-parse", "HEAD")
    up.git("update-ref", f"refs/pull/{number}/head", head)
    up.git("checkout", "-q", "main")
    return head


def claims(ours: Project, *words: str, **env: Any) -> dict[str, dict[str, object]]:
    """What `kz status` says of each patch."""
    return {c["patch"]: c for c in ours.json("status", *words, **env)["stacks"][0]["claims"]}


def test_each_commit_becomes_a_patch_that_says_where_it_is_from(ours: Project) -> None:
    was = kept(ours)
    head = branch(
        ours,
        7,
        ("Better b", {"b.txt": put(text(), 3, "better")}),
        ("And c", {"c.txt": "new\n", "b.txt": put(text(), 3, "best")}),
    )
    done = ours.kz("import-pr", "7")
    assert done.returncode == 0, done.stderr
    stack = ours.root / "patches/l/up"
    assert (stack / "series").read_text().split() == ["0001-first.patch", "0002-Better-b.patch", "0003-And-c.patch"]
    assert (stack / "0001-first.patch").read_bytes() == was["patches/l/up/0001-first.patch"]
    for name in ("0002-Better-b.patch", "0003-And-c.patch"):
        mail = (stack / name).read_text()
        for line in (
            f"Upstream-Status: Submitted [{PULL}7]",
            f"Upstream-PR: {PULL}7",
            f"Upstream-Head: {head}",
            f"Origin: {PULL}7/commits/{head}",
        ):
            assert f"\n{line}\n" in mail
    assert ours.kz("apply").returncode == 0
    again = ours.kz("import-pr", "7")
    assert again.returncode == 2 and "the stack has #7 already" in again.stderr


def test_one_that_changes_a_file_of_the_stack_and_another_that_the_clone_lacks(tmp_path: Path, kz: Kz) -> None:
    """Upstream refuses a request that names a patched file: it has only its own."""
    upstream = started(tmp_path)
    b = before(text(), 20, "of the pin")
    upstream.commit("Change b", {"b.txt": b}, tag="v2")
    ours = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS})], pin="v2")
    upstream.commit("Change the end of b", {"b.txt": put(b, 20, "of main")})
    branch(ours, 7, ("Better a and b", {"a.txt": put(text(), 3, "better"), "b.txt": put(put(b, 20, "of main"), 3, "better")}))  # fmt: skip
    (clone,) = (tmp_path / "store" / "git").glob("up-*.git")
    here = sh("git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)", cwd=clone)
    assert upstream.git("rev-parse", "v2:b.txt") not in here, "else there is nothing to fetch"
    done = ours.kz("import-pr", "7")
    assert done.returncode == 0, done.stderr
    mail = (ours.root / "patches/l/up/0002-Better-a-and-b.patch").read_text()
    assert "+++ b/a.txt" in mail and "+++ b/b.txt" in mail and mail.count("\n+better\n") == 2
    assert ours.kz("apply").returncode == 0


def test_some_files_of_it(ours: Project) -> None:
    branch(
        ours,
        7,
        ("Better b", {"b.txt": put(text(), 3, "better"), "other.txt": "x\n"}),
        ("Only other", {"other.txt": "y\n"}),
    )
    assert ours.kz("import-pr", "7", "--path", "nothing").returncode == 2
    assert ours.kz("import-pr", "7", "--path", "b.txt").returncode == 0
    assert (ours.root / "patches/l/up/series").read_text().split() == ["0001-first.patch", "0002-Better-b.patch"]
    assert "other.txt" not in (ours.root / "patches/l/up/0002-Better-b.patch").read_text()


def test_one_that_merged_main_in_between_is_one_patch(ours: Project) -> None:
    up = ours.upstream
    branch(ours, 7, ("Better b", {"b.txt": put(text(), 3, "better")}), base="v1")
    up.git("checkout", "-q", "--detach", "refs/pull/7/head")
    up.git("merge", "-q", "-m", "Merge main", "main")
    head = up.commit("Even better", {"b.txt": put(text(), 3, "best")})
    up.git("update-ref", "refs/pull/7/head", head)
    up.git("checkout", "-q", "main")
    assert ours.kz("import-pr", "7").returncode == 0
    (made,) = (p for p in (ours.root / "patches/l/up").glob("0002*"))
    mail = made.read_text()
    assert "+best" in mail and "better" not in mail and "other.txt" not in mail, "main's own changes are not of it"
    assert "Subject: [PATCH] Better b\n" in mail, "its first commit's"
    up.commit(
        "Best b, in the end (#7)\n\nDate: not known\nSaid at length.\n---\nNot cut.", {"b.txt": put(text(), 3, "best")}
    )
    (ours.root / "patches/l/up" / made.name).unlink()
    (ours.root / "patches/l/up/series").write_text("0001-first.patch\n")
    assert ours.kz("lock", "--write").returncode == 0 and ours.kz("status", "--fetch").returncode == 0
    assert ours.kz("import-pr", "7").returncode == 0
    landed = (ours.root / "patches/l/up/0002-Best-b-in-the-end-7.patch").read_text()
    assert (
        "Subject: [PATCH] Best b, in the end (#7)\n\n Date: not known\nSaid at length." in landed
        and "Not cut." in landed
    ), "as it landed"
    assert "Upstream-Status: Backport [" in landed


def test_one_that_is_a_merge_alone_is_what_the_merge_changed(ours: Project) -> None:
    up = ours.upstream
    up.git("checkout", "-q", "--detach", "main")
    up.git("merge", "-q", "--no-ff", "--no-commit", "main~1")
    (up.folder / "c.txt").write_text("by the merge\n")
    up.git("add", "c.txt")
    tree = up.git("write-tree")
    head = up.git("commit-tree", tree, "-p", "main", "-p", "main~1", "-m", "Merge and change c")
    up.git("update-ref", "refs/pull/7/head", head)
    up.git("reset", "-q", "--hard")
    up.git("checkout", "-q", "main")
    done = ours.kz("import-pr", "7")
    assert done.returncode == 0, done.stderr
    assert (ours.root / "patches/l/up/0002-Merge-and-change-c.patch").is_file()


def test_a_conflict_names_what_the_request_stands_on(ours: Project) -> None:
    was = kept(ours)
    ours.upstream.commit("Prepare b (#5)", {"b.txt": put(text(), 10, "prepared")})
    branch(ours, 7, ("Use it", {"b.txt": put(text(), 10, "prepared", "used")}))
    done = ours.kz("import-pr", "7")
    assert done.returncode == 4 and kept(ours) == was
    assert "it requires lines that are not there yet, from:" in done.stderr and "Prepare b (#5)" in done.stderr
    assert "    -line 10\n" in done.stderr and "    +prepared\n" in done.stderr
    tree = worktree(ours, "import-pr")
    (tree / "b.txt").write_text(put(text(), 10, "used"))
    sh("git", "add", "b.txt", cwd=tree)
    assert "import-pr l up" in ours.kz("status").stdout
    done = ours.kz("import-pr", "continue")
    assert done.returncode == 0, done.stderr
    assert ours.kz("apply").returncode == 0 and f"{PULL}7" in (ours.root / "patches/l/up/0002-Use-it.patch").read_text()


def test_no_such_request(ours: Project) -> None:
    was = kept(ours)
    for words, said in (
        (("99",), "no pull request #99"),
        ((), "arguments are required: N|STEP"),
        (("continue",), "no import-pr is in progress"),
        (("continue", "--path", "a.txt"), "--path goes with a number, not with continue"),
    ):
        done = ours.kz("import-pr", *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = ours.kz("upstream", "abort", "--onto", "v1")
    assert done.returncode == 2 and "--onto goes with a patch, not with abort" in done.stderr, done.stderr
    assert kept(ours) == was


def test_status_sees_it_move_land_and_close(ours: Project, make_api: Callable[[], Api]) -> None:
    old = branch(ours, 7, ("Better b", {"b.txt": put(text(), 3, "better")}))
    assert ours.kz("import-pr", "7").returncode == 0
    name = "0002-Better-b.patch"
    assert claims(ours)[name]["facts"] == [] and claims(ours)[name]["wrong"] == []
    api = make_api()
    api.tell("/repos/up/stream/pulls/7", Answer(200, {**raw_pull(7), "state": "closed", "merged_at": None}))
    new = branch(ours, 7, ("Better b", {"b.txt": put(text(), 3, "better still")}))
    assert claims(ours)[name]["facts"] == [], "without --fetch nobody is asked"
    facts = claims(ours, "--fetch", GITHUB_API_URL=api.url)[name]["facts"]
    assert isinstance(facts, list)
    assert (
        facts[0].startswith("#7 is closed") and facts[1] == f"#7 has moved since it was taken: {old[:10]} -> {new[:10]}"
    )
    assert any("-+better" in row and "still" not in row for row in facts) and any(
        "better still" in row for row in facts
    )
    ours.upstream.commit("Better b (#7)", {"b.txt": put(text(), 3, "better")}, tag="v3")
    said = claims(ours, "--fetch", GITHUB_API_URL="http://127.0.0.1:1")[name]
    assert "landed as" in str(said["facts"]) and "first in v3" in str(said["facts"])
    assert said["wrong"] == [
        "says Submitted, but #7 has landed",
        "main has what it changes, at b.txt:1-6: the next rebase drops it",
    ]
    shown = ours.kz("status").stdout
    assert "    ! says Submitted, but #7 has landed\n" in shown
    assert ours.kz("rebase", "--onto", "v3").returncode == 0
    assert (ours.root / "patches/l/up/series").read_text().split() == ["0001-first.patch"]


def test_status_still_speaks_when_github_does_not(ours: Project) -> None:
    branch(ours, 7, ("Better b", {"b.txt": put(text(), 3, "better")}))
    assert ours.kz("import-pr", "7").returncode == 0
    done = ours.kz("status", "--fetch", GITHUB_API_URL="http://127.0.0.1:1")
    assert done.returncode == 0 and "! GitHub was not asked" in done.stdout and "0002-Better-b" in done.stdout


@pytest.mark.parametrize(
    ("trailer", "wrong"),
    [
        ("Upstream-Status: Maybe", "says Maybe; the words are Pending"),
        ("Upstream-Status: Submitted", "says Submitted, and names no `Upstream-PR:`"),
        (
            f"Upstream-Status: Backport [x]\nUpstream-PR: {PULL}9",
            "says Backport, but main has neither #9 nor what it changes",
        ),
        (f"Upstream-Status: Pending\nUpstream-PR: {PULL}3", "says Pending, but #3 has landed"),
        ("Upstream-Status: Inappropriate [ours alone]", ""),
    ],
)
def test_status_compares_claims_with_history(ours: Project, trailer: str, wrong: str) -> None:
    patch = ours.root / "patches/l/up/0001-first.patch"
    head, diff = patch.read_text().split("\n---\n" if "\n---\n" in patch.read_text() else "\ndiff --git", 1)
    patch.write_text(f"{head.rstrip()}\n\n{trailer}\n\ndiff --git{diff}" if trailer else patch.read_text())
    found = claims(ours, "--fetch", GITHUB_API_URL="http://127.0.0.1:1")["0001-first.patch"]["wrong"]
    assert isinstance(found, list)
    assert [row[: len(wrong)] for row in found] == ([wrong] if wrong else [])


def test_upstream_makes_a_branch_on_main_with_the_text_of_the_request(ours: Project) -> None:
    was = kept(ours)
    branch(ours, 7, ("Better b", {"b.txt": put(text(), 10, "better ")}))
    ours.upstream.commit("Grow b (#8)", {"b.txt": before(text(), 1, "grown")})
    assert ours.kz("import-pr", "7").returncode == 0
    was = kept(ours)
    done = ours.kz("upstream", "0002")
    assert done.returncode == 0, done.stderr
    tree = worktree(ours, "upstream")
    assert git(tree, "rev-parse", "HEAD~1") == ours.upstream.git("rev-parse", "main")
    assert git(tree, "log", "-1", "--format=%B").strip() == "Better b", "our trailers mean nothing there"
    assert git(tree, "symbolic-ref", "--short", "HEAD") == "kz/Better-b"
    assert (tree.parent / "pull-request.md").read_text().startswith("# Better b\n")
    assert (
        "FAIL whitespace" in done.stdout
        and "b.txt:11: trailing whitespace." in done.stdout
        and "SKIP lintrunner" in done.stdout
    )
    assert kept(ours) == was
    (tree / "b.txt").write_text("mine\n")
    assert ours.kz("upstream", "1").returncode == 4, "what is not committed is not thrown away"
    git(tree, "checkout", "-q", ".")
    assert ours.kz("upstream", "first").returncode == 0
    assert git(tree, "log", "-1", "--format=%s", "kz/Better-b") == "Better b", "the other branch stays"


def test_upstream_says_when_there_is_nothing_to_send_and_when_it_conflicts(ours: Project) -> None:
    ours.upstream.commit("Ours (#9)", {"a.txt": OURS}, tag="v3")
    assert ours.kz("verify", "--fetch", "--onto", "main").returncode == 0
    done = ours.kz("upstream", "1")
    assert done.returncode == 2 and "upstream has it already" in done.stderr
    ours.upstream.commit("Not ours (#10)", {"a.txt": put(text(), 10, "theirs")}, tag="v4")
    done = ours.kz("upstream", "1", "--onto", "v4")
    assert done.returncode == 4 and "Ours (#9)" in done.stderr
    tree = worktree(ours, "upstream")
    (tree / "a.txt").write_text(OURS)
    sh("git", "add", "a.txt", cwd=tree)
    done = ours.kz("upstream", "continue")
    assert done.returncode == 0 and "kz/first" in done.stdout, done.stderr


LINT = """\
import json, sys
for path in open(sys.argv[1]).read().split():
    for number, line in enumerate(open(path), 1):
        if line == "ours\\n":
            print(json.dumps({"path": path, "line": number, "char": 1, "code": "OURS", "severity": "error", "name": "no-ours",
                              "original": None, "replacement": None, "description": "this is ours"}))
"""
TOML = """\
[[linter]]
code = "OURS"
include_patterns = ["**/*.txt"]
command = ["python3", "lint.py", "{{PATHSFILE}}"]
"""


def test_upstreams_own_linters_are_asked(ours: Project, tmp_path: Path) -> None:
    ours.upstream.commit("Lint", {".lintrunner.toml": TOML, "lint.py": LINT}, tag="v3")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = ours.kz("upstream", "1", "--onto", "v3", PATH=path, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "FAIL lintrunner" in done.stdout and "a.txt:10" in done.stdout and "this is ours" in done.stdout


def test_a_linter_is_not_asked_of_a_file_that_the_patch_deletes(ours: Project, tmp_path: Path) -> None:
    branch(ours, 7, ("Drop b", {"b.txt": None, "c.txt": "new\n"}))
    branch(ours, 8, ("Drop other", {"other.txt": None}), base="v1")
    ours.upstream.commit("Lint", {"other.txt": "other\n", ".lintrunner.toml": TOML, "lint.py": LINT}, tag="v3")
    assert ours.kz("import-pr", "7").returncode == 0
    assert ours.kz("import-pr", "8").returncode == 0
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = ours.kz("upstream", "2", "--onto", "v3", PATH=path, HOME=str(tmp_path))
    assert done.returncode == 0 and "PASS lintrunner" in done.stdout, done.stdout + done.stderr
    done = ours.kz("upstream", "3", "--onto", "v3", PATH=path, HOME=str(tmp_path))
    assert "SKIP lintrunner: the patch only removes files" in done.stdout, done.stdout + done.stderr


def test_a_file_that_is_named_like_a_command_of_the_linter_is_a_file(ours: Project, tmp_path: Path) -> None:
    branch(ours, 7, ("Add two", {"init": "new\n", "-x.txt": "ours\n"}))
    ours.upstream.commit("Lint", {".lintrunner.toml": TOML, "lint.py": LINT}, tag="v3")
    assert ours.kz("import-pr", "7").returncode == 0
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = ours.kz("upstream", "2", "--onto", "v3", PATH=path, HOME=str(tmp_path))
    assert "FAIL lintrunner" in done.stdout and "-x.txt:1" in done.stdout, done.stdout + done.stderr
