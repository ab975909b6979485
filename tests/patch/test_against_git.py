"""The engine against `git apply`, on generated files and patches: same verdict, same bytes, same modes.

KZ_EXAMPLES sets how many are tried.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kz_build.core.errors import ConfigError
from kz_build.git.fast_import import folder_stream
from kz_build.git.object_types import FILE, LINK, Blob
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.mail import parse_patch
from kz_build.patch.quilt import SeriesEntry, parse_foreign
from tests.patch.gitapply import HEAD, Files, environment, git_apply_all, reader
from tests.patch.gitapply import git_apply as apply_alone

PATHS = ("f", "g", "d/h", "d/i", "d", "sp ace", "t\tab", "\u00fc", "g/k")
LINES = st.sampled_from(["a", "b", "c", "{", "}", "", "a ", "\tb", "c\r", "a\f"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(LINES, max_size=24))
    text = "".join(f"{line}\n" for line in lines)
    return (text[:-1] if draw(st.integers(0, 3)) == 0 else text).encode()


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """Some lines inserted, deleted or replaced, and perhaps the newline at the end."""
    lines = data.decode().split("\n")
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        lines[at : at + draw(st.integers(0, 2))] = draw(st.lists(LINES, max_size=3))
    return "\n".join(lines).encode()


binaries = st.binary(min_size=1, max_size=120).map(lambda data: b"\0" + data * 3)
links = st.sampled_from([b"t1", b"t2"]).map(lambda to: Blob(LINK, to))
contents = st.one_of(texts(), texts(), texts(), binaries)
blobs = st.one_of(st.builds(Blob, st.sampled_from([FILE, FILE, "100755"]), contents), links)


@st.composite
def trees(draw: st.DrawFn) -> Files:
    return _tidy(draw(st.dictionaries(st.sampled_from(PATHS), blobs, min_size=1, max_size=4)))


def _tidy(files: Files) -> Files:
    """No file where another's folder is."""
    return {p: b for p, b in files.items() if not any(other.startswith(f"{p}/") for other in files)}


@st.composite
def changed(draw: st.DrawFn, files: Files) -> Files:
    """The tree with files edited, moved, copied, removed, added, of other mode or type."""
    found = dict(files)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(sorted(found) or list(PATHS)))
        deed = draw(st.sampled_from(["edit", "edit", "edit", "mode", "remove", "move", "copy", "put"]))
        blob = found.get(path)
        if deed == "put" or blob is None:
            found[draw(st.sampled_from(PATHS))] = draw(blobs)
        elif deed == "remove":
            del found[path]
        elif deed in ("move", "copy"):
            found[draw(st.sampled_from(PATHS))] = found.pop(path) if deed == "move" else blob
        elif deed == "mode" and blob.mode != LINK:
            found[path] = Blob("100755" if blob.mode == FILE else FILE, blob.data)
        elif deed == "edit" and blob.mode != LINK and b"\0" not in blob.data:
            found[path] = Blob(blob.mode, draw(edited(blob.data)))
    return _tidy(found)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("git") / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", path], check=True, env=environment(path))
    return path


def git(repository: Path, *words: str, stdin: bytes = b"") -> bytes:
    argv = ["git", f"--git-dir={repository}", *words]
    return subprocess.run(argv, input=stdin, env=environment(repository), capture_output=True, check=True).stdout


def commit(repository: Path, **trees: Files) -> None:
    """Have each tree as the branch of its name."""
    stream = b"".join(
        b"".join(folder_stream(files, name, f"refs/heads/{name}"))
        .removesuffix(b"done\n")
        .removeprefix(b"feature done\n")
        for name, files in trees.items()
    )
    git(repository, "fast-import", "--quiet", "--date-format=rfc2822", "--force", stdin=stream)


def git_apply(repository: Path, diff: bytes, *way: str) -> dict[str, tuple[str, str]] | str:
    """path -> (mode, blob id) as `git apply --cached` leaves the branch `onto`, or git's error."""
    git(repository, "read-tree", "onto")
    argv = ["git", f"--git-dir={repository}", "apply", "--cached", *way, "-"]
    done = subprocess.run(argv, input=diff, env=environment(repository), capture_output=True)
    if done.returncode:
        return done.stderr.decode("utf-8", "replace")
    rows = [row.split(b"\t", 1) for row in git(repository, "ls-files", "-s", "-z").split(b"\0") if row]
    found = {os.fsdecode(path): facts.decode().split(" ") for facts, path in rows}
    return {path: (mode, oid) for path, (mode, oid, _) in found.items()}


