"""The rehearsal of a QNN export: Qualcomm's own libraries from PyPI, upstream's llama.py with our stack, random weights.

Runs where its user accepted the licence of qnn-host (`kz accept qnn-host`); elsewhere every test fails and says so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kz_build.core.env import config_root
from kz_build.device.reply import first_difference, greedy
from kz_build.formats.pte import read_pte
from kz_build.formats.pte_types import Pte
from tests.conftest import ROOT, Kz

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("real exports")]
HYBRID, KV, TWO, X86, QWEN = RECIPES = (
    "tiny-llama-qnn-hybrid",
    "tiny-llama-qnn-kv",
    "tiny-llama-qnn-2shard",
    "tiny-llama-qnn-x86",
    "tiny-qwen3-4b-qnn-hybrid",
)
PINNED = "2.42.0.251225"
AT_ONCE = 3
"""Exports at the same time: each takes a gigabyte, and one core most of its time."""


class Rehearsal:
    """A copy of the project, and what was exported in it."""

    def __init__(self, root: Path, kz: Kz) -> None:
        self.root = root
        accepted = {"KZ_CONFIG": str(config_root())}
        self.kz: Kz = lambda *argv, **more: kz("-C", root, *argv, **{**accepted, **more})

    def output(self, name: str) -> Path:
        return self.root / "dist" / "et-1.5" / f"{name}.pte"

    def facts(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.output(name).with_name(f"{name}.pte.json").read_bytes())
        return found

    def pte(self, name: str) -> Pte:
        return read_pte(self.output(name))


def copied(to: Path) -> Path:
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, to)
    for name in ("recipes", "patches"):
        shutil.copytree(ROOT / name, to / name)
    return to


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str]) -> Rehearsal:
    """Every tiny QNN recipe, exported as a user does it."""
    import sys

    def kz(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "kz_build", *map(str, argv)]
        return subprocess.run(words, cwd=ROOT, env={**clean_env, **env}, capture_output=True, text=True, timeout=1200)

    found = Rehearsal(copied(tmp_path_factory.mktemp("rehearsal")), kz)
    first = found.kz("env", HYBRID)
    assert first.returncode == 0, first.stderr
    assert re.search(
        r"QNN +2\.49\.40\.260810: it compiled a layer for SM8750 and ran it with torch's result", first.stdout
    )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, done in zip(RECIPES, pool.map(lambda name: found.kz("export", name), RECIPES), strict=True):
            assert done.returncode == 0, f"{name}: {done.stderr}"
    return found


def test_they_are_told_apart(made: Rehearsal) -> None:
    said = {name: made.kz("pte", made.output(name)).stdout for name in RECIPES}
    assert "kv decoder, kv_forward takes 1 at once, context 128, KV cache 8-bit, 1 shard\n" in said[KV]
    for name, block in ((HYBRID, 32), (X86, 32), (QWEN, 8)):
        mode = f"hybrid decoder, prefill_forward takes {block} at once, kv_forward takes 1 at once, context 128, KV cache 8-bit"
        assert f"{mode}, 1 shard\n" in said[name], said[name]
    assert "KV cache 8-bit, 2 shards\n" in said[TWO] and "op   llama::fallback.out x 1" in said[TWO]
    for name in (HYBRID, KV, QWEN):
        assert "compiled for SM8750, HTP v79, VTCM 8 MB, shared buffer on, multi contexts off" in said[name], said[name]
    assert "multi contexts on" in said[TWO] and "shared buffer off" in said[X86]
    assert len(made.pte(TWO).contexts) == 2 and len(made.pte(HYBRID).contexts) == 1
    hybrid = made.pte(HYBRID)
    assert {d.segment for m in hybrid.methods for d in m.delegates if d.qnn} == {1}, "both methods on one context"


@pytest.mark.parametrize(("name", "other", "words"), [
    (KV, HYBRID, "it is a kv-only file and the runner is hybrid"),
    (HYBRID, TWO, "1 QNN contexts per method, the contract says 2"),
    (TWO, HYBRID, "2 QNN contexts per method, the contract says 1"),
    (X86, HYBRID, "it was exported without shared buffers and the runner is started with"),
])  # fmt: skip
def test_each_meets_its_own_contract_and_no_others(made: Rehearsal, name: str, other: str, words: str) -> None:
    contract: Callable[[str], Path] = lambda one: made.root / "recipes" / f"{one}.yaml"  # noqa: E731
    own = made.kz("pte", made.output(name), "--contract", contract(name))
    assert own.returncode == 0, own.stdout
    assert f"newer than {PINNED}: do not push it to a device with that QNN" in own.stdout
    held = made.kz("pte", made.output(name), "--contract", contract(other))
    assert held.returncode == 8 and words in held.stdout, held.stdout


def test_the_emulated_one_is_its_quantized_reference(made: Rehearsal) -> None:
    decode = made.facts(X86)["decode"]
    assert len(decode["steps"]) == 32
    assert all(step["same"] and step["cosine"] > 0.999 for step in decode["steps"]), decode
    assert decode["prefill"] is True, "blocks of 32 give the very numbers that single tokens give"


def test_what_the_emulated_one_says_is_kept_for_a_device(made: Rehearsal) -> None:
    """By the greedy tokens of its own logits; a device that leaves them is told at which token."""
    said = greedy(made.facts(X86)["decode"])
    assert said and said.prompt == "once upon a time" and 40 < len(said.tokens) < 64, said
    text = "".join(said.pieces)
    assert first_difference(text, said) == ""
    first = next(
        at for at, piece in enumerate(said.pieces) if at > 4 and piece.replace("\N{REPLACEMENT CHARACTER}", "").strip()
    )
    other = "".join(said.pieces[:first]) + "\N{SNOWMAN}"
    assert first_difference(other, said).startswith(
        f"token {first + 1} of {len(said.tokens)}: the host said {said.tokens[first]} "
    )


def test_other_weights_are_noticed(made: Rehearsal, tmp_path: Path) -> None:
    """The comparison can fail: the same .pte against the reference of another decoder of the same shape."""
    out = made.root / "out" / "export" / "et-1.5"
    facts = json.loads(made.kz("env", X86, "--json").stdout)
    script = ROOT / "kz_build" / "export" / "scripts" / "decode_qnn.py"
    turned = tmp_path / "turned.py"
    turned.write_text(
        "import sys, torch, executorch.runtime\nfound = torch.export.load(sys.argv[1])\n"
        "for held in (found.state_dict, found.constants):\n    for value in held.values():\n"
        "        if isinstance(value, torch.Tensor) and value.dim() > 1:\n"
        "            with torch.no_grad(): value.copy_(value.flip(0))\n"
        "torch.export.save(found, sys.argv[2])\n"
    )

    def run(*argv: object) -> str:
        words = [facts["python"], *map(str, argv)]
        done = subprocess.run(words, env=facts["variables"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    run(turned, out / X86 / "decode_qdq.pt2", tmp_path / "other.pt2")
    said = run(script, "--pte", made.output(X86), "--reference", tmp_path / "other.pt2", "--tokens", "8")
    steps = json.loads(said.splitlines()[-1])["steps"]
    assert not any(step["cosine"] > 0.999 for step in steps), steps


def test_a_second_export_has_nothing_to_do(made: Rehearsal) -> None:
    before = made.output(HYBRID).stat()
    again = made.kz("export", HYBRID)
    assert again.returncode == 0 and "nothing to do" in again.stdout, again.stdout
    assert made.output(HYBRID).stat().st_mtime_ns == before.st_mtime_ns


def test_nothing_of_qualcomms_is_in_what_was_made(made: Rehearsal) -> None:
    """Neither in the project, nor as a copy in the store's layout: links into the one unpacked wheel."""
    libraries = [p for p in made.root.rglob("libQnn*") if p.is_file()]
    assert not libraries, libraries
    folder = Path(json.loads(made.kz("env", HYBRID, "--json").stdout)["places"]["qnn-host"])
    assert all(p.is_symlink() for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())
    assert (folder / "lib/x86_64-linux-clang/libQnnHtp.so").resolve().is_file()


