"""Stacks that are not ours, against quilt and the GNU patch below it: the same patches go on, and make the same files."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kz_build.core.errors import ConfigError
from kz_build.git.fast_import import folder_stream
from kz_build.git.object_types import FILE, Blob
from kz_build.git.repository import Repository
from kz_build.git.tree_lookup import read_paths
from kz_build.patch.apply import Applied, apply_patch
from kz_build.patch.attempt import apply_stack
from kz_build.patch.quilt import SeriesEntry, parse_foreign
from kz_build.stack.apply import apply_to
from tests.patch.gitapply import Files, files_in, reader, write
from tests.patch.test_against_git import edited, texts
from tests.stack.test_git_tools import stack_in

FOLDER = "debian/patches"
LINES = [f"line {n}" for n in range(1, 31)]


def text(lines: list[str], end: str = "\n") -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode()


def diff(
    tmp_path: Path, before: bytes | None, after: bytes | None, old: str = "a/f", new: str = "b/f", context: int = 3
) -> bytes:
    """GNU diff's own, with timestamps; None for no file, as `diff -N` writes it."""
    found = []
    for side, data in (("old", before), ("new", after)):
        (tmp_path / side).write_bytes(data or b"")
        found.append(
            (
                tmp_path / side,
                "1970-01-01 00:00:00.000000000 +0000" if data is None else "2024-05-06 07:08:09.123456789 +0200",
            )
        )
    labels = [f"--label={name}\t{stamp}" for name, (_, stamp) in zip((old, new), found, strict=True)]
    return subprocess.run(["diff", f"-U{context}", *labels, *(f for f, _ in found)], capture_output=True).stdout


def quilt(folder: Path, files: Files, stack: Mapping[str, bytes]) -> tuple[list[str], Files]:
    """The patches that `quilt push -a --fuzz=0` leaves applied, and the tree."""
    write(folder / "tree", files)
    for name, data in stack.items():
        (folder / FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / FOLDER / name).write_bytes(data)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("QUILT")}
    env = {**kept, "QUILT_PATCHES": str(folder / FOLDER), "QUILT_PC": str(folder / "pc"), "LC_ALL": "C"}
    for words in (["push", "-a", "--fuzz=0"], ["applied"]):
        done = subprocess.run(["quilt", "--quiltrc", "-", *words], cwd=folder / "tree", env=env, capture_output=True, text=True)  # fmt: skip
    return ([] if done.returncode else done.stdout.splitlines()), files_in(folder / "tree")


def kz(folder: Path, files: Files) -> tuple[list[str], Files]:
    """The same from the engine: what comes before the first patch that fails."""
    stack = stack_in(folder, FOLDER, foreign=True)
    applied, made = [], {**files}
    for outcome in apply_stack(stack.patches, lambda path: reader(files, path)):
        if not isinstance(outcome, Applied):
            break
        applied.append(outcome.patch.name)
        made = {path: blob for path, blob in {**made, **outcome.files}.items() if blob}
    return applied, made


def agree(folder: Path, files: Files, stack: Mapping[str, bytes], expect: list[str] | None = None) -> None:
    theirs = quilt(folder, files, stack)
    ours = kz(folder, files)
    assert ours == theirs
    if expect is not None:
        assert theirs[0] == expect


def changed(*at: int, lines: list[str] = LINES) -> list[str]:
    return [f"{line} changed" if n in at else line for n, line in enumerate(lines, 1)]