@given(st.data())
def test_verdict_and_bytes_are_gits(repository: Path, data: st.DataObject) -> None:
    before = data.draw(trees(), "before")
    after = data.draw(changed(before), "after")
    context = data.draw(st.sampled_from([3, 3, 3, 0, 1, 2, 5, 50]), "context")
    finding = data.draw(st.sampled_from([["--no-renames"], ["-M"], ["-M20%"], ["-C", "--find-copies-harder"], ["-B"]]))
    index = data.draw(st.sampled_from(["--binary", "--binary", "--abbrev=7"]))
    commit(repository, before=before, after=after)
    diff = git(repository, "diff", f"-U{context}", *finding, index, "before", "after")
    if not diff:
        return
    onto = data.draw(st.one_of(st.just(before), changed(before), st.just(after), changed(after)), "onto")
    commit(repository, onto=onto)
    patch = parse_patch("0001-p.patch", HEAD + diff)
    for way, ours in ((), patch), (("-R",), patch.reverse()):
        theirs = git_apply(repository, diff, *way)
        outcome = apply_patch(ours, lambda path: reader(onto, path))
        event(f"{way} {'applies' if isinstance(theirs, dict) else 'does not'}")
        if isinstance(theirs, str):
            assert not isinstance(outcome, Applied), f"git: {theirs}"
            continue
        assert isinstance(outcome, Applied), f"git takes it, we do not: {outcome.reason}"
        made = {path: (blob.mode, blob.id) for path, blob in {**onto, **outcome.files}.items() if blob}
        if way:  # git takes a mode back that the patch only mentions
            made, theirs = ({path: ("", at[1]) for path, at in found.items()} for found in (made, theirs))
        assert made == theirs


LINKS = [(b".gitmodules", False), (b"d/.GITMODULES", False), (b"gitmod~1", False), (b".gitmodules .", False),
         (b".gitmodules/x", False), (b".gitattributes", True)]  # fmt: skip


@pytest.mark.parametrize(("path", "taken"), LINKS)
def test_a_link_that_git_refuses_is_refused_whether_it_is_new_or_moved_there(
    repository: Path, path: bytes, taken: bool
) -> None:
    """Of the others `git fsck` warns. A move says no mode: only the file that is there tells that it is a link."""
    onto = {"l": Blob(LINK, b"x")}
    commit(repository, onto=onto)
    names = b"diff --git a/l b/%b\n"
    moved = names + b"similarity index 100%%\nrename from l\nrename to %b\n"
    made = b"diff --git a/%b b/%b\nnew file mode 120000\n--- /dev/null\n+++ b/%b\t\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    for diff in (moved % (path, path), made % (path, path, path)):
        assert isinstance(git_apply(repository, diff), dict) is taken
        patch = parse_patch("0001-p.patch", HEAD + diff)
        assert isinstance(apply_patch(patch, lambda path: reader(onto, path)), Applied) is taken
    assert isinstance(apply_patch(parse_patch("p", HEAD + moved % (path, path)), {"l": Blob(FILE, b"x")}.get), Applied)


JUNK = (b"\n", b" ", b"-", b"+", b"\\ No newline at end of file\n", b"\r", b"\0", b"9", b"@@ -1 +1 @@\n", b'"', b"a/")


@st.composite
def damaged(draw: st.DrawFn, diff: bytes) -> bytes:
    """Bytes or lines lost, doubled, changed or added."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(diff) - 1))
        end = draw(st.sampled_from([at, at + 1, at + 4, diff.find(b"\n", at) + 1 or len(diff)]))
        diff = diff[:at] + draw(st.sampled_from([b"", diff[at:end] * 2, *JUNK])) + diff[end:] or b"\n"
    return diff


@given(st.data())
def test_of_a_damaged_patch_we_make_what_git_makes_or_nothing(repository: Path, data: st.DataObject) -> None:
    before = data.draw(trees(), "before")
    commit(repository, before=before, after=data.draw(changed(before), "after"), onto=before)
    whole = git(repository, "diff", "--binary", data.draw(st.sampled_from(["-M", "--no-renames"])), "before", "after")
    if not whole:
        return
    diff = data.draw(damaged(whole), "diff")
    with contextlib.suppress(ConfigError):
        parse_foreign(SeriesEntry("p"), "p", diff)
    try:
        outcome = apply_patch(parse_patch("p", HEAD + diff), lambda path: reader(before, path))
    except ConfigError:
        return
    theirs = git_apply(repository, diff)
    assert isinstance(outcome, Applied) == isinstance(theirs, dict), theirs
    if isinstance(outcome, Applied):
        assert theirs == {path: (blob.mode, blob.id) for path, blob in {**before, **outcome.files}.items() if blob}


def test_git_says_of_many_at_once_what_it_says_of_each(tmp_path: Path) -> None:
    """Those that nothing but a process of its own can judge are left to one."""
    before: Files = {"d/f": Blob(FILE, b"a\nb\nc\n"), "d/g": Blob("100755", b"\0")}
    change = b"diff --git a/d/f b/d/f\n--- a/d/f\n+++ b/d/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    new = b"diff --git a/d/n b/d/n\nnew file mode 100644\n--- /dev/null\n+++ b/d/n\n@@ -0,0 +1 @@\n+--- a/d/n\n"
    mode = b"diff --git a/d/g b/d/g\nold mode 100755\nnew mode 100644\n"
    gone = b"diff --git a/d/f b/d/f\ndeleted file mode 100644\n--- a/d/f\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n-c\n"
    diffs = [
        change,
        change.replace(b"-b", b"-x"),
        new,
        new.replace(b"d/n", b"d/f"),
        mode,
        gone,
        change.replace(b"d/f", b"d/f f"),
    ]
    for words in ((), ("-R",)):
        alone = [apply_alone(tmp_path / "alone", before, diff, *words) for diff in diffs]
        *together, odd = git_apply_all(tmp_path / "together", [(before, diff) for diff in diffs], *words)
        kinds = [one if isinstance(one, dict) else "refused" for one in together]
        assert odd is None and kinds == [one if isinstance(one, dict) else "refused" for one in alone[:-1]]
        assert {isinstance(one, dict) for one in together} == {True, False}
