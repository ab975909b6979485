"""What a stage leaves: written at once, read again only where it is whole and of the same inputs."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kz_build.core import stage_record
from kz_build.core.errors import LockError
from kz_build.core.stage_record import Output, StageRecord, beside, changed, load, load_any

INPUTS = {
    "aar": "sha256 a",
    "canonical": True,
    "contract": {"soc": "x"},
    "engine_why": "",
    "overrides": [{"where": "here", "value": "ü"}],
    "recipe": "tiny",
    "sources": [{"name": "s"}],
    "stacks": [],
}
OUTPUTS = {
    "bin/x": Output("aa", 0, "program", ""),
    "lib/x.so": Output("bb", 7, "ours", "cafe"),
    "symbols/x.debug": Output("cc", 9, "symbols"),
    "plain": Output("dd"),
}


def whole(path: Path) -> StageRecord:
    return StageRecord(path, "k", INPUTS, OUTPUTS, {"seconds": 1.5, "line": "l", "image": None})


def written(path: Path, **data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = whole(tmp_path / "out" / "manifest.json")
    record.save()
    assert load(record.path, "k") == record == load_any(record.path)
    assert load(record.path, "other") is None
    assert Output("s") == ("s", None, "", None)


def test_a_record_is_sorted_text_that_diffs_well(tmp_path: Path) -> None:
    facts = {"b": [1, None], "a": {"z": 1, "y": "\u00fc"}}
    StageRecord(tmp_path / "m", "k", outputs={"f": Output("s", 1)}, facts=facts).save()
    assert (tmp_path / "m").read_text() == (
        '{\n "a": {\n  "y": "\\u00fc",\n  "z": 1\n },\n "b": [\n  1,\n  null\n ],\n "files": {\n  "f": {\n'
        '   "sha256": "s",\n   "size": 1\n  }\n },\n "key": "k"\n}\n'
    )


def test_the_file_holds_inputs_outputs_and_facts_side_by_side(tmp_path: Path) -> None:
    assert whole(tmp_path / "m").plain() == {
        **INPUTS,
        "files": {
            "bin/x": {"sha256": "aa", "size": 0, "profile": "program", "build_id": ""},
            "lib/x.so": {"sha256": "bb", "size": 7, "profile": "ours", "build_id": "cafe"},
            "symbols/x.debug": {"sha256": "cc", "size": 9, "profile": "symbols"},
            "plain": "dd",
        },
        "seconds": 1.5,
        "line": "l",
        "image": None,
        "key": "k",
    }


@pytest.mark.parametrize(
    "outputs, data",
    [
        ({}, {}),
        ({"": Output("aa")}, {"sha256": "aa"}),
        ({"": Output("aa", 3)}, {"sha256": "aa", "size": 3}),
        ({"": Output("aa"), "x": Output("bb")}, {"sha256": "aa", "files": {"x": "bb"}}),
    ],
)
def test_a_stage_of_one_file_notes_its_digest_alone(
    tmp_path: Path, outputs: dict[str, Output], data: dict[str, Any]
) -> None:
    record = StageRecord(tmp_path / "m", "k", outputs=outputs)
    record.save()
    assert json.loads((tmp_path / "m").read_bytes()) == {**data, "key": "k"}
    assert load_any(tmp_path / "m") == record


def test_a_size_without_a_digest_is_a_fact(tmp_path: Path) -> None:
    record = load_any(written(tmp_path / "m", key="k", size=3))
    assert record and record.facts == {"size": 3} and not record.outputs


@pytest.mark.parametrize("text", ["", "{", "[]", '"key"', "null", "3", '{"files": {}}', "\xff", "[" * 100_000])
def test_what_is_no_record_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "m").write_bytes(text.encode("latin-1"))
    assert load(tmp_path / "m", "k") is None and load_any(tmp_path / "m") is None


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "m", tmp_path, tmp_path / "file" / "m"):
        assert load(path, "k") is None and load_any(path) is None


@pytest.mark.parametrize("key", [None, 3, ["k"]])
def test_a_record_without_a_key_is_no_ones(tmp_path: Path, key: Any) -> None:
    assert load_any(written(tmp_path / "m", key=key)) is None


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../x", "a//x", "a\\x", ".git/x"])
def test_a_record_that_names_files_outside_its_folder_is_none(tmp_path: Path, name: str) -> None:
    assert load_any(written(tmp_path / "m", key="k", files={"lib/x.so": "aa"}))
    assert load_any(written(tmp_path / "m", key="k", files={"lib/x.so": "aa", name: "aa"})) is None


@pytest.mark.parametrize(
    "facts",
    [
        {}, 1, None, [], ["sha256"], {"sha256": None}, {"sha256": 3}, {"size": 3}, {"sha256": "a", "size": "3"},
        {"sha256": "a", "size": 1.5}, {"sha256": "a", "profile": None}, {"sha256": "a", "build_id": 3}, {"sha256": "a", "other": 1},
    ],
)  # fmt: skip
def test_a_record_with_a_file_that_is_none_is_none(tmp_path: Path, facts: Any) -> None:
    assert load_any(written(tmp_path / "m", key="k", files={"x": {"sha256": "a", "size": None, "build_id": None}}))
    assert load_any(written(tmp_path / "m", key="k", files={"x": facts})) is None


@pytest.mark.parametrize("files", [[], None, 3, ["x"]])
def test_a_record_whose_files_have_no_names_is_none(tmp_path: Path, files: Any) -> None:
    assert load_any(written(tmp_path / "m", key="k", files=files)) is None


def test_a_record_may_not_be_larger_than_any_stage_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stage_record.MOST_BYTES == 16 * 1024 * 1024
    path = written(tmp_path / "m", key="k")
    monkeypatch.setattr(stage_record, "MOST_BYTES", path.stat().st_size)
    assert load(path, "k")
    path.write_text(path.read_text() + " ")
    assert load(path, "k") is None


def test_what_a_record_says_has_the_kind_that_the_reader_needs(tmp_path: Path) -> None:
    record = whole(tmp_path / "m")
    assert record.get("seconds", float) == 1.5 and record.get("canonical", bool) is True
    assert record.get("sources", list) == [{"name": "s"}]
    for name, kind in (("seconds", str), ("sources", dict), ("image", dict), ("lost", str)):
        with pytest.raises(LockError) as caught:
            record.get(name, kind)
        assert str(caught.value) == f"{tmp_path / 'm'} was not written by kz: {name} is no {kind.__name__}"
        assert caught.value.hint == "remove that file"


def test_the_files_of_a_stage_are_what_it_made_until_one_changes(tmp_path: Path) -> None:
    outputs = {}
    for name in ("a", "deep/b"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
        outputs[name] = Output(hashlib.sha256(name.encode()).hexdigest(), len(name))
    assert changed(tmp_path, outputs) is None
    (tmp_path / "deep" / "b").write_bytes(b"other")
    assert changed(tmp_path, outputs) == tmp_path / "deep" / "b"
    (tmp_path / "deep" / "b").write_bytes(b"deep/B")
    assert changed(tmp_path, outputs) == tmp_path / "deep" / "b"
    (tmp_path / "a").unlink()
    assert changed(tmp_path, outputs) == tmp_path / "a"
    (tmp_path / "a").mkdir()
    assert changed(tmp_path, outputs) == tmp_path / "a"


def test_a_size_alone_shows_a_change_and_the_caller_may_know_the_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    assert changed(tmp_path, {"a": Output("known")}, lambda path: "known" if path == tmp_path / "a" else "") is None
    assert changed(tmp_path, {"a": Output("known", 2)}, lambda path: "known") is None
    assert changed(tmp_path, {"a": Output("known", 3)}, lambda path: "known") == tmp_path / "a"
    assert changed(tmp_path, {"a": Output("known", 2)}, lambda path: "else") == tmp_path / "a"


def test_the_only_file_of_a_stage_is_named_by_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x.pte").write_bytes(b"x")
    outputs = {"": Output(hashlib.sha256(b"x").hexdigest(), 1)}
    assert changed(tmp_path / "x.pte", outputs) is None
    assert changed(tmp_path / "y.pte", outputs) == tmp_path / "y.pte"
    assert beside(tmp_path / "x.pte") == tmp_path / "x.pte.json"


def test_a_record_that_the_disk_does_not_give_is_no_absent_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is up to date would run again, unasked."""
    whole(tmp_path / "r").save()

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(tmp_path / "r"))

    monkeypatch.setattr(Path, "open", broken)
    with pytest.raises(OSError, match="Input/output"):
        load(tmp_path / "r", "k")


def test_a_file_that_another_process_replaces_meanwhile_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")

    def gone(path: Path) -> str:
        path.unlink()
        return hashlib.sha256(path.read_bytes()).hexdigest()

    assert changed(tmp_path, {"a": Output(hashlib.sha256(b"x").hexdigest(), 1)}, gone) == tmp_path / "a"
