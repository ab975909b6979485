"""The stack as other tools take it, and our rules against git's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kz_build.git.object_types import FOLDER, Blob
from kz_build.git.repository import Repository
from kz_build.patch.apply import Applied, Stack
from kz_build.patch.attempt import apply_stack
from kz_build.patch.change import Hunk, Patch, apply_hunks
from kz_build.patch.intent_checks import evaluate
from kz_build.patch.mail import parse_patch
from kz_build.stack.apply import apply_to
from kz_build.stack.files import read_files
from kz_build.stack.parse import parse_stack
from tests.conftest import SAMPLE, Kz
from tests.patch.gitapply import HEAD

STACK = SAMPLE / "patches" / "sample-0.1" / "minirt"
ENV = {
    **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t",
}  # fmt: skip


def sh(*argv: str | Path, cwd: Path, ok: bool = True, **env: str) -> str:
    done = subprocess.run([*map(str, argv)], cwd=cwd, env={**ENV, **env}, capture_output=True, text=True)
    assert not ok or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    sh("git", "clone", "-q", SAMPLE / "upstream.bundle", tmp_path / "u", cwd=tmp_path)
    sh("git", "checkout", "-q", "-b", "work", "v0.1.0", cwd=tmp_path / "u")
    return tmp_path / "u"


def our_tree(kz: Kz) -> dict[str, str]:
    done = kz("-C", SAMPLE, "apply", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["sample-0.1"][0])


TOOLS = ("git am", "quilt", "stg")


def take(tool: str, stack: Path, tree: Path, scratch: Path) -> None:
    """Apply a stack's folder to a checkout as that tool's users do."""
    if tool == "git am":
        sh("git", "am", "-q", *sorted(stack.glob("*.patch")), cwd=tree)
    elif tool == "quilt":
        push = ("quilt", "--quiltrc", "-", "push", "-a", "--fuzz=0")
        sh(*push, cwd=tree, QUILT_PATCHES=str(stack), QUILT_PC=str(scratch / "pc"))
        sh("git", "add", "-A", cwd=tree)
    else:
        sh("git", "config", "user.name", "t", cwd=tree)
        sh("git", "config", "user.email", "t@t", cwd=tree)
        sh("stg", "init", cwd=tree)
        sh("stg", "import", "--series", stack / "series", cwd=tree)


def committed(folder: Path) -> Path:
    """The folder as a repository with one commit."""
    sh("git", "init", "-q", cwd=folder)
    sh("git", "add", "-A", "-f", cwd=folder)
    sh("git", "commit", "-q", "-m", "base", cwd=folder)
    return folder


@pytest.mark.parametrize("tool", TOOLS)
def test_other_tools_take_the_folder_and_give_our_tree(upstream: Path, kz: Kz, tmp_path: Path, tool: str) -> None:
    take(tool, STACK, upstream, tmp_path)
    assert sh("git", "write-tree", cwd=upstream) == our_tree(kz)["tree"]


def test_the_commit_is_the_patchs_own_whatever_the_users_git_says(kz: Kz, tmp_path: Path) -> None:
    hostile = tmp_path / "gitconfig"
    hostile.write_text(
        "[user]\n\tname = me\n[core]\n\tautocrlf = true\n[apply]\n\twhitespace = fix\n[commit]\n\tgpgsign = true\n"
    )
    tree = our_tree(kz)
    done = kz(
        "-C",
        SAMPLE,
        "apply",
        "--json",
        KZ_CACHE=str(tmp_path / "fresh"),
        GIT_CONFIG_GLOBAL=str(hostile),
        TZ="Asia/Tokyo",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sample-0.1"][0] == {
        **tree,
        "repository": json.loads(done.stdout)["sample-0.1"][0]["repository"],
    }
    bare = tree["repository"]
    said = sh("git", f"--git-dir={bare}", "log", "-1", "--format=%an %ae %aI|%cn %ce %cI", tree["commit"], cwd=tmp_path)
    author, committer = said.split("|")
    assert author == committer and "T" in author


@pytest.mark.parametrize("form", ["--no-renames", "-M", "-C"])
def test_all_that_a_commit_can_do_gives_git_ams_tree(tmp_path: Path, form: str) -> None:
    """Added, deleted, moved, copied, of another mode or type, binary, with odd names and ends."""
    work = tmp_path / "work"
    sh("git", "init", "-q", work, cwd=tmp_path)
    for name, data in {"moved": 20, "copied": 21, "gone": 22, "mode": 23, "link": 24, "under": 25, "end": 26}.items():
        (work / name).write_text("".join(f"{name} {n}\n" for n in range(data)))
    (work / "folder" / "deep").mkdir(parents=True)
    (work / "folder" / "deep" / "a").write_text("a\n")
    (work / "folder" / "b").write_text("b\n")
    (work / "binary").write_bytes(bytes(range(256)) * 8)
    sh("git", "add", "-A", cwd=work)
    sh("git", "commit", "-q", "-m", "base", cwd=work)
    base = sh("git", "rev-parse", "HEAD", cwd=work)

    (work / "d").mkdir()
    (work / "moved").rename(work / "d" / "moved \u00fc")
    shutil.copy(work / "copied", work / 'co"py')
    (work / "copied").write_text("changed\n" + (work / "copied").read_text())
    (work / "gone").unlink()
    (work / "mode").chmod(0o755)
    (work / "link").unlink()
    (work / "link").symlink_to("d/moved")
    (work / "under").unlink()
    (work / "under").mkdir()
    (work / "under" / "new").write_text("")
    (work / "end").write_text((work / "end").read_text() + "no newline")
    shutil.rmtree(work / "folder")
    (work / "folder").write_text("now a file\n")
    (work / "binary").write_bytes(bytes(range(256)) * 7 + b"\0end")
    sh("git", "add", "-A", cwd=work)
    sh("git", "commit", "-q", "-m", "all of it", cwd=work)
    mail = sh("git", "format-patch", "--stdout", "--full-index", "--binary", form, "-1", cwd=work) + "\n"
    sh("git", "clone", "-q", "--bare", work, tmp_path / "store" / "git" / "u.git", cwd=tmp_path)

    stack = Stack("l", "s", "f", (parse_patch("0001-all.patch", mail.encode()),), (), "d")
    tree, problems = apply_to(Repository(tmp_path / "store" / "git" / "u.git"), base, stack, None)
    assert tree is not None, problems
    assert tree.tree == sh("git", "rev-parse", "HEAD^{tree}", cwd=work)
    again, problems = apply_to(Repository(tmp_path / "store" / "git" / "u.git"), tree.commit, stack, None)
    assert again is None and "folder" not in sh("git", "ls-tree", "-d", "--name-only", tree.tree, cwd=work).split()


def test_a_patch_sees_where_those_before_it_put_folders_and_files() -> None:
    """One patch takes a file away, the next puts a folder there, the third a file again."""
    there = {"x": Blob("100644", b"x\n"), "x/y": Blob(FOLDER, b"")}

    def patch(*parts: str) -> Patch:
        return parse_patch("p", HEAD + "".join(parts).encode())

    def new(path: str) -> str:
        return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"

    def gone(path: str) -> str:
        return (
            f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        )

    def applies(*patches: Patch) -> list[bool]:
        return [isinstance(o, Applied) for o in apply_stack(patches, there.get)]

    assert applies(patch(gone("x")), patch(new("x/y")), patch(gone("x/y")), patch(new("x"))) == [True] * 4
    assert applies(patch(new("x/y")), patch(gone("x"), new("x/y")), patch(new("x"))) == [False, True, False]


def test_what_is_not_in_the_patch_is_never_replaced(tmp_path: Path) -> None:
    """A file that would take the place of a folder or a submodule, or needs a folder where a file is, is refused."""
    work = tmp_path / "work"
    sh("git", "init", "-q", work, cwd=tmp_path)
    (work / "folder").mkdir()
    (work / "folder" / "a").write_text("a\n")
    (work / "file").write_text("x\n")
    sh("git", "add", "-A", cwd=work)
    sh("git", "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub", cwd=work)
    sh("git", "commit", "-q", "-m", "base", cwd=work)
    base = sh("git", "rev-parse", "HEAD", cwd=work)
    sh("git", "clone", "-q", "--bare", work, tmp_path / "store" / "git" / "u.git", cwd=tmp_path)
    repository = Repository(tmp_path / "store" / "git" / "u.git")
    for path in ("folder", "sub", "sub/x", "file/x", "file/x/y"):
        diff = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        patch = parse_patch("0001-p.patch", HEAD + diff.encode())
        tree, problems = apply_to(repository, base, Stack("l", "s", "f", (patch,), (), path), None)
        assert tree is None and path in str(problems[0]), path
        (tmp_path / "p").write_text(diff)
        assert subprocess.run(["git", "apply", "--cached", tmp_path / "p"], cwd=work, env=ENV).returncode


def test_format_patch_writes_the_same_files_again(upstream: Path, tmp_path: Path) -> None:
    sh("git", "am", "-q", *sorted(STACK.glob("*.patch")), cwd=upstream)
    form = ["--zero-commit", "--no-signature", "--no-stat", "--full-index", "--no-renames", "--no-numbered"]
    sh("git", "format-patch", "-q", *form, "-o", tmp_path / "again", "v0.1.0..HEAD", cwd=upstream)
    for patch in STACK.glob("*.patch"):
        assert (tmp_path / "again" / patch.name).read_bytes() == patch.read_bytes()


def test_every_shipped_check_of_the_sample_fails_without_its_patch(upstream: Path) -> None:
    checks_can_fail(SAMPLE, "sample-0.1", "minirt", upstream)


def stack_in(root: Path, folder: str, *, foreign: bool = False) -> Stack:
    """Read the stack in a folder of a project."""
    files = read_files(root, "l", "s", folder, foreign=foreign)
    assert files is not None
    return parse_stack(files)


def checks_can_fail(root: Path, line: str, source: str, tree: Path) -> None:
    """With the whole stack each check holds; without its patch it fails (`parses`: when its file is damaged)."""
    stack = stack_in(root, f"patches/{line}/{source}")
    assert stack.checks

    def read(path: str) -> Blob | None:
        return Blob("100644", (tree / path).read_bytes()) if (tree / path).is_file() else None

    def after(patches: tuple) -> dict[str, Blob | None]:  # type: ignore[type-arg]
        files: dict[str, Blob | None] = {c.file: read(c.file) for c in stack.checks}
        for outcome in apply_stack(patches, read):
            assert isinstance(outcome, Applied), outcome
            files.update(outcome.files)
        return files

    def content(files: dict[str, Blob | None], path: str) -> bytes | None:
        blob = files.get(path)
        return blob.data if blob else None

    whole = after(stack.patches)
    assert {c.slug for c in stack.checks} == {p.slug for p in stack.patches}
    for check in stack.checks:
        assert evaluate(check, content(whole, check.file)) == "", check
        if check.kind == "parses":
            assert evaluate(check, b"<<<<<<< ours\n(" + (content(whole, check.file) or b"")), check
            continue
        # Those after it may stand on it; leave out it and all after.
        index = next(i for i, p in enumerate(stack.patches) if p.slug == check.slug)
        without = after(stack.patches[:index])
        assert evaluate(check, content(without, check.file)), f"{check} cannot fail"


lines = st.lists(st.sampled_from(["a", "b", "c", "{", "}", ""]), max_size=14)


@given(lines, lines, lines, st.booleans())
def test_hunks_land_where_git_apply_puts_them(
    tmp_path: Path, old: list[str], new: list[str], onto: list[str], use_old: bool
) -> None:
    """Any diff of two files, applied to either of them or to a third: git's answer, byte for byte, is ours."""
    folder = tmp_path / "d"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    before, after = ("".join(f"{x}\n" for x in part).encode() for part in (old, new))
    base = "".join(f"{x}\n" for x in (["a", *old] if use_old else onto)).encode()
    if before == after or not before or not after:
        return
    (folder / "x").write_bytes(before)
    (folder / "y").write_bytes(after)
    raw = subprocess.run(
        ["git", "diff", "--no-index", "--no-renames", "x", "y"], cwd=folder, env=ENV, capture_output=True
    ).stdout
    diff = raw.replace(b"a/x", b"a/f").replace(b"b/y", b"b/f")
    (folder / "f").write_bytes(base)
    (folder / "p").write_bytes(diff)
    sh("git", "init", "-q", cwd=folder)
    git = subprocess.run(["git", "apply", "--recount", "p"], cwd=folder, env=ENV, capture_output=True)
    mail = b"From: a <a@a>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: s\n\n---\n" + diff
    ours = apply_hunks(base, parse_patch("p", mail).files[0].hunks)
    if git.returncode == 0:
        assert not isinstance(ours, Hunk), diff.decode()
        assert ours[0] == (folder / "f").read_bytes()
    else:
        assert isinstance(ours, Hunk), git.stderr.decode()
