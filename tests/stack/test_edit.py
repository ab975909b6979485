"""kz edit and kz refresh: a stack as commits, with everything people do to commits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Kz
from tests.stack.test_git_tools import sh
from tests.stack.test_rebase import CHECKS, OURS, kept, worktree
from tests.stack.upstreams import Project, copied, project, put, started, text

ME = ("-c", "user.name=Me", "-c", "user.email=me@example.org")


@copied
def ours(tmp_path: Path, kz: Kz) -> Project:
    """Two patches on v1, with checks."""
    return project(
        tmp_path, kz, started(tmp_path), [("first", {"a.txt": OURS}), ("second", {"b.txt": OURS})], checks=CHECKS
    )


def edited(ours: Project) -> Path:
    """The worktree of a fresh edit."""
    done = ours.kz("edit", "up")
    assert done.returncode == 0, done.stderr
    return worktree(ours, "edit")


def git(tree: Path, *words: str) -> str:
    """git as the person runs it."""
    return sh("git", *ME, *words, cwd=tree)


def test_nothing_done_is_nothing_changed(ours: Project) -> None:
    was = kept(ours)
    edited(ours)
    done = ours.kz("refresh", "up")
    assert done.returncode == 0 and "nothing changed" in done.stdout and kept(ours) == was


def test_an_amended_patch_changes_and_the_others_keep_their_bytes(ours: Project) -> None:
    was = kept(ours)
    tree = edited(ours)
    (tree / "b.txt").write_text(put(text(), 10, "ours", "and more"))
    git(tree, "commit", "-q", "--amend", "-a", "--no-edit")
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    now = kept(ours)
    assert {name for name in now if now[name] != was[name]} == {"patches/l/up/0002-second.patch", "pins.lock"}
    assert ours.kz("apply").returncode == 0
    (tree / "a.txt").write_text("more\n" + (tree / "a.txt").read_text())
    git(tree, "commit", "-q", "-a", "-m", "third")
    assert ours.kz("refresh", "up").returncode == 0, "the worktree stays for more"
    assert (ours.root / "patches/l/up/series").read_text().splitlines()[-1] == "0003-third.patch"


def test_a_store_may_have_any_path(ours: Project, tmp_path: Path) -> None:
    done = ours.kz("edit", "up", KZ_CACHE=str(tmp_path / 'a "new"\nline'))
    assert done.returncode == 0 and git(worktree(ours, "edit"), "log", "-1", "--format=%s") == "second", done.stderr


BODIES = (
    "[PATCH] of someone\nIndex: f", "Why.\n---\nand more", "diff -u a b\nIndex: f\n", "From: nobody\n---- \nend", "x\n--- \nFrom me",
    "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-line 1\n+line one", "diff --git a/f b/f", "From 0123456789 Mon Sep 17 00:00:00 2001\nx",
)  # fmt: skip
"""What git am takes for a header, for the end of the message, or for the diff."""


def test_no_line_of_a_message_is_lost_or_taken_for_a_diff(ours: Project) -> None:
    tree = edited(ours)
    for number, body in enumerate(BODIES):
        (tree / "b.txt").write_text(f"ours {number}\n")
        git(tree, "commit", "-q", "-a", "--cleanup=verbatim", "-m", f"Title {number}\n\n{body}\n")
    assert ours.kz("refresh", "up").returncode == 0
    written = git(tree, "rev-parse", "HEAD^{tree}")
    stack = sorted((ours.root / "patches/l/up").glob("*.patch"))
    git(tree, "reset", "-q", "--hard", f"HEAD~{len(stack)}")
    git(tree, "am", "-q", *map(str, stack))
    assert git(tree, "rev-parse", "HEAD^{tree}") == written
    for number, body in enumerate(BODIES):
        lines = git(tree, "log", "-1", "--format=%b", f"HEAD~{len(BODIES) - 1 - number}").splitlines()
        assert [line.strip() for line in lines] == [line.strip() for line in body.splitlines()]
    assert ours.kz("refresh", "up").returncode == 0, "git am makes what kz reads of them"


def test_reordered_dropped_added_and_reworded(ours: Project) -> None:
    series = ours.root / "patches/l/up/series"
    series.write_text("# why first\n0001-first.patch\n# why second\n0002-second.patch\n# the end\n")
    assert ours.kz("lock", "--write").returncode == 0
    tree = edited(ours)
    base = git(tree, "rev-parse", "HEAD~2")
    first, second = git(tree, "rev-parse", "HEAD~1"), git(tree, "rev-parse", "HEAD")
    git(tree, "checkout", "-q", base)
    git(tree, "cherry-pick", second, first)
    assert ours.kz("refresh", "up").returncode == 0
    stack = ours.root / "patches/l/up"
    assert series.read_text() == "# why second\n0001-second.patch\n# why first\n0002-first.patch\n# the end\n"
    assert b"Subject: [PATCH] second" in (stack / "0001-second.patch").read_bytes()
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    mail = sh("git", "format-patch", "--stdout", f"{base}..{first}", cwd=tree)
    (tree.parent / "mail").write_text(mail)
    git(tree, "am", "-q", str(tree.parent / "mail"))
    git(tree, "commit", "-q", "--amend", "-m", "First of all\n\nUpstream-Status: Pending")
    assert ours.kz("refresh", "up").returncode == 0
    assert sorted(p.name for p in stack.glob("*.patch")) == ["0001-second.patch", "0002-first.patch"]
    assert b"Upstream-Status: Pending" in (stack / "0002-first.patch").read_bytes(), (
        "reworded: the name stays, and its checks"
    )
    assert "first:" in (stack / "checks.yaml").read_text()
    git(tree, "reset", "-q", "--hard", base)
    done = ours.kz("refresh", "up")
    assert done.returncode == 0 and not stack.exists(), done.stderr
    assert ours.kz("apply").returncode == 0 and ours.kz("verify").returncode == 0


@pytest.mark.parametrize("first", ["Date: soon", "From: Other <o@example.org>", "subject: another"])
def test_a_text_that_begins_like_a_header_stays_text(ours: Project, first: str) -> None:
    assert ours.kz("edit", "up").returncode == 0
    git(worktree(ours, "edit"), "commit", "-q", "--amend", "-m", f"second\n\n{first}\n\nAnd more.")
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    mail = (ours.root / "patches/l/up/0002-second.patch").read_text()
    assert f"\nSubject: [PATCH] second\n\n {first}\n\nAnd more.\n\ndiff " in mail
    assert "nothing changed" in ours.kz("refresh", "up").stdout and ours.kz("apply").returncode == 0


def test_a_check_comes_with_its_patch(ours: Project) -> None:
    tree = edited(ours)
    (tree / "other.txt").write_text("third\n")
    git(tree, "commit", "-q", "-a", "-m", "third")
    checks = tree.parent / "checks.yaml"
    checks.write_text(checks.read_text() + "third:\n  - contains: {file: other.txt, text: nothing}\n")
    was = kept(ours)
    done = ours.kz("refresh", "up")
    assert (
        done.returncode == 4 and "third: contains" in done.stderr and "kz refresh" in done.stderr and kept(ours) == was
    )
    checks.write_text(checks.read_text().replace("nothing", "third"))
    assert ours.kz("refresh", "up").returncode == 0
    assert "text: third" in (ours.root / "patches/l/up/checks.yaml").read_text()


def test_what_is_no_stack_is_refused_and_nothing_is_lost(ours: Project) -> None:
    was = kept(ours)
    tree = edited(ours)
    (tree / "a.txt").write_text("uncommitted\n")
    done = ours.kz("refresh", "up")
    assert done.returncode == 4 and "not committed:\n  a.txt" in done.stderr
    git(tree, "stash", "-q")
    side = git(tree, "commit-tree", "HEAD~1^{tree}", "-p", "HEAD~1", "-m", "side")
    git(tree, "merge", "-q", "-s", "ours", "-m", "merged", side)
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "is a merge" in done.stderr
    base = ours.json("edit", "up")["base"]
    assert f"git rebase {base[:10]} in the worktree" in done.stderr, done.stderr
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    git(tree, "commit", "-q", "--allow-empty", "-m", "nothing")
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "changes nothing" in done.stderr
    git(tree, "checkout", "-q", "--orphan", "other")
    git(tree, "commit", "-q", "-m", "elsewhere")
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "or is not on" in done.stderr
    assert kept(ours) == was


def test_a_fixup_is_no_patch_and_the_command_that_is_named_folds_it(ours: Project) -> None:
    was = kept(ours)
    tree = edited(ours)
    (tree / "a.txt").write_text((tree / "a.txt").read_text() + "corrected\n")
    git(tree, "commit", "-q", "-a", "--fixup", "HEAD")
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and "belongs in another commit" in done.stderr and kept(ours) == was, done.stderr
    command = done.stderr.split("-> git ")[1].split(" in the worktree")[0].split()
    sh("git", *ME, "-c", "sequence.editor=true", *command, cwd=tree)
    done = ours.kz("refresh", "up")
    assert done.returncode == 0 and kept(ours).keys() == was.keys() and kept(ours) != was, done.stderr


def test_a_forks_branch_with_merges_becomes_a_stack_by_the_rebase_that_the_guide_names(
    ours: Project, tmp_path: Path
) -> None:
    sh("git", "clone", "-q", "-b", "v1", ours.upstream.folder, tmp_path / "fork", cwd=tmp_path)
    fork = tmp_path / "fork"

    def commit(name: str, *words: str) -> None:
        (fork / name).write_text(f"{words[-1]}\n")
        git(fork, "add", "-A")
        git(fork, "commit", "-q", *words)

    git(fork, "checkout", "-q", "-b", "branch")
    commit("one.txt", "-m", "Add one")
    git(fork, "checkout", "-q", "-b", "side")
    commit("side.txt", "-m", "Add side")
    git(fork, "checkout", "-q", "branch")
    commit("two.txt", "-m", "Add two")
    git(fork, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
    commit("one.txt", "--fixup", ":/Add one")
    tree = edited(ours)
    guide = (ROOT / "docs/guides/own-stack.md").read_text().split("## A branch of a fork")[1].split("##")[0]
    (fetch,) = re.findall(r"^\$ git (fetch) \S+ our-branch$", guide, re.MULTILINE)
    (rebase,) = re.findall(r"^\$ git (rebase .*)$", guide, re.MULTILINE)
    git(tree, fetch, "-q", str(fork), "branch")
    git(tree, "-c", "sequence.editor=true", "-c", "core.editor=true", *rebase.split())
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    series = (ours.root / "patches/l/up/series").read_text().split()
    assert series[2] == "0003-Add-one.patch"
    assert {name[5:] for name in series[3:]} == {"Add-side.patch", "Add-two.patch"}, series
    assert "+:/Add one\n" in (ours.root / "patches/l/up/0003-Add-one.patch").read_text()


def test_a_rebase_in_the_middle_is_not_taken_for_its_end(ours: Project) -> None:
    tree = edited(ours)
    sh("git", *ME, "-c", "sequence.editor=sed -i 's/^pick/edit/'", "rebase", "-q", "-i", "HEAD~2", cwd=tree)
    done = ours.kz("refresh", "up")
    assert done.returncode == 4 and "a rebase is in progress" in done.stderr


def test_edit_goes_on_where_it_was_and_begins_anew_when_the_files_changed(ours: Project) -> None:
    tree = edited(ours)
    (tree / "a.txt").write_text("mine\n")
    again = ours.kz("edit", "up")
    assert again.returncode == 0 and "up: is in" in again.stdout and (tree / "a.txt").read_text() == "mine\n"
    git(tree, "checkout", "-q", ".")
    (ours.root / "patches/l/up/series").write_text("# new\n0001-first.patch\n0002-second.patch\n")
    assert ours.kz("refresh", "up").returncode == 3, "the files changed meanwhile"
    assert ours.kz("lock", "--write").returncode == 0
    assert "checked out in" in ours.kz("edit", "up").stdout and ours.kz("refresh", "up").returncode == 0
    assert ours.kz("edit", "abort", "up").returncode == 0 and not tree.exists()
    assert ours.kz("refresh", "up").returncode == 2 and ours.kz("edit", "abort", "up").returncode == 2


def test_a_rebase_does_not_strand_work_that_is_not_refreshed(ours: Project) -> None:
    """It changed the patches below, and the edit's commits fitted nothing any more."""
    ours.upstream.commit("More", {"more.txt": "more\n"}, tag="v2")
    tree = edited(ours)
    was = kept(ours)
    (tree / "other.txt").write_text("mine\n")
    for step in ("changed", "committed"):
        if step == "committed":
            git(tree, "commit", "-q", "-a", "-m", "Mine\n\nUpstream-Status: Pending")
        refused = ours.kz("rebase", "--onto", "v2")
        assert refused.returncode == 4 and str(tree) in refused.stderr and "kz refresh" in refused.stderr
        assert kept(ours) == was
    assert ours.kz("rebase", "--onto", "v2", "--as", "next").returncode == 0, "another line: the stack stays"
    assert ours.kz("refresh", "--line", "l").returncode == 0
    assert ours.kz("rebase", "--onto", "v2").returncode == 0
    assert "+mine" in (ours.root / "patches/l/up/0003-Mine.patch").read_text()
    (tree / "other.txt").write_text("more\n")
    git(tree, "commit", "-q", "-a", "-m", "More")
    stale = ours.kz("refresh")
    assert stale.returncode == 3 and f"git format-patch in {tree}" in stale.stderr


