"""Trees of anyone's: modes that git reads, but does not write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kz_build.git.object_types import Blob
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
