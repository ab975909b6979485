"""A project whose stack is a Debian package's: `patches: debian/patches` in the pins."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_edit import git
from tests.stack.test_git_tools import sh
from tests.stack.test_quilt import diff
from tests.stack.test_rebase import worktree
from tests.stack.upstreams import URL, Project, before, put, started, text

ONE = put(text(), 10, "ours")
SERIES = "# Debian's own\n\nfix-a.diff -p0   # old style\ndep3.patch\n# last\n"


@pytest.fixture
def debian(tmp_path: Path, kz: Kz) -> Project:
    """fix-a.diff is -p0 without a header, dep3.patch has CRLF line ends and a DEP-3 header."""
    upstream = started(tmp_path)
    root = tmp_path / "project"
    stack = root / "debian" / "patches"
    stack.mkdir(parents=True)
    (stack / "series").write_text(SERIES)
    (stack / "fix-a.diff").write_bytes(diff(tmp_path, text().encode(), ONE.encode(), "a.txt.orig", "a.txt"))
    header = b"Description: Ours in b\n Because.\nAuthor: Jane Doe <jane@example.org>\nLast-Update: 2024-05-06\n\n"
    dep3 = header + diff(tmp_path, text().encode(), ONE.encode(), "a/b.txt", "b/b.txt")
    (stack / "dep3.patch").write_bytes(dep3.replace(b"\n", b"\r\n"))
    (root / "pins.yaml").write_text(
        f"version: 1\ndefault: l\nsources:\n  up: {{git: {URL}, patches: debian/patches}}\nlines:\n  l:\n    up: v1\n"
        "targets:\n  t: {platform: linux, abi: arm64, sources: [up], tools: {cmake: [c], ninja: [n], objcopy: [o]}, cmake: {}, outputs: {}}\n"
    )
    made = Project(root, upstream, kz)
    done = made.kz("lock", "--write")
    assert done.returncode == 0, done.stderr
    return made


def pushed(debian: Project, revision: str, tmp_path: Path) -> tuple[list[str], str]:
    """(the patches that quilt leaves applied on a revision, the tree id of that)"""
    place = Path(tempfile.mkdtemp(dir=tmp_path)) / "tree"
    sh("git", "clone", "-q", str(debian.upstream.folder), str(place), cwd=tmp_path)
    sh("git", "checkout", "-q", revision, cwd=place)
    env = {
        **os.environ,
        "QUILT_PATCHES": str(debian.root / "debian/patches"),
        "QUILT_PC": str(place.parent / "pc"),
    }
    for words in (["push", "-a", "--fuzz=0"], ["applied"]):
        done = subprocess.run(["quilt", "--quiltrc", "-", *words], cwd=place, env=env, capture_output=True, text=True)
    sh("git", "add", "-A", cwd=place)
    return done.stdout.split() if done.returncode == 0 else [], sh("git", "write-tree", cwd=place)


def test_it_verifies_as_quilt_pushes(debian: Project, tmp_path: Path) -> None:
    up = debian.upstream
    up.commit("Grow (#2)", {"a.txt": before(text(), 1, "grown")}, tag="v2")
    up.commit("Take b (#3)", {"b.txt": put(text(), 10, "theirs")}, tag="v3")
    up.commit("Take a (#4)", {"a.txt": text(3)}, tag="v4")
    found = debian.json("verify", "--onto", "v1", "v2", "v3", "v4", code=4)[0]
    assert found["folder"] == "debian/patches" and found["patches"] == ["fix-a.diff", "dep3.patch"]
    for target, row in zip(found["targets"], found["rows"], strict=True):
        held = [j["verdict"] in ("clean", "offset") for j in row]
        applied, _ = pushed(debian, target["name"], tmp_path)
        # quilt stops at the first that fails; kz goes on, and says so.
        assert len(applied) == (held.index(False) if False in held else 2), target
    assert [[j["verdict"] for j in row] for row in found["rows"]] == [
        ["clean", "clean"],
        ["offset", "clean"],
        ["offset", "content"],
        ["content", "content"],
    ]
    assert debian.json("apply")["l"][0]["tree"] == pushed(debian, "v1", tmp_path)[1]


def test_it_is_edited_and_rebased_in_its_own_style(debian: Project, tmp_path: Path) -> None:
    stack = debian.root / "debian/patches"
    was = {p.name: p.read_bytes() for p in stack.iterdir()}
    assert debian.kz("edit", "up").returncode == 0
    assert "nothing changed" in debian.kz("refresh", "up").stdout
    tree = worktree(debian, "edit")
    (tree / "b.txt").write_text(put(text(), 10, "ours", "and more"))
    git(tree, "commit", "-q", "--amend", "-a", "--no-edit")
    (tree / "other.txt").write_text("third\n")
    git(tree, "commit", "-q", "-a", "-m", "Third, of git")
    done = debian.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    assert (stack / "series").read_text() == SERIES.replace("# last\n", "Third-of-git.patch\n# last\n")
    assert (stack / "fix-a.diff").read_bytes() == was["fix-a.diff"]
    assert (
        b"Author: Jane" not in (stack / "dep3.patch").read_bytes()
        and b"From: Jane Doe" in (stack / "dep3.patch").read_bytes()
    )
    assert debian.kz("verify").returncode == 0
    assert pushed(debian, "v1", tmp_path)[0] == ["fix-a.diff", "dep3.patch", "Third-of-git.patch"], (
        "quilt takes it still"
    )
    assert debian.kz("edit", "abort", "up").returncode == 0
    debian.upstream.commit("Grow (#2)", {"c.txt": "c\n"}, tag="v2")
    shared = debian.kz("rebase", "--onto", "v2", "--as", "m")
    assert shared.returncode == 2 and "would share debian/patches with l" in shared.stderr
    done = debian.kz("rebase", "--onto", "v2")
    assert done.returncode == 0 and (stack / "fix-a.diff").read_bytes() == was["fix-a.diff"], done.stderr
    assert pushed(debian, "v2", tmp_path)[1] == debian.json("apply")["l"][0]["tree"]


def test_a_patch_whose_name_is_no_branch_is_prepared_for_upstream(debian: Project) -> None:
    stack = debian.root / "debian/patches"
    (stack / "fix-a.diff").rename(stack / "fix..a.diff")
    (stack / "series").write_text(SERIES.replace("fix-a", "fix..a"))
    assert debian.kz("lock", "--write").returncode == 0
    done = debian.kz("upstream", "1", "--onto", "v1")
    assert done.returncode == 0 and "branch kz/fix-a-diff on v1" in done.stdout, done.stdout + done.stderr


def test_two_new_patches_with_one_subject_are_two_files(debian: Project) -> None:
    stack = debian.root / "debian/patches"
    (stack / "fix#1.patch").write_bytes(b"--- a/c.txt\n+++ b/c.txt\n@@ -0,0 +1 @@\n+c\n")
    (stack / "series").write_bytes(SERIES.encode() + b"# Gr\xf6\xdfe\nfix#1.patch\n")
    assert debian.kz("lock", "--write").returncode == debian.kz("edit", "up").returncode == 0
    tree = worktree(debian, "edit")
    for content in ("once\n", "twice\n"):
        (tree / "other.txt").write_text(content)
        git(tree, "commit", "-q", "-a", "-m", "More")
    done = debian.kz("refresh", "up")
    assert done.returncode == 0, done.stderr
    was = SERIES.encode() + b"# Gr\xf6\xdfe\nfix#1.patch\n"
    assert (stack / "series").read_bytes() == was + b"More.patch\nMore-2.patch\n"


def test_a_series_whose_last_patch_is_dropped_is_an_empty_one(debian: Project) -> None:
    debian.upstream.commit("Take both (#2)", {"a.txt": ONE, "b.txt": ONE}, tag="v2")
    done = debian.kz("rebase", "--onto", "v2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("dropped, upstream has it") == 2
    stack = debian.root / "debian/patches"
    assert [path.name for path in stack.iterdir()] == ["series"]
    assert (stack / "series").read_text() == "# last\n"  # a comment above a patch goes with it
    for verb in ("verify", "apply", "status", "history"):
        done = debian.kz(verb)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_patch_that_upstream_took_and_changed_again_is_named_whatever_its_file_is_called(debian: Project) -> None:
    up = debian.upstream
    up.commit("Take b (#2)", {"b.txt": ONE}, tag="v2")
    up.commit("Better (#3)", {"b.txt": put(text(), 10, "ours, better")}, tag="v3")
    done = debian.kz("rebase", "--onto", "v3")
    taken = up.git("rev-parse", "v2")[:10]
    assert done.returncode == 4 and f"upstream made this change itself, by {taken}" in done.stderr, done.stderr
    assert "candidates" not in done.stderr and "-> kz rebase skip if upstream's is enough" in done.stderr


def test_a_folder_that_is_not_there_says_so(debian: Project) -> None:
    pins = debian.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("debian/patches", "debian/none"))
    done = debian.kz("verify")
    assert done.returncode == 2 and "debian/none/series" in done.stderr
    pins.write_text(pins.read_text().replace("debian/none", "../out"))
    done = debian.kz("verify")
    assert done.returncode == 2, done.stderr


def test_a_binary_change_without_data_is_left_out_as_by_quilt_and_named(debian: Project, tmp_path: Path) -> None:
    stack = debian.root / "debian/patches"
    logo = b"diff --git a/logo b/logo\nnew file mode 100755\nindex 0000000..1234567\nBinary files /dev/null and b/logo differ\n"
    (stack / "fix-a.diff").write_bytes(b"diff --git a.txt a.txt\n" + (stack / "fix-a.diff").read_bytes() + logo)
    done = debian.kz("lock", "--write")
    left_out = "left out, as by quilt, for lack of data: Binary files /dev/null and b/logo differ"
    assert done.returncode == 0 and f"note: debian/patches/fix-a.diff: {left_out}" in done.stdout, done.stderr
    (tree,) = debian.json("apply")["l"]
    assert tree["patches"][0] == ["fix-a.diff", f"clean; {left_out}"]
    (judged,) = debian.json("verify")
    assert [(j["verdict"], j["reason"]) for j in judged["rows"][0]] == [("clean", left_out), ("clean", "")]
    assert left_out in " ".join(debian.kz("verify").stdout.split())
    assert pushed(debian, "v1", tmp_path) == (["fix-a.diff", "dep3.patch"], tree["tree"])


def test_a_new_line_takes_along_the_stacks_of_other_sources_in_folders_of_their_own(debian: Project) -> None:
    """Their folders were not copied, and the new line had a source whose stack is nowhere."""
    pins = debian.root / "pins.yaml"
    moved = debian.root / "quilt/l"
    moved.parent.mkdir()
    (debian.root / "debian/patches").rename(moved)
    more = f"patches: 'quilt/{{line}}'}}\n  own: {{git: {URL}}}\n"
    pins.write_text(
        pins.read_text()
        .replace("patches: debian/patches}\n", more)
        .replace("    up: v1\n", "    up: v1\n    own: v1\n")
    )
    (debian.root / "patches/l/own").mkdir(parents=True)
    (debian.root / "patches/l/own/series").touch()
    assert debian.kz("lock", "--write").returncode == 0
    debian.upstream.commit("Grow (#2)", {"c.txt": "c\n"}, tag="v2")
    done = debian.kz("rebase", "--source", "own", "--onto", "v2", "--as", "m")
    assert done.returncode == 0, done.stderr
    assert debian.kz("verify", "--all-lines").returncode == 0
    assert sorted(p.name for p in (debian.root / "quilt/m").iterdir()) == sorted(p.name for p in moved.iterdir())
