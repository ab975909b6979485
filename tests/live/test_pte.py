"""`kz pte` on the decoder that upstream keeps in its tree, by each of the lines: needs a network that reaches GitHub."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kz_build.formats.pte import read_pte
from tests.conftest import ROOT, Kz

pytestmark = pytest.mark.upstream
FILE = "examples/qualcomm/oss_scripts/llama/artifacts/stories260k_hybrid_llama_qnn.pte"
LINES = sorted(p.parent.name for p in (ROOT / "patches").glob("*/executorch"))


@pytest.mark.parametrize("line", LINES)
def test_upstreams_own_decoder(line: str, kz: Kz, tmp_path: Path) -> None:
    done = kz("apply", "--line", line, "--json")
    assert done.returncode == 0, done.stderr
    tree = next(t for t in json.loads(done.stdout)[line] if t["source"] == "executorch")
    git = ["git", f"--git-dir={tree['repository']}", "cat-file", "blob", f"{tree['base']}:{FILE}"]
    path = tmp_path / "stories.pte"
    path.write_bytes(subprocess.run(git, check=True, capture_output=True).stdout)
    found = read_pte(path)
    assert (found.mode, found.kv_bits, found.context_length, found.shards) == ("hybrid", 8, 128, 1)
    assert found.ar_lengths == (("prefill_forward", 32), ("kv_forward", 1))
    ((segment, context),) = found.contexts  # both methods are in one
    assert (segment, context.size, context.sdk) == (1, 1331200, "2.37.0.250724")
    assert {(d.qnn.soc, d.qnn.arch, d.qnn.vtcm_mb) for d in found.delegates if d.qnn} == {("SM8650", "v75", 8)}
    assert found.constant("get_n_layers") == 5
