"""`kz env` on an open network: the environment of a line's own recipe, from an empty store, with nothing installed by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kz_build.export.requirements import canonical, locked
from tests.conftest import ROOT, Kz
from tests.network import archives
from tests.network.project import INDEX, PACKAGES, PYTORCH, Played
from tests.network.proxy import Network
from tests.network.test_open_network import alone_with
from tests.stack.made_up import sha

RECIPE, SET = "qwen3-4b-qnn-hybrid", "recipes/requirements/et-1.2-qnn.txt"
PATCH = """From: Us <us@our>
Date: Thu, 1 Jan 2026 12:00:00 +0000
Subject: [PATCH] import beside torchao 0.16

---
diff --git a/torchtune/__init__.py b/torchtune/__init__.py
--- a/torchtune/__init__.py
+++ b/torchtune/__init__.py
@@ -1 +1,2 @@
 import torchao
+PATCHED = True
"""
MODULES = {
    "torchtune": {"torchtune/__init__.py": "import torchao\n"},
    "executorch": {f"executorch/{name}/__init__.py": "" for name in ("exir", "runtime")},
}
pytestmark = [pytest.mark.reproduce, pytest.mark.skipif(not shutil.which("openssl"), reason="apt install openssl")]


def with_stand_ins(played: Played) -> tuple[list[str], list[str]]:
    """Put a stand-in of each package of the set, and of torchtune, on its index; give their pages and files."""
    file, pages, files = played.root / SET, [], []
    text = file.read_text()
    for one in (*locked(text), *locked("torchtune==0.6.1\n")):
        name = one.name.replace("-", "_")
        data = archives.wheel(name, one.version, MODULES.get(one.name, {f"{name}/__init__.py": ""}))
        url = f"{PYTORCH if '+' in one.version else PACKAGES}/{name}-{one.version}-py3-none-any.whl"
        page = f"{PYTORCH if '+' in one.version else INDEX}/{canonical(one.name)}/"
        played.network.put(url.replace("+", "%2B"), data)
        played.network.put_index(page, [(url.replace("+", "%2B"), sha(data))])
        pages.append(page)
        files.append(url.replace("+", "%2B"))
        text = text.replace(one.text, f"{one.name}=={one.version} \\\n    --hash=sha256:{sha(data)}\n")
        if one.name == "torchtune":
            played.lock["lines"]["et-1.2"]["torchtune"] |= {"sha256": sha(data), "size": len(data)}
    file.write_text(text)
    return pages, files


def test_the_environment_of_a_recipe(kz: Kz, clean_env: dict[str, str], tmp_path: Path) -> None:
    network = Network(tmp_path)
    played = Played(tmp_path / "clone", network)
    subprocess.run(["cp", "-a", ROOT / "recipes", played.root], check=True)
    stack = played.root / "patches/et-1.2/torchtune"
    stack.mkdir()
    (stack / "series").write_text("0001.patch\n")
    (stack / "0001.patch").write_text(PATCH)
    pages, files = with_stand_ins(played)
    (played.root / "pins.lock").write_text(json.dumps(played.lock))
    with network.served():
        alone = alone_with(played, clean_env, tmp_path / "store")
        done = kz(
            "-C", played.root, "lock", "--write", "--line", "et-1.2", **{**alone, "KZ_CACHE": str(tmp_path / "other")}
        )
        assert done.returncode == 0, done.stderr  # as a person who pins does
        network.asked.clear()
        done = kz("-C", played.root, "env", RECIPE, **alone)
        assert done.returncode == 0, done.stdout + done.stderr
    # Besides the packages: the SDK, which nobody installed, and what of upstream's examples goes over its wheel.
    on_both = {page.replace(PYTORCH, INDEX) for page in pages} | {page.replace(INDEX, PYTORCH) for page in pages}
    assert network.asked >= {*pages, *files}
    assert network.asked - on_both - set(files) == {
        "https://github.com/pytorch/executorch/git-upload-pack",
        "https://github.com/pytorch/executorch/info/refs",
        played.lock["lines"]["et-1.2"]["qnn-sdk"]["url"],
    }
    assert f"qnn-sdk             {tmp_path / 'store'}" in done.stdout, done.stdout
    assert "torchtune           0.6.1+kz.g" in done.stdout
    again = kz("-C", played.root, "env", RECIPE, **{**alone, "HTTPS_PROXY": "http://127.0.0.1:9"})
    assert again.returncode == 0 and "environment of qwen3-4b-qnn-hybrid: there" in again.stdout, (
        again.stdout + again.stderr
    )
