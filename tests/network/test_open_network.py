"""On an open network: what kz asks for, every address by its real name, and the way from a clone to the app's library.

Stand-ins are at these addresses, so their digests are in the place of the real ones; all else of pins.yaml and pins.lock is real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kz_build.core.progress import quiet
from kz_build.pins.load import load_project
from kz_build.sources import preflight
from kz_build.sources.download import fetched_file
from tests.conftest import ROOT, SAMPLE, Kz
from tests.network.project import INDEX, LINES, PACKAGES, Played
from tests.network.proxy import Network
from tests.stack.made_up import sha

FILES = f"""
https://dl.google.com/android/repository/android-ndk-r28c-linux.zip
https://download-r2.pytorch.org/whl/cpu/torch-2.11.0%2Bcpu-cp312-cp312-manylinux_2_28_x86_64.whl
https://download.pytorch.org/whl/cpu/torch/
{PACKAGES}/cmake-3.31.10-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
{PACKAGES}/ninja-1.13.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
{PACKAGES}/pyyaml-6.0.3-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl
{PACKAGES}/typing_extensions-4.15.0-py3-none-any.whl
{INDEX}/cmake/
{INDEX}/ninja/
{INDEX}/pyyaml/
{INDEX}/typing-extensions/
https://repo1.maven.org/maven2/com/facebook/fbjni/fbjni/0.7.0/fbjni-0.7.0.aar
https://softwarecenter.qualcomm.com/api/download/software/sdks/Qualcomm_AI_Runtime_Community/All/2.42.0.251225/v2.42.0.251225.zip
"""
REPOSITORIES = """
https://github.com/ARM-software/kleidiai
https://github.com/Maratyszcza/FXdiv.git
https://github.com/PCRE2Project/pcre2.git
https://github.com/abseil/abseil-cpp.git
https://github.com/dvidelabs/flatcc.git
https://github.com/gflags/gflags.git
https://github.com/google/XNNPACK.git
https://github.com/google/flatbuffers.git
https://github.com/google/pthreadpool.git
https://github.com/google/re2.git
https://github.com/google/sentencepiece.git
https://github.com/meta-pytorch/tokenizers.git
https://github.com/mreineck/pocketfft
https://github.com/nlohmann/json.git
https://github.com/pytorch/ao.git
https://github.com/pytorch/cpuinfo.git
https://github.com/pytorch/executorch
https://github.com/zherczeg/sljit.git
https://gitlab.com/libeigen/eigen.git
"""
ADDRESSES = sorted(
    [*FILES.split(), *(f"{url}/{end}" for url in REPOSITORIES.split() for end in ("info/refs", "git-upload-pack"))]
)
"""All that the default build asks for. Nothing of Vulkan or pybind11, which no Android target uses, nor what ao links."""
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="apt install openssl")
_SET_ASIDE = ("PIP_", "UV_", "GIT_", "SSL_", "NOX", "DOCKER_")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests may answer late."""
    monkeypatch.setattr(preflight, "PROBE_SECONDS", 60.0)


def alone_with(played: Played, clean_env: dict[str, str], store: Path) -> dict[str, str]:
    """The environment of a user who has an empty store and nothing but this network."""
    kept = {k: v for k, v in clean_env.items() if not k.startswith(_SET_ASIDE) and not k.lower().endswith("_proxy")}
    own = {"HOME": str(store.parent), "KZ_CACHE": str(store)} | dict.fromkeys(
        ("PIP_CONFIG_FILE", "GIT_CONFIG_GLOBAL"), os.devnull
    )
    return {**kept, **played.network.environment, **own}


@pytest.mark.parametrize("line", [LINES[0], *(pytest.param(line, marks=pytest.mark.reproduce) for line in LINES[1:])])
def test_a_fetch_asks_for_these_addresses_and_no_other(
    kz: Kz, clean_env: dict[str, str], tmp_path: Path, line: str
) -> None:
    played = Played(tmp_path / "clone", Network(tmp_path), lines=(line,))
    with played.network.served():
        alone = alone_with(played, clean_env, tmp_path / "store")
        done = kz("-C", played.root, "fetch", "--line", line, **alone)
        assert done.returncode == 0, done.stdout + done.stderr
        if line == "et-1.2":
            assert sorted(played.network.asked) == ADDRESSES
        # What a target without Qualcomm's SDK uses is a part of that, so now it is all there.
        played.network.asked.clear()
        done = kz("-C", played.root, "fetch", "--line", line, "--target", "android-arm64-xnnpack", **alone)
        assert (done.returncode, played.network.asked) == (0, set()), done.stdout + done.stderr