def test_the_only_stack_and_the_only_edit_need_no_name(ours: Project) -> None:
    assert ours.kz("edit").returncode == 0
    done = ours.kz("refresh")
    assert done.returncode == 0 and "nothing changed" in done.stdout, done.stderr
    assert ours.kz("edit", "abort", "--line", "l").returncode == 0
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("  l: {up: v1}\n", "  l: {up: v1}\n  m: {up: v1}\n"))
    assert ours.kz("lock", "--write").returncode == 0
    assert ours.kz("edit", "up", "--line", "m").returncode == 0
    assert ours.kz("refresh").stdout.startswith("m up v1:")
    done = ours.kz("edit", "abort")
    assert done.returncode == 0 and "edit of up on m is aborted" in done.stdout, done.stderr
    done = ours.kz("edit", "--line", "m")
    assert done.returncode == 2 and "-> kz edit SOURCE begins one" in done.stderr


def test_who_asks_kz_edit_for_a_status_is_told_who_has_it(ours: Project) -> None:
    done = ours.kz("edit", "status")
    assert done.returncode == 2 and "kz status" in done.stderr and "pins no source" not in done.stderr, done.stderr


def test_the_first_patch_of_a_source(tmp_path: Path, kz: Kz) -> None:
    """Its worktree has all files: no patch says yet which folders are needed."""
    upstream = started(tmp_path)
    upstream.commit("Add a folder", {"far/away.txt": "far away\n", "far/logo.gif": "gif"}, tag="v2")
    ours = project(tmp_path, kz, upstream, [], pin="v2")
    pins = ours.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("up: {", "up: {exclude: ['*.gif'], ", 1))
    stack = ours.root / "patches/l/up"
    tree = edited(ours)
    assert not (tree / "far/logo.gif").exists()
    (tree / "far/away.txt").write_text("nearer\n")
    (tree / "new").mkdir()
    (tree / "new/file").touch()
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-a", "-m", "A first\n\nUpstream-Status: Pending")
    done = ours.kz("refresh", "up")
    assert done.returncode == 0 and "range-diff" not in done.stdout, done  # of nothing: git prints its usage
    assert (stack / "series").read_text() == "0001-A-first.patch\n"
    assert "logo" not in (stack / "0001-A-first.patch").read_text()
    assert ours.kz("apply").returncode == 0 and ours.kz("verify").returncode == 0