def test_a_device_of_the_pinned_qnn_does_not_get_it(made: Rehearsal) -> None:
    from kz_build.core.errors import DeviceError
    from kz_build.device.context_guard import check_fit
    from kz_build.device.push import items

    for name in RECIPES:
        with pytest.raises(DeviceError, match=rf"forbids devices with {PINNED}"):
            check_fit(items([made.output(name)]))


def test_another_version_of_qnn_is_recognised(made: Rehearsal) -> None:
    """2.6.0 of the same wheel, by pins.local.yaml: the same licence, and it does not understand ExecuTorch 1.5.1."""
    local = made.root / "pins.local.yaml"
    local.write_text("lines: {et-1.5: {qnn-host: 2.6.0}}\n")
    try:
        refused = made.kz("env", KV)
        assert refused.returncode == 6 and "your acceptance of the licence of qnn-host" in refused.stderr, (
            refused.stderr
        )
        scratch = {"KZ_CONFIG": str(made.root / "config")}
        assert made.kz("accept", "qnn-host", "--yes", **scratch).returncode == 0
        done = made.kz("env", KV, **scratch)
    finally:
        local.unlink()
    assert done.returncode == 6, done.stderr
    assert "14001, unknown custom config socModel" in done.stderr and "qnn-host 2.6.0" in done.stderr, done.stderr
    assert "pins.yaml" in done.stderr and "failed.log" in done.stderr