@pytest.mark.reproduce
def test_one_command_from_a_clone_to_the_audited_library(
    built: Path, clean_env: dict[str, str], store: Path, tmp_path: Path
) -> None:
    """`nox -s build_android`, but for the installation of kz's own requirements. The compiler is zig, as in the sample."""
    sample, ours = load_project(SAMPLE), load_project(ROOT)
    zig = fetched_file(sample._replace(store=store), "sample-0.1", sample.pins.source("ziglang"), quiet)
    programs = {
        name: fetched_file(ours._replace(store=store), "et-1.2", ours.pins.source(name), quiet)
        for name in ("cmake", "ninja")
    }
    wheels = {
        str((ours.lock.entry("et-1.2", name) or {})["file"]): path.read_bytes() for name, path in programs.items()
    }
    program = next(store.glob(f"unpacked/{zig.name}*/ziglang/zig"))
    played = Played(tmp_path / "clone", Network(tmp_path), program, store / "zig", wheels)
    stamp = played.root / ".nox/build_android/tmp/installed"  # kz's own requirements are installed
    stamp.parent.mkdir(parents=True)
    stamp.write_text("".join((ROOT / name).read_text() for name in ("requirements/run.txt", "pyproject.toml")))
    kz = tmp_path / "bin" / "kz"
    kz.parent.mkdir()
    kz.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kz_build "$@"\n')
    kz.chmod(0o755)
    with played.network.served():
        alone = alone_with(played, clean_env, tmp_path / "store")
        alone |= {"PATH": f"{kz.parent}:{alone['PATH']}", "DOCKER_HOST": f"unix://{tmp_path}/none"}
        nox = [sys.executable, "-m", "nox", "-s", "build_android", "--no-venv", "--no-install"]
        done = subprocess.run(nox, cwd=played.root, env=alone, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(played.network.asked) == ADDRESSES
    record = json.loads((played.root / "out/audit/et-1.2/android-arm64-qnn/manifest.json").read_text())
    assert {check["status"] for check in record["checks"]} == {"PASS"}, record
    libraries = played.root / "dist/et-1.2/android-arm64-qnn/jniLibs/arm64-v8a"
    assert {path.name for path in libraries.iterdir()} >= {
        "libexecutorch.so",
        "libqnn_executorch_backend.so",
        "libfbjni.so",
    }


@pytest.mark.reproduce
def test_a_lock_fills_what_is_null_and_names_the_command_for_the_rest(
    kz: Kz, clean_env: dict[str, str], tmp_path: Path
) -> None:
    played = Played(tmp_path / "clone", Network(tmp_path), lines=("et-1.4",))
    aar = b"the AAR that nobody states a digest of"
    played.network.put(played.lock["lines"]["et-1.4"]["executorch-aar"]["url"], aar)
    assert "extension/llm/tokenizers tree" in nulls(played.lock["lines"]["et-1.4"]["executorch"])
    with played.network.served():
        alone = alone_with(played, clean_env, tmp_path / "store")
        done = kz("-C", played.root, "lock", "--write", "--line", "et-1.4", **alone)
        assert done.returncode == 0, done.stderr
        entries = json.loads((played.root / "pins.lock").read_text())["lines"]["et-1.4"]
        assert nulls(entries) == ["executorch-aar sha256", "executorch-aar size", "fbjni size", "torchvision size"]
        assert "extension/llm/tokenizers/third-party/pcre2/deps/sljit" in entries["executorch"]["submodules"]
        note, command = next(row for row in done.stdout.splitlines() if row.startswith("note: ")).rsplit(": kz ", 1)
        assert note == "note: executorch-aar 1.4.1: its digest is left unknown, for only a download tells it"
        done = kz("-C", played.root, *command.split(), **alone)
        assert done.returncode == 0 and "note: " not in done.stdout, done.stdout + done.stderr
        entries = json.loads((played.root / "pins.lock").read_text())["lines"]["et-1.4"]
        assert (entries["executorch-aar"]["sha256"], entries["executorch-aar"]["origin"]) == (sha(aar), "computed")
        # The same sources fit the lock that knows more of them.
        done = kz("-C", played.root, "fetch", "--line", "et-1.4", **alone)
        assert done.returncode == 0, done.stderr


def nulls(facts: object, place: str = "") -> list[str]:
    """The place of each null, below the name of a submodule without what leads to it."""
    if isinstance(facts, dict):
        return [one for key, value in facts.items() for one in nulls(value, f"{place} {key}".strip())]
    return [place.removeprefix("submodules ")] if facts is None else []
