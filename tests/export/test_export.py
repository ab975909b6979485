"""`kz export` before anything runs: list, show, plan, preflight. Nothing is written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from kz_build.core import host
from kz_build.core.host import disk, glibc, memory, pythons
from kz_build.export import preflight_rules as rules
from tests.conftest import ROOT, Kz, snapshot

NAME = "qwen3-4b-qnn-hybrid"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, root)
    shutil.copytree(ROOT / "recipes", root / "recipes")
    return root


def test_list_and_show(kz: Kz) -> None:
    listed = kz("export", "list").stdout.splitlines()
    assert any(row.startswith(f"{NAME} ") and "46-59 GB" in row for row in listed)
    shown = kz("export", "show", NAME).stdout
    for part in (
        "line      et-1.2",
        "RAM + swap  46-59 GB",
        "the team's",
        "tokenizer.json  aeb13307",
        "htp_arch        v79",
    ):
        assert part in shown
    assert json.loads(kz("export", "show", NAME, "--json").stdout)["contract"]["kv_bits"] == 8


def test_a_dry_run_is_a_plan_and_changes_nothing(kz: Kz, copy: Path, tmp_path: Path) -> None:
    before = snapshot(copy)
    done = kz("-C", copy, "export", NAME, "--dry-run", KZ_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert "--model_mode=hybrid" in done.stdout and "executorch v1.2.0" in done.stdout
    assert f"--artifact={copy}/out/export/et-1.2/{NAME}" in done.stdout
    assert snapshot(copy) == before
    plan = json.loads(kz("-C", copy, "export", NAME, "--dry-run", "--json", KZ_CACHE=str(tmp_path / "cache")).stdout)
    assert plan["steps"][0]["argv"][1] == "examples/qualcomm/oss_scripts/llama/llama.py"
    assert plan["environment"]["HF_HUB_OFFLINE"] == "1" and plan["sources"]["qnn-sdk"] == "2.42.0.251225"


def test_it_does_not_start_what_cannot_end_well(kz: Kz, copy: Path, tmp_path: Path) -> None:
    (copy / "recipes/requirements/et-1.2-qnn.txt").unlink()
    before = snapshot(copy)
    done = kz("-C", copy, "export", NAME, KZ_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 6 and f"this machine is not ready for {NAME}: " in done.stderr
    assert (
        "et-1.2-qnn is not locked: not all packages of recipes/requirements/et-1.2-qnn.in are in the indexes that were tried"
        in done.stdout
    )
    assert "-> uv pip compile " in done.stdout and "SKIP  upstream script" not in done.stdout
    assert snapshot(copy) == before and not (tmp_path / "cache" / "environments").exists()


def test_preflight_says_all_at_once_with_what_mends_it(kz: Kz, copy: Path, tmp_path: Path) -> None:
    recipe = copy / "recipes" / f"{NAME}.yaml"
    recipe.write_text(recipe.read_text().replace("[46, 59]", "[99999, 99999]").replace("[30, null]", "[999999, null]"))
    done = kz("-C", copy, "export", "preflight", NAME, KZ_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 6
    failed = [row for row in done.stdout.splitlines() if row.startswith("FAIL")]
    assert {row.split("  ")[1] for row in failed} >= {"memory", "disk {out}", "weights Qwen3-4B"}
    for fix in ("fallocate -l", "hf download Qwen/Qwen3-4B"):
        assert fix in done.stdout
    assert "sdk qnn-sdk" in done.stdout and "2.42.0.251225; kz fetches it" in done.stdout  # no variable names one
    assert not (tmp_path / "kz-swap").exists()


def test_a_question_that_cannot_be_answered_does_not_hide_the_others(kz: Kz, tmp_path: Path) -> None:
    own = {"KZ_CONFIG": str(tmp_path / "config"), "KZ_CACHE": str(tmp_path / "cache")}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "accepted.json").write_text("{}")
    done = kz("export", "preflight", "tiny-llama-qnn-hybrid", "--json", **own)
    found = {c.pop("name"): c for c in json.loads(done.stdout)["checks"]}
    assert found["sdk"]["status"] == "ERROR" and "record of accepted licences" in found["sdk"]["evidence"]
    assert found["sdk"]["fix"] == ["remove it, and accept again: kz accept SOURCE"]
    assert {"memory", "disk {out}", "python", "environment"} <= set(found)
    assert done.returncode == 6 and "is not ready for tiny-llama-qnn-hybrid: " in done.stderr and "sdk" in done.stderr


def test_an_sdk_and_weights_that_are_there(kz: Kz, copy: Path, tmp_path: Path) -> None:
    sdk, store = tmp_path / "qnn", tmp_path / "cache"
    sdk.mkdir()
    (sdk / "sdk.yaml").write_text('version: "2.42.0"\nbuild_id: "251225135753"\n')
    snapshot_of = (
        store / "weights" / "hub" / "models--Qwen--Qwen3-4B" / "snapshots" / "1cfa9a7208912126459214e8b04321603b3df60c"
    )
    snapshot_of.mkdir(parents=True)
    recipe = copy / "recipes" / f"{NAME}.yaml"
    text = recipe.read_text()
    for name in ("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
                 "config.json", "tokenizer.json", "tokenizer_config.json"):  # fmt: skip
        (snapshot_of / name).write_text(name)
        text = re.sub(rf" {name}: [0-9a-f]+", f" {name}: {hashlib.sha256(name.encode()).hexdigest()}", text)
    recipe.write_text(text)

    def checks() -> dict[str, str]:
        done = kz("-C", copy, "export", "preflight", NAME, "--json", KZ_CACHE=str(store), QNN_SDK_ROOT=str(sdk))
        return {c["name"]: f"{c['status']} {c['evidence']}" for c in json.loads(done.stdout)["checks"]}

    found = checks()
    assert found["sdk qnn-sdk"].startswith("PASS")
    assert found["weights Qwen3-4B"] == "PASS 6 files, as in the recipe"
    (snapshot_of / "config.json").write_text("other")
    (sdk / "sdk.yaml").write_text('version: "2.37.0"\nbuild_id: "250724175447"\n')
    found = checks()
    assert found["weights Qwen3-4B"].startswith("FAIL config.json: not the files")
    assert found["sdk qnn-sdk"].startswith("FAIL") and "2.37.0.250724" in found["sdk qnn-sdk"]
    (copy / "pins.local.yaml").write_text(f"sources: {{qnn-sdk: {{folder: {sdk}}}}}\n")
    assert checks()["sdk qnn-sdk"].startswith(f"FAIL pins.local.yaml: sources.qnn-sdk.folder={sdk} says it is 2.37.0")


def test_the_machine_is_read_right() -> None:
    have = memory()
    assert 0 < have.ram <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") and have.swap >= 0
    assert disk(Path("/dev/shm/not/made/yet")).kind == "tmpfs"
    place = disk(ROOT)
    assert ROOT.is_relative_to(place.mount) and place.free > 0
    assert glibc().startswith("2.") and sys.executable in [program for _, program in pythons()]


def test_no_other_python_is_asked_where_the_first_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pyenv and the like take a fifth of a second each."""
    other = tmp_path / "python3"
    other.write_text(f"#!/bin/sh\n: >{tmp_path}/asked\necho Python 3.99.0\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sys.executable in rules.python(">=3.10", pythons()).evidence and not (tmp_path / "asked").exists()
    assert "python3 (3.99.0)" in rules.python(">=3.99", pythons()).evidence


def test_a_mount_whose_name_is_no_text_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "mounts"
    listed.write_bytes(
        b"a / ext4 rw 0 0\nb /mnt/\xff\\040x tmpfs rw 0 0\nc %b xfs rw 0 0\n" % bytes(tmp_path.resolve())
    )
    monkeypatch.setattr(host, "MOUNTS", listed)
    assert disk(tmp_path)[1:] == (str(tmp_path.resolve()), "xfs")
