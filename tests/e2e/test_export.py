"""Real exports: PyPI's ExecuTorch with our patches, the CPU build of torch, upstream's own scripts, random weights."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, Kz, snapshot

pytestmark = [pytest.mark.exports, pytest.mark.xdist_group("real exports")]
XNNPACK, VULKAN = "tiny-qwen3-xnnpack", "tiny-qwen3-vulkan"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped recipes, stacks and pins in a folder of their own."""
    root = tmp_path_factory.mktemp("export")
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, root)
    for name in ("recipes", "patches"):
        shutil.copytree(ROOT / name, root / name)
    return root


@pytest.fixture
def run(kz: Kz, project: Path) -> Kz:
    return lambda *argv, **more: kz("-C", project, *argv, **more)


@pytest.fixture
def exported(run: Kz, project: Path) -> dict[str, Any]:
    """The record of tiny-qwen3-xnnpack; exported by the first test that wants it."""
    done = run("export", XNNPACK)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((project / "dist" / "et-1.5" / f"{XNNPACK}.pte.json").read_bytes())
    return found


def change(project: Path, name: str, **over: Any) -> None:
    """Write a recipe of that name: tiny-qwen3-xnnpack with these keys."""
    plain = yaml.safe_load((project / "recipes" / f"{XNNPACK}.yaml").read_text())
    (project / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump({**plain, **over}))


def test_it_decodes_as_eager_torch_does(exported: dict[str, Any], run: Kz, project: Path) -> None:
    steps = exported["decode"]["steps"]
    assert len(steps) == 8 and all(step["same"] and step["cosine"] > 0.999 for step in steps)
    assert all(0.95 < step["float_cosine"] < 0.9999 for step in steps), "four bits are not 32"
    phases = {phase["name"]: phase for phase in exported["stages"]["export"]["phases"]}
    assert list(phases) == ["load", "export", "lower", "save"]
    assert all(2e8 < phase["ram"] < 2e9 for phase in phases.values() if phase["seconds"] > 3)
    assert {c["check"] for c in exported["checks"]} >= {"methods", "runner", "context-length", "backends"}
    file = project / "dist" / "et-1.5" / f"{XNNPACK}.pte"
    held = run("pte", file, "--contract", project / "recipes" / f"{XNNPACK}.yaml")
    assert held.returncode == 0, held.stdout
    assert run("pte", file, "--contract", project / "recipes" / f"{VULKAN}.yaml").returncode == 8


def test_nothing_is_done_twice_and_nothing_strays(
    exported: dict[str, Any], run: Kz, project: Path, tmp_path: Path
) -> None:
    before = snapshot(project / "dist" / "et-1.5")
    again = run("export", XNNPACK, cwd=tmp_path)
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert snapshot(project / "dist" / "et-1.5") == before and not list(tmp_path.iterdir())
    work = project / "out" / "export" / "et-1.5" / XNNPACK / "work" / "export"
    assert (work / "outputs").is_dir(), "hydra's own log went where it ran"
    assert {p.name for p in project.iterdir()} == {"pins.yaml", "pins.lock", "recipes", "patches", "out", "dist"}


def test_weights_of_another_seed_are_noticed(exported: dict[str, Any], run: Kz, project: Path, tmp_path: Path) -> None:
    """The check can fail: the same .pte against eager torch with other weights."""
    out = project / "out" / "export" / "et-1.5"
    python = json.loads(run("env", XNNPACK, "--json").stdout)["python"]
    script, shape = (
        ROOT / "kz_build" / "export" / "scripts" / "weights.py",
        out / XNNPACK / "weights" / "tiny-qwen3.json",
    )
    subprocess.run([python, script, "random", shape, "1", tmp_path / "other.pth"], check=True, capture_output=True)
    drawn = tmp_path / "same.pth"
    subprocess.run([python, script, "random", shape, "0", drawn], check=True, capture_output=True)
    assert drawn.read_bytes() == (shape.parent / "tiny-qwen3.pth").read_bytes(), "the same seed, the same bytes"
    recipe = yaml.safe_load((project / "recipes" / f"{XNNPACK}.yaml").read_text())
    before = (project / "recipes" / f"{XNNPACK}.yaml").read_text()
    decode = [f"--checkpoint={tmp_path}/other.pth" if w.startswith("--checkpoint") else w for w in recipe["decode"]]
    try:
        change(project, XNNPACK, decode=decode)
        refused = run("export", XNNPACK)
    finally:
        (project / "recipes" / f"{XNNPACK}.yaml").write_text(before)
    assert refused.returncode == 8 and "decode: step 1 of 8 has cosine" in refused.stderr, refused.stderr


def test_vulkan_is_lowered(run: Kz, project: Path) -> None:
    done = run("export", VULKAN)
    assert done.returncode == 0, done.stderr
    assert "PASS  backends: its delegates are of VulkanBackend" in done.stdout


def test_torch_at_the_end_of_memory(exported: dict[str, Any], run: Kz, project: Path) -> None:
    stage = {
        "name": "export",
        "inside": "executorch-wheel",
        "run": ["{python}", "-c", "import torch; torch.empty(10**15)"],
        "makes": ["{out}/x"],
    }
    change(project, "memory", command=[stage], weights={}, decode=[])
    refused = run("export", "memory")
    assert refused.returncode == 5 and "memory failed in phase load: out of memory" in refused.stderr, refused.stderr


def test_ports_of_entry(run: Kz, project: Path) -> None:
    """Upstream's llama.py starts with our stack on it and knows qwen3-4b; one that it does not know is said."""
    recipe = yaml.safe_load((project / "recipes" / "tiny-llama-qnn-kv.yaml").read_text())
    recipe["needs"].pop("sdk")
    recipe["environment"] = {"HF_HUB_OFFLINE": "1"}
    run_line = [
        word.replace("stories260k", "qwen3-4b") if "decoder_model" in word else word
        for word in recipe["command"][0]["run"]
    ]
    recipe["command"][0]["run"] = run_line
    path = project / "recipes" / "entry.yaml"
    path.write_text(yaml.safe_dump(recipe))
    skipped = run("export", "preflight", "entry")
    if "upstream script" not in skipped.stdout or "SKIP  upstream script" in skipped.stdout:
        assert "kz env entry" in skipped.stdout
    made = run("env", "entry")
    assert made.returncode == 0 and "PyQnn adaptor  of the wheel" in made.stdout, made.stderr + made.stdout
    found = run("export", "preflight", "entry")
    assert "PASS  upstream script" in found.stdout and "knows qwen3-4b among" in found.stdout, found.stdout
    path.write_text(yaml.safe_dump(recipe).replace("decoder_model=qwen3-4b", "decoder_model=qwen9-4b"))
    found = run("export", "preflight", "entry")
    assert found.returncode == 6 and "llama.py does not know the decoder qwen9-4b" in found.stdout, found.stdout
