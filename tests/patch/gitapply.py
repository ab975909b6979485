"""git's own verdict on a patch, on plain files outside any repository: what the engine is compared with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kz_build.git.object_types import FOLDER, LINK, Blob

Files = dict[str, Blob]

HEAD = b"From: a <a@a>\nDate: Thu, 15 Jan 2026 12:00:00 +0000\nSubject: s\n\n---\n"
"""Makes a mail of a bare diff."""


def environment(folder: Path) -> dict[str, str]:
    """An environment in which git finds no repository above `folder` and no one's configuration."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {
        **clean,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "LC_ALL": "C",
    }


def git_apply(folder: Path, files: Mapping[str, Blob], diff: bytes, *words: str) -> Files | str:
    """What `git apply` makes of the files in `folder`, or its error."""
    write(folder, files)
    argv = ["git", "apply", *words, "-"]
    done = subprocess.run(argv, input=diff, cwd=folder, env=environment(folder), capture_output=True)
    return done.stderr.decode("utf-8", "replace") if done.returncode else files_in(folder)


def git_apply_all(
    folder: Path, cases: Sequence[tuple[Mapping[str, Blob], bytes]], *words: str
) -> list[Files | str | None]:
    """What `git apply` makes of each (files, diff), by two processes for all: the first names those that git refuses, the second
    applies the others. None where only a process of its own can tell: the diff is no text that can be given a folder of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    moved: dict[int, bytes] = {}
    for number, (files, diff) in enumerate(cases):
        if own := _moved(diff, f"case-{number}"):
            moved[number] = own
            write(folder / f"case-{number}", files)
    argv = ["git", "apply", *words, "-"]

    def run(*more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*argv, *more], input=b"".join(moved.values()), cwd=folder, env=environment(folder), capture_output=True
        )

    errors: dict[int, str] = {}
    if moved:
        for row in run("--check").stderr.decode("utf-8", "replace").splitlines():
            for found in re.findall(r"\bcase-(\d+)/", row) if row.startswith("error: ") else ():
                errors.setdefault(int(found), row)
        moved = {number: diff for number, diff in moved.items() if number not in errors}
    if moved and (done := run()).returncode:
        raise AssertionError(f"git applies none of those that it checked: {done.stderr.decode('utf-8', 'replace')}")
    return [
        errors.get(number, files_in(folder / f"case-{number}") if number in moved else None)
        for number in range(len(cases))
    ]


def _moved(diff: bytes, folder: str) -> bytes:
    """A diff of one file with its names below a folder; b"" if they cannot be told from other text."""
    head, mark, rest = diff.partition(b"\n@@ ")
    if not mark:
        head, mark, rest = diff.partition(b"\nGIT binary patch\n")
    names = re.fullmatch(rb'diff --git (a/[^"\n ]+) (b/[^"\n ]+)', head.split(b"\n", 1)[0])
    if not names or head.count(b"\ndiff --git ") or (mark and b"\ndiff --git " in rest):
        return b""
    for name in names.groups():
        head = re.sub(
            rb"(?<= )" + re.escape(name) + rb"(?=[ \t\n]|$)", lambda m: m[0][:2] + folder.encode() + m[0][1:], head
        )
    return head + mark + rest


def write(folder: Path, files: Mapping[str, Blob]) -> None:
    """Have a folder hold just these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, blob in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if blob.mode == LINK:
            path.symlink_to(os.fsdecode(blob.data))
        else:
            path.write_bytes(blob.data)
            path.chmod(int(blob.mode[-3:], 8))


def files_in(folder: Path) -> Files:
    """All files below a folder, as git sees them."""
    found = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = Blob(LINK, os.fsencode(os.readlink(path)))
        elif path.is_file():
            found[name] = Blob("100755" if path.stat().st_mode & 0o100 else "100644", path.read_bytes())
    return found


def reader(files: Mapping[str, Blob], path: str) -> Blob | None:
    """What git's trees would tell the engine about a path."""
    if path in files:
        return files[path]
    inside = [name[len(path) + 1 :] for name in files if name.startswith(f"{path}/")]
    above = [path[:at] for at, char in enumerate(path) if char == "/"]
    if inside or any(parent in files for parent in above):
        return Blob(FOLDER, "\0".join(inside).encode("utf-8", "surrogateescape"))
    return None
