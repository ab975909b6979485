"""Trees and commits of anyone's: modes and dates that git reads, but does not write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kz_build.git.object_types import Blob, object_id
from kz_build.git.repository import Repository
from kz_build.git.tree_lookup import read_paths


@pytest.mark.parametrize(
    ("mode", "read"), [("100644", "100644"), ("100664", "100644"), ("100600", "100644"), ("100775", "100755")]
)
def test_odd_modes_of_files_are_read_as_git_reads_them(tmp_path: Path, mode: str, read: str) -> None:
    def git(*words: str, data: bytes) -> str:
        return (
            subprocess.run(["git", *words], cwd=tmp_path, input=data, stdout=subprocess.PIPE, check=True)
            .stdout.decode()
            .strip()
        )

    git("init", "-q", "--bare", data=b"")
    blob = git("hash-object", "-w", "--stdin", data=b"one\n")
    entry = f"{mode} a.txt\0".encode() + bytes.fromhex(blob)
    tree = git("hash-object", "-w", "--literally", "-t", "tree", "--stdin", data=entry)
    commit = git("-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", tree, data=b"x\n")
    with Repository(tmp_path).objects() as objects:
        assert read_paths(objects, commit, ["a.txt"]) == {"a.txt": Blob(read, b"one\n")}


@pytest.mark.parametrize(
    ("committer", "day"),
    [
        ("committer a <a@b> 1700000000 +0100\n", "2023-11-14"),
        ("committer a <a@b> 99999999999999999999 +0000\n", "1970-01-01"),
        ("committer a <a@b>\n", "1970-01-01"),
        ("", "1970-01-01"),
    ],
)
def test_a_commit_with_an_odd_date_is_read_as_git_reads_it(tmp_path: Path, committer: str, day: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    data = f"tree {object_id('tree', b'')}\nauthor a <a@b> 1 +0000\n{committer}\nx\n".encode()
    words = ("git", "hash-object", "-w", "--literally", "-t", "commit", "--stdin")
    commit = subprocess.run(words, cwd=tmp_path, input=data, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    with Repository(tmp_path).objects() as objects:
        assert objects.commit(commit) == (commit, day)