def test_a_file_that_the_worktree_never_had_is_removed(tmp_path: Path, kz: Kz) -> None:
    """Its content is part of the patch, and only upstream has it."""
    upstream = started(tmp_path)
    upstream.commit("Add a folder", {"far/away.txt": "far away\n"}, tag="v2")
    ours = project(tmp_path, kz, upstream, [("first", {"a.txt": OURS})], pin="v2")
    tree = edited(ours)
    assert not (tree / "far").exists()
    git(tree, "rm", "-q", "--sparse", "far/away.txt")
    git(tree, "commit", "-q", "-m", "Remove it")
    done = ours.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    assert "-far away" in (ours.root / "patches/l/up/0002-Remove-it.patch").read_text()
    assert ours.kz("apply").returncode == 0


def test_line_ends_of_pins_and_checks_are_kept(ours: Project) -> None:
    files = [ours.root / "pins.yaml", ours.root / "patches/l/up/checks.yaml"]
    for file in files:
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    ours.upstream.commit("Move on", {"other.txt": "moved on\n"}, tag="v2")
    assert ours.kz("rebase", "--onto", "v2").returncode == 0
    assert all(b"\n" not in file.read_bytes().replace(b"\r\n", b"") for file in files)


@pytest.mark.parametrize(("added", "told"), [(b"# \xe9\n", "UTF-8"), (b"first: [\n", "")])
def test_checks_that_cannot_be_read_are_told_by_the_file_to_fix(ours: Project, added: bytes, told: str) -> None:
    was = kept(ours)
    tree = edited(ours)
    checks = tree.parent / "checks.yaml"
    checks.write_bytes(checks.read_bytes() + added)
    done = ours.kz("refresh", "up")
    assert done.returncode == 2 and str(checks) in done.stderr and told in done.stderr, done.stderr
    assert kept(ours) == was
