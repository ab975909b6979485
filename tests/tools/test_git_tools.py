"""The stack as other tools take it, and our rules against git's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kz_build.adapters.project import load_stack
from kz_build.model.intent import evaluate
from kz_build.model.mail import parse_patch
from kz_build.model.patch import HunkFailure, apply_hunks
from kz_build.model.stack import Applied, Blob, apply_stack
from tests.conftest import SAMPLE, Kz

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


def test_format_patch_writes_the_same_files_again(upstream: Path, tmp_path: Path) -> None:
    sh("git", "am", "-q", *sorted(STACK.glob("*.patch")), cwd=upstream)
    form = ["--zero-commit", "--no-signature", "--no-stat", "--full-index", "--no-renames", "--no-numbered"]
    sh("git", "format-patch", "-q", *form, "-o", tmp_path / "again", "v0.1.0..HEAD", cwd=upstream)
    for patch in STACK.glob("*.patch"):
        assert (tmp_path / "again" / patch.name).read_bytes() == patch.read_bytes()


def test_every_shipped_check_of_the_sample_fails_without_its_patch(upstream: Path) -> None:
    checks_can_fail(SAMPLE, "sample-0.1", "minirt", upstream)


def checks_can_fail(root: Path, line: str, source: str, tree: Path) -> None:
    """With the whole stack each check holds; without its patch it fails (`parses`: when its file is damaged)."""
    stack = load_stack(root, line, source)
    assert stack and stack.checks

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


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
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
    ours = apply_hunks("f", base, parse_patch("p", mail).files[0].hunks)
    if git.returncode == 0:
        assert not isinstance(ours, HunkFailure), diff.decode()
        assert ours[0] == (folder / "f").read_bytes()
    else:
        assert isinstance(ours, HunkFailure), git.stderr.decode()
