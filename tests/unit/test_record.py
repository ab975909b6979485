"""Several files changed as one, through a kill at any write."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kz_build.adapters import record
from kz_build.adapters.files import write_atomic
from kz_build.model.errors import ConfigError, LockError
from kz_build.stages.build import recorded_files
from tests.conftest import snapshot

CHANGES = {"a": b"new a", "deep/b": b"new b", "gone": None, "same": b"same"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with three of four files."""
    for name in ("a", "gone", "same"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


DONE = {"a": b"new a", "deep/b": b"new b", "same": b"same"}


def test_all_at_once(root: Path) -> None:
    record.change_all(root, CHANGES)
    assert snapshot(root) == DONE
    record.roll_forward(root)
    assert snapshot(root) == DONE


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("at", range(1, 5))
def test_killed_at_any_write_it_is_all_or_nothing_in_the_end(
    root: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(root)
    real, count = write_atomic, 0

    def dying(path: Path, data: bytes) -> Any:
        nonlocal count
        count += 1
        if count == at:
            raise Killed
        return real(path, data)

    monkeypatch.setattr(record, "write_atomic", dying)
    with contextlib.suppress(Killed):
        record.change_all(root, CHANGES)
    monkeypatch.undo()
    record.roll_forward(root)
    assert snapshot(root) == (before if at == 1 else DONE)


def test_a_hand_that_was_faster_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "roll_forward", lambda root: None)
    record.change_all(root, CHANGES)
    monkeypatch.undo()
    (root / "a").write_bytes(b"by hand")
    before = snapshot(root)
    with pytest.raises(ConfigError, match="changed since"):
        record.roll_forward(root)
    assert snapshot(root) == before


OUTSIDE = ("../evil", "/evil", "a/../../evil", ".git/hooks/post-checkout", "link/evil", "", ".", "x\0y")


@pytest.mark.parametrize("path", OUTSIDE, ids=ascii)
def test_a_record_that_came_with_a_pull_request_writes_nothing_elsewhere(tmp_path: Path, path: str) -> None:
    root = tmp_path / "project"
    (root / ".git/hooks").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    (root / record.NAME).write_text(json.dumps({f"{tmp_path}/evil" if path == "/evil" else path: [None, "ZXZpbA=="]}))
    before = snapshot(tmp_path)
    with pytest.raises(ConfigError, match="kz must not write"):
        record.roll_forward(root)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["", "[]", "3", '{"a": 1}', '{"a": ["!", 2]}', '{"a": [1, 2, 3]}'])
def test_a_record_that_is_none(root: Path, text: str) -> None:
    (root / record.NAME).write_text(text)
    with pytest.raises(ConfigError, match="was not written by kz"):
        record.roll_forward(root)


@pytest.mark.parametrize(
    "files", [{"../x": {"sha256": "a", "profile": "ours"}}, {"/x": {"sha256": "a", "profile": "ours"}}, {"x": {}}, {"x": 1}, [], None]
)  # fmt: skip
def test_a_build_that_names_files_outside_dist_is_none(tmp_path: Path, files: Any) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"files": {"lib/x.so": {"sha256": "a", "profile": "ours"}}}))
    assert list(recorded_files(manifest)) == ["lib/x.so"]
    manifest.write_text(json.dumps({"files": files}))
    with pytest.raises(LockError, match="was not written by kz"):
        recorded_files(manifest)
