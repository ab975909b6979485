"""verify, history and radar on the real upstream, where what happened is known: needs a network that reaches GitHub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Kz

pytestmark = pytest.mark.upstream


def result(kz: Kz, *argv: str, code: int = 0) -> Any:
    done = kz(*argv, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def by_patch(rows: list[dict[str, Any]], part: str) -> dict[str, Any]:
    return next(row for row in rows if part in row["patch"])


def test_every_line_holds_on_its_pin(kz: Kz) -> None:
    for found in result(kz, "verify", "--all-lines"):
        assert {j["verdict"] for j in found["rows"][0]} == {"clean"}, found


def test_which_release_broke_the_stack_of_et_1_2(kz: Kz) -> None:
    (found,) = result(kz, "verify", "--line", "et-1.2", "--onto", "v1.2.0", "v1.3.1", "v1.4.1", code=4)
    at = {t["name"]: row for t, row in zip(found["targets"], found["rows"], strict=True)}
    assert {j["verdict"] for j in at["v1.2.0"]} == {"clean"}
    assert by_patch(at["v1.3.1"], "KV-width")["verdict"] == "content"
    assert by_patch(at["v1.3.1"], "register-qwen3-4b")["offset"] == 45
    assert by_patch(at["v1.3.1"], "Python-adaptor")["offset"] == 8
    assert by_patch(at["v1.4.1"], "Python-adaptor")["verdict"] == "clean", "by its rules"


def test_who_broke_the_jni_patches_of_et_1_2(kz: Kz) -> None:
    (found,) = result(kz, "history", "--line", "et-1.2", "--onto", "v1.4.1", "--why")
    jni = by_patch(found["patches"], "KV-width")
    steps = {s["commit"]["id"]: s for s in jni["steps"]}
    assert (steps[jni["broke"]]["commit"]["pull"], steps[jni["broke"]]["commit"]["tag"]) == (18398, "v1.3.0")
    assert (steps[jni["taken"]]["commit"]["pull"], steps[jni["taken"]]["commit"]["tag"]) == (18732, "v1.3.0")
    assert "-      runner_ = std::make_unique<example::Runner<uint16_t>>( // QNN runner" in steps[jni["taken"]]["why"]
    assert by_patch(found["patches"], "Python-adaptor")["steps"] == []
    assert by_patch(found["patches"], "register-qwen3-4b")["holds"]


@pytest.mark.skipif(not shutil.which("ast-grep"), reason="ast-grep is not on PATH")
def test_what_breaks_the_cmake_gate_and_the_registration_as_mails_does_not_break_their_rules(
    kz: Kz, tmp_path: Path
) -> None:
    """The registration is shipped without its rules: upstream never broke it since its pin, and they need ast-grep."""
    recipe_quantization, windows = "101e915c60", "01f80e7f60"
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, tmp_path)
    stack = tmp_path / "patches/et-1.2/executorch"
    shutil.copytree(ROOT / "patches/et-1.2", stack.parent)
    (gate,) = stack.glob("*.rewrite.yaml")
    gate = gate.rename(tmp_path / gate.name)
    at = (recipe_quantization, windows)
    argv = ("-C", str(tmp_path), "verify", "--line", "et-1.2", "--source", "executorch", "--onto", *at)

    def verdicts() -> list[tuple[str, ...]]:
        (found,) = result(kz, *argv, code=4)
        names = ("register-qwen3-4b", "Python-adaptor")
        return [tuple(by_patch(row, name)["verdict"] for name in names) for row in found["rows"]]

    assert verdicts() == [("merged", "merged"), ("offset", "content")]
    gate.rename(stack / gate.name)
    shutil.copy(ROOT / "tests/data/rewrite/0001-qnn-llama-register-qwen3-4b.rewrite.yaml", stack)
    assert verdicts() == [("clean", "clean"), ("offset", "clean")]


def test_on_et_1_2_the_jni_patches_are_broken_already_since_18398(kz: Kz) -> None:
    (found,) = result(kz, "radar", "--line", "et-1.2", "--pr", "19146")
    since = {b["patch"]: b["since"]["pull"] for b in found["broken"] if "-jni-" in b["patch"]}
    assert set(since.values()) == {18398} and len(since) == 2
    assert not [t for p in found["pulls"] for t in p["patches"] if "-jni-" in t["patch"]]
    assert kz("radar", "--line", "et-1.2", "--pr", "19146").stdout.count("already broken since 24d1337bef") == 2


def test_19146_hurts_the_jni_patch_made_for_v1_3_1(kz: Kz) -> None:
    (found,) = result(kz, "radar", "--line", "et-1.3", "--pr", "19146")
    (pull,) = found["pulls"]
    hurt = by_patch(pull["patches"], "jni-run-qwen3")
    assert (hurt["before"]["verdict"], hurt["after"]["verdict"]) == ("clean", "content")
    assert pull["landed"]["id"].startswith("5fc929fa88")
