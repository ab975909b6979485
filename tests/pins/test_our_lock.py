"""Our own pins.lock: nothing that a default build needs is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kz_build.core.errors import MissingError
from kz_build.pins.load import load_project
from kz_build.sources import preflight
from kz_build.sources.fetch import fetch
from kz_build.sources.request import Request
from tests.conftest import ROOT

ANDROID = [
    (line, target)
    for line in ("et-1.2", "et-1.3", "et-1.4")
    for target in (
        "android-arm64-qnn",
        "android-arm64-xnnpack",
        "android-x86_64-xnnpack",
        "android-arm64-vulkan",
        "linux-x86_64-qnn",
    )
]


@pytest.mark.parametrize(("line", "target"), ANDROID)
def test_no_null_stops_a_build(line: str, target: str) -> None:
    pins, entries = load_project(ROOT).pins, json.loads((ROOT / "pins.lock").read_text())["lines"][line]
    for name in pins.target(target, line)["sources"]:
        entry = entries[name]
        assert entry["commit" if entry["kind"] == "git" else "sha256"], name
        assert entry.get("licence", "none"), name
    assert entries["debian"]["digest"]


def test_what_is_null_is_a_size_a_tree_that_a_commit_proves_or_said_to_be_optional() -> None:
    lines = json.loads((ROOT / "pins.lock").read_text())["lines"]
    unknown = {
        (line, name, key)
        for line, entries in lines.items()
        for name, entry in entries.items()
        for key, value in entry.items()
        if value is None and key != "size"
    }
    assert unknown == {("et-1.4", "executorch-aar", "sha256")}
    submodules = [
        sub for entries in lines.values() for sub in entries.get("executorch", {}).get("submodules", {}).values()
    ]
    assert {key for sub in submodules for key, value in sub.items() if value is None} <= {"tree"}


def test_the_optional_null_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_silent", lambda *_: ())  # the network is not the question
    project = load_project(ROOT)._replace(store=tmp_path)
    with pytest.raises(MissingError) as raised:
        fetch(project, Request("et-1.4", ("executorch-aar",)))
    assert raised.value.exit_code == 3
    for part in (
        "the digest of executorch-aar 1.4.1 in pins.lock",
        "-> kz lock --write --line et-1.4 --trust executorch-aar",
    ):
        assert part in str(raised.value)