def test_a_debian_stack(tmp_path: Path) -> None:
    """Comments, blank lines, -pN, -R, folders, packed patches, headers of every kind."""
    one, two, three = text(LINES), text(changed(5)), text(changed(5, 15))
    dep3 = b"Description: Fix the fifth\n It was wrong.\n .\n Very.\nAuthor: Jane Doe <jane@example.org>\nLast-Update: 2024-05-06\nForwarded: no\n\n---\nThis patch header follows DEP-3\n\n"
    stack = {
        "series": b"# Debian's\n\n   dep3.patch   # the first\nsub/p0.diff -p0 # old\n\t\np2.patch -p 2\nback.patch -p1 -R\npacked.patch.gz\nfree#1.patch\nnothing.patch\n",
        "dep3.patch": dep3 + diff(tmp_path, one, two, "foo-1.0.orig/f", "foo-1.0/f"),
        "sub/p0.diff": b"Index: f\n===================================================================\n"
        + diff(tmp_path, two, three, "f.orig", "f"),
        "p2.patch": diff(tmp_path, None, b"new\n", "x/y/d/new", "x/y/d/new"),
        "back.patch": b"Subject: [PATCH 1/2] take it back\nFrom: =?utf-8?q?J=C3=B6rg?= <j@x>\n\n"
        + diff(tmp_path, three, text(changed(5, 15, 25))),
        "packed.patch.gz": gzip.compress(diff(tmp_path, b"gone\n", None, "a/old", "b/old")),
        "free#1.patch": b"## DP: free text\n## more\n" + diff(tmp_path, text(LINES), text(changed(30)), context=1),
        "nothing.patch": b"",
    }
    files = {"f": Blob(FILE, text(changed(25))), "old": Blob(FILE, b"gone\n"), "other": Blob("100755", b"x")}
    names = ["dep3.patch", "sub/p0.diff", "p2.patch", "back.patch", "packed.patch.gz", "free#1.patch", "nothing.patch"]
    agree(tmp_path, files, stack, names)
    read = stack_in(tmp_path, FOLDER, foreign=True)
    first, _, third, fourth = read.patches[:4]
    assert first.message == "Fix the fifth\n\nIt was wrong.\n\nVery.\n\nForwarded: no\n"
    assert (first.author, first.date) == ("Jane Doe <jane@example.org>", "Mon, 06 May 2024 00:00:00 +0000")
    assert (third.author, third.date, third.subject) == ("unknown <unknown>", "Thu, 01 Jan 1970 00:00:00 +0000", "p2")
    assert (fourth.author, fourth.subject) == ("J\u00f6rg <j@x>", "take it back")
    assert read.patches[5].subject == "## DP: free text"

    repository = Repository(tmp_path / "store" / "git" / "u.git")
    repository.create()
    base = repository.fast_import(b"".join(folder_stream(files, "base", "refs/heads/main"))).decode().strip()
    tree, problems = apply_to(repository, base, read, None)
    assert tree is not None, problems
    said = (
        repository.git("log", "--reverse", "--format=%an <%ae> %aI %s", f"{base}..{tree.commit}").decode().splitlines()
    )
    assert said[0] == "Jane Doe <jane@example.org> 2024-05-06T00:00:00+00:00 Fix the fifth" and len(said) == len(names)
    with repository.objects() as objects:
        made = read_paths(objects, tree.commit, read.touched)
    assert {path: blob for path, blob in made.items() if blob} == {
        "f": Blob(FILE, text(changed(5, 15, 30))),
        "d/new": Blob(FILE, b"new\n"),
    }


def test_one_that_fails_in_the_middle_ends_it_for_quilt_and_not_for_us(tmp_path: Path) -> None:
    stack = {
        "series": b"a.patch\nb.patch\nc.patch\n",
        "a.patch": diff(tmp_path, text(LINES), text(changed(5))),
        "b.patch": diff(tmp_path, text(changed(16)), text(changed(15))),
        "c.patch": diff(tmp_path, text(changed(5)), text(changed(5, 25))),
    }
    agree(tmp_path, {"f": Blob(FILE, text(LINES))}, stack, ["a.patch"])
    read = stack_in(tmp_path, FOLDER, foreign=True)
    found = apply_stack(read.patches, lambda path: Blob(FILE, text(LINES)))
    assert [isinstance(o, Applied) for o in found] == [True, False, True]


CRLF = text(LINES, "\r\n")


