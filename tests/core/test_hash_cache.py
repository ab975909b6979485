"""The sha256 of a file is read from the cache only while the file is what it was."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from kz_build.core import hash_cache
from kz_build.core.hash_cache import SMALL, cached_sha256


def test_a_digest_is_cached_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, store = tmp_path / "file", tmp_path / "store"
    one, other = (letter * SMALL for letter in (b"1", b"2"))

    def digest_of(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    file.write_bytes(one)
    assert cached_sha256(store, file) == digest_of(one)
    assert not store.exists(), "it may change again within the same tick of the clock"
    monkeypatch.setattr(hash_cache, "SETTLED_SECONDS", -1)
    assert cached_sha256(store, file) == digest_of(one)
    with monkeypatch.context() as patched:
        patched.delattr(hash_cache, "sha256_file")
        assert cached_sha256(store, file) == digest_of(one)

    then = file.stat().st_mtime_ns
    file.write_bytes(other)
    os.utime(file, ns=(then, then))
    assert cached_sha256(store, file) == digest_of(other)
    (entry,) = (store / "digests").iterdir()
    entry.write_bytes(entry.read_bytes().replace(digest_of(other).encode(), digest_of(one).encode()))
    assert cached_sha256(store, file) == digest_of(other)
