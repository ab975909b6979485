"""`kz pte --contract --lib --soc` as a user types it: recipes that are wrong, libraries, the line that a dist is of."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from kz_build.checks.contract import Contract
from kz_build.checks.contract_files import read_contract
from kz_build.core.errors import AuditError, ConfigError
from kz_build.formats.library import read_library
from kz_build.formats.pte import parse
from kz_build.pins.load import executorch_of
from tests.conftest import ROOT, Kz
from tests.formats.ptes import Made, Method, Qnn, decoder, program, vulkan

XNNPACK = ROOT / "tests" / "data" / "pte" / "xnnpack.pte"
NEEDS = ("XnnpackBackend", "aten::embedding.out", "aten::sum.IntList_out")


def library(path: Path, *strings: str) -> Path:
    """The smallest arm64 library that holds these strings in its loaded data, without sections."""
    data = b"\0" + b"".join(text.encode() + b"\0" for text in strings)
    size = 64 + 56 + len(data)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 0x4000) + data)
    return path


def recipe(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text)
    return path


def test_a_contract_is_read_from_a_recipe_whatever_else_stands_in_it(tmp_path: Path) -> None:
    text = """
line: et-1.4
contract:
  methods: [kv_forward, prefill_forward]
  backends: [QnnBackend]
  runner: hybrid
  kv_bits: 8
  context_length: 1024
  shards: 1
  shared_buffer: true
  soc: SM8750
  htp_arch: v79
  qnn: 2.42.0.251225
  executorch: 1.4.1