@pytest.mark.parametrize("headers", ["lf", "crlf", "first", "second", "hunk"])
@pytest.mark.parametrize("body", ["lf", "crlf"])
@pytest.mark.parametrize("file", ["lf", "crlf"])
@pytest.mark.parametrize("git", [False, True])
def test_windows_line_ends(tmp_path: Path, headers: str, body: str, file: str, git: bool) -> None:
    """Whatever has them: the patch's header, its hunks, the file."""
    lines = diff(tmp_path, text(LINES), text(changed(5))).splitlines()
    if git:
        lines = [b"diff --git a/f b/f", b"index 1111111..2222222 100644", b"--- a/f", b"+++ b/f", *lines[2:]]
    top = len(lines) - len(diff(tmp_path, text(LINES), text(changed(5))).splitlines()) + 2
    with_cr = {"lf": [], "crlf": range(top + 1), "first": [top - 2], "second": [top - 1], "hunk": [top]}[headers]
    ends = [b"\r\n" if n in with_cr or (n > top and body == "crlf") else b"\n" for n in range(len(lines))]
    patch = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    stack = {"series": b"p.patch\r\n" if headers == "crlf" and body == "lf" else b"p.patch\n", "p.patch": patch}
    if b"\r" in stack["series"]:
        stack["series"] = b"p.patch\n"
    agree(tmp_path, {"f": Blob(FILE, CRLF if file == "crlf" else text(LINES))}, stack)


@pytest.mark.parametrize(
    ("patch", "files"),
    [
        (b"diff --git a/f b/d/g\nrename from f\nrename to d/g\n", {"f": b"x\n"}),
        (b"diff --git a/f b/d/g\nrename from f\nrename to d/g\n", {"f": b"x\n", "d/g": b"y\n"}),
        (b"diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n", "g": b"q\n"}),
        (b"diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n", "g": b"q\n"}),
        (b"diff --git a/f b/g\ncopy from f\ncopy to g\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n"}),
        (b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", {"f": b"x\n"}),
        (b"diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {}),
        (b"diff --git a/n b/n\nnew file mode 100755\nindex 0000000..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {"n": b"y\n"}),
        (b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {"n": b"y\n"}),
        (b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {"n": b""}),
        (b"--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {"n": b"y\n"}),
        (b"--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", {}),
        (b"--- a/n\n+++ b/n\n@@ -1 +1 @@\n-y\n+x\n", {}),
        (b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", {"f": b"x\n"}),
        (b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", {"f": b"x\ny\n"}),
        (b"--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-x\n", {"f": b"x\n"}),
        (b"diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n", "g": b"x\n"}),
        (b"diff --git a/f b/f\nindex " + b"1" * 40 + b".." + b"2" * 40 + b"\nGIT binary patch\nliteral 3\nKc$`aQNCE%>hycU@\n\nliteral 3\nKc$`aQNCE%>hycU@\n\n", {"f": b"x\n"}),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n", {"f": b"x"}),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n", {"f": b"x\n"}),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n\\ No newline at end of file\n", {"f": b"x\nz\n"}),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y\n+z\n", {"f": b"x\n"}),
        (b"--- a/f 2024-01-02 03:04:05\n+++ b/f 2024-01-02 03:04:06\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n"}),
        (b"--- a/sp ace\t2024-01-02\n+++ b/sp ace\t2024-01-02\n@@ -1 +1 @@\n-x\n+y\n", {"sp ace": b"x\n"}),
        (b"--- a//d//f\n+++ b//d//f\n@@ -1 +1 @@\n-x\n+y\n", {"d/f": b"x\n"}),
        (b"diff --git a/f.orig b/f\n--- a/f.orig\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", {"f": b"x\n"}),
        (b"--- a/longer.c.orig\n+++ b/longer.c\n@@ -1 +1 @@\n-x\n+y\n", {"longer.c": b"x\n"}),
    ],
)  # fmt: skip
def test_what_a_patch_may_say(tmp_path: Path, patch: bytes, files: dict[str, bytes]) -> None:
    stack = {"series": b"p.patch\n", "p.patch": patch}
    agree(tmp_path, {name: Blob(FILE, data) for name, data in {**files, "z": b"kept\n"}.items()}, stack)