"""
    assert read_contract(recipe(tmp_path, text), ROOT) == Contract(
        ("kv_forward", "prefill_forward"), ("QnnBackend",), "hybrid", 8, 1024, 1, True, "SM8750", "v79", "2.42.0.251225",
        executorch="1.4.1",
    )  # fmt: skip


def test_all_faults_of_a_contract_come_at_once_with_their_lines(tmp_path: Path) -> None:
    path = recipe(tmp_path, "line: x\ncontract:\n  kv_bits: 12\n  kvbits: 8\n  executorch: 1.4\n  runner: fast\n")
    with pytest.raises(ConfigError) as caught:
        read_contract(path, ROOT)
    said = str(caught.value)
    for words in ("r.yaml:3: contract.kv_bits", "r.yaml:4: contract.kvbits: unknown key", "r.yaml:6: contract.runner"):
        assert words in said, said
    assert "r.yaml:5: contract.executorch: must be text: quote it" in said
    assert (ROOT / caught.value.hint.split()[1]).is_file()


def test_pinned_is_what_the_line_of_the_recipe_has(tmp_path: Path) -> None:
    text = "line: {}\ncontract: {{executorch: pinned}}\n"
    assert read_contract(recipe(tmp_path, text.format("et-1.4")), ROOT).executorch == "v1.4.1"
    assert read_contract(recipe(tmp_path, text.format("et-1.5")), ROOT).executorch == "1.5.1"
    with pytest.raises(ConfigError, match="no line named 'et-9'"):
        read_contract(recipe(tmp_path, text.format("et-9")), ROOT)


@pytest.mark.parametrize("text", ["", "line: x\n", "contract: []\n", "- a\n"])
def test_a_file_without_a_contract_is_no_recipe(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="recipes are wrong"):
        read_contract(recipe(tmp_path, text), ROOT)


def test_a_library_that_registers_all_of_it_and_ones_that_do_not(tmp_path: Path, kz: Kz) -> None:
    done = kz("pte", XNNPACK, "--lib", library(tmp_path / "all.so", *NEEDS))
    assert done.returncode == 0, done.stderr
    assert "PASS  operators  all.so has its 2 operators" in done.stdout
    done = kz("pte", XNNPACK, "--lib", library(tmp_path / "few.so", "not_XnnpackBackend", *NEEDS[1:2], NEEDS[2] + "x"))
    assert done.returncode == 8
    assert "few.so does not register XnnpackBackend" in done.stdout
    assert "few.so lacks 1 of its 2 operators: aten::sum.IntList_out" in done.stdout
    assert done.stderr.splitlines()[-1] == "kz: exit 8 (device)"
    assert "will not load there: backends, operators" in done.stderr


def test_vulkans_missing_dequantize_is_said(tmp_path: Path, kz: Kz) -> None:
    graph = ["aten.add.Tensor", "torchao.dequantize_affine.default"]
    file = tmp_path / "v.pte"
    file.write_bytes(program([Method("forward", delegates=(Made("VulkanBackend", vulkan(graph)),))]))
    done = kz("pte", file, "--lib", library(tmp_path / "v.so", "VulkanBackend", graph[0]))
    assert done.returncode == 8
    assert "Vulkan in v.so lacks torchao.dequantize_affine.default" in done.stdout
    done = kz("pte", file, "--lib", library(tmp_path / "w.so", "VulkanBackend", *graph))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("strings", "width"),
    [
        (("N7example6RunnerItEE",), "16"),
        (("N7example6RunnerItEE", "N7example6RunnerIhEE", "get_kv_io_bit_width"), "by file"),
        (("N7example6RunnerE",), "by file"),
        (("forward",), ""),
    ],
)
def test_what_width_a_runner_takes_stands_in_its_types(tmp_path: Path, strings: tuple[str, ...], width: str) -> None:
    pte = parse(decoder(), "h.pte")
    assert read_library(library(tmp_path / "x.so", *strings), pte).kv_width == width


def test_a_dist_is_read_whole_with_its_line(tmp_path: Path, kz: Kz) -> None:
    shutil.copy(ROOT / "pins.yaml", tmp_path)
    dist = tmp_path / "dist" / "et-1.4" / "android-arm64-qnn"
    libs = dist / "jniLibs" / "arm64-v8a"
    library(libs / "libexecutorch.so", "N7example6RunnerE")
    library(libs / "libqnn_executorch_backend.so", "QnnBackend")
    library(libs / "libQnnHtp.so", "AISW_VERSION: x", "v2.42.0.251225112233_1")
    library(libs / "libQnnHtpV79Skel.so")
    (dist / "symbols").mkdir()
    (dist / "symbols" / "libexecutorch.so").write_bytes(b"not asked")
    file = tmp_path / "h.pte"
    file.write_bytes(decoder())
    contract = recipe(tmp_path, "contract: {runner: hybrid, kv_bits: 8, executorch: 1.4.1}\n")
    done = kz("pte", file, "--lib", dist, "--soc", "SM8750", "--contract", contract, "--json")
    assert done.returncode == 0, done.stderr
    answers = {c["check"]: (c["status"], c["evidence"]) for c in json.loads(done.stdout)["checks"]}
    assert {status for status, _ in answers.values()} == {"PASS"}, answers
    assert answers["executorch"][1] == "ExecuTorch 1.4.1 exports it and android-arm64-qnn is v1.4.1"
    assert answers["qnn"][1].endswith("android-arm64-qnn has 2.42.0.251225")
    found = read_library(dist, parse(file.read_bytes(), "h.pte"), executorch_of(dist))
    assert (found.executorch, found.skels, found.backends) == ("v1.4.1", frozenset({"v79"}), frozenset({"QnnBackend"}))

    file.write_bytes(decoder(qnn=[Qnn("SM8650", sdk="2.49.40.260810104044")]))
    done = kz("pte", file, "--lib", dist, "--soc", "SM8650", "--contract", contract)
    assert done.returncode == 8
    assert "android-arm64-qnn has the skel of v79" in done.stdout and "(err 5000)" in done.stdout


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    pte = parse(decoder(), "h.pte")
    with pytest.raises(ConfigError, match="is not a library"):
        read_library(tmp_path, pte)
    with pytest.raises(ConfigError, match="is not a library"):
        read_library(tmp_path / "none.so", pte)
    (tmp_path / "x.so").write_bytes(b"hello")
    with pytest.raises(AuditError, match="not an ELF"):
        read_library(tmp_path, pte)


def test_a_wrong_soc_and_a_damaged_file_have_their_exit_codes(tmp_path: Path, kz: Kz) -> None:
    assert kz("pte", XNNPACK, "--soc", "SM9999").returncode == 2
    assert kz("pte", tmp_path / "none.pte").returncode == 2
    (tmp_path / "cut.pte").write_bytes(XNNPACK.read_bytes()[:-100])
    done = kz("pte", tmp_path / "cut.pte")
    assert done.returncode == 8 and "cut off" in done.stderr