@pytest.mark.parametrize(
    ("series", "said"),
    [
        (b"p.patch -F3\n", "the option -F3 is not supported"),
        (b"p.patch\np.patch\n", "appears twice"),
        (b"../p.patch\n", "climbs out"),
        (b"q.patch\n", "no such file"),
        (b"context.patch\n", "context.patch:5: a context diff is not supported"),
        (b"hunk.patch\n", "hunk.patch:1: there is no diff in it"),
        (b"text.patch\n", "text.patch:1: there is no diff in it"),
        (b"n" * 300 + b"\n", "is longer than a disk allows"),
        (b"p\0.patch\n", "has a backslash or a NUL"),
        (b"text.patch.gz\n", "text.patch.gz is damaged: Not a gzipped file"),
        (b"cut.patch.gz\n", "cut.patch.gz is damaged: Compressed file ended"),
        (b"text.patch.bz2\n", "text.patch.bz2 is damaged: Invalid data stream"),
        (b"text.patch.xz\n", "text.patch.xz is damaged: "),
        (b"text.patch.lz\n", "text.patch.lz is packed by lzip, which kz does not read"),
        (b"text.patch.zst\n", "text.patch.zst is packed by zstd, which kz does not read"),
        (b"wide.patch.lzma\n", "wide.patch.lzma is damaged: Memory usage limit exceeded"),
        (b"bomb.patch.gz\n", "bomb.patch.gz unpacks to more than 1,048,576 bytes"),
    ],
)
def test_what_is_not_taken_is_named(tmp_path: Path, series: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kz_build.stack.files._MOST_UNPACKED", 1 << 20)
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "series").write_bytes(series)
    whole = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n"
    context = b"\n*** a/f\n--- b/f\n***************\n*** 1 ****\n! x\n--- 1 ----\n! y\n"
    for name, data in {
        "p": b"",
        "context": context + whole,
        "hunk": b"@@ -1 +1 @@\n-x\n+y\n",
        "text": b"text\n",
    }.items():
        (tmp_path / FOLDER / f"{name}.patch").write_bytes(data)
    wide = b"\x5d" + (0xFFFFFFFF).to_bytes(4, "little") + lzma.compress(whole, lzma.FORMAT_ALONE)[5:]
    packed = {
        "wide.patch.lzma": wide,
        "cut.patch.gz": gzip.compress(whole)[:-9],
        "bomb.patch.gz": gzip.compress(bytes(2 << 20)),
    }
    for file, data in {
        **packed,
        **dict.fromkeys((f"text.patch.{kind}" for kind in ("gz", "bz2", "xz", "lz", "zst")), b"text"),
    }.items():
        (tmp_path / FOLDER / file).write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        stack_in(tmp_path, FOLDER, foreign=True)


@given(st.data())
def test_hunks_go_where_gnu_patch_puts_them(tmp_path: Path, data: st.DataObject) -> None:
    before = data.draw(texts(), "before")
    after = data.draw(edited(before), "after")
    patch = diff(tmp_path, before, after, context=data.draw(st.sampled_from([3, 3, 0, 1, 2, 20])))
    if not patch:
        return
    onto = data.draw(st.one_of(edited(before), edited(before), st.just(after)), "onto")
    (tmp_path / "f").write_bytes(onto)
    argv = ["patch", "-p1", "-f", "--fuzz=0", "-s", "--no-backup-if-mismatch", "-r", "-"]
    done = subprocess.run(argv, cwd=tmp_path, input=patch, capture_output=True)
    ours = apply_patch(parse_foreign(SeriesEntry("p"), "p", patch), lambda path: Blob(FILE, onto))
    if done.returncode:
        assert not isinstance(ours, Applied), done.stdout.decode()
    else:
        assert isinstance(ours, Applied), ours.reason
        assert ours.files == {"f": Blob(FILE, (tmp_path / "f").read_bytes())}


@pytest.mark.parametrize(
    ("series", "said"),
    [
        (b"# x\n\xff.patch\n", "patches/l/s/series:2: 'utf-8' codec can't decode byte 0xff"),
        (b"n" * 300 + b"\n", "is not a file name"),
        (b"a\0b\n", "is not a file name"),
    ],
)
def test_an_own_series_of_any_bytes(tmp_path: Path, series: bytes, said: str) -> None:
    (tmp_path / "patches/l/s").mkdir(parents=True)
    (tmp_path / "patches/l/s/series").write_bytes(series)
    with pytest.raises(ConfigError, match=said):
        stack_in(tmp_path, "patches/l/s")
