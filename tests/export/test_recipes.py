"""Recipes: the shipped ones are whole, wrong ones are told all at once, and what a machine is asked."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from kz_build.checks.contract_files import read_contract
from kz_build.core.errors import ConfigError
from kz_build.core.validation import json_schema
from kz_build.export import requirements
from kz_build.export.load import named, recipes
from kz_build.export.plan import plan
from kz_build.export.preflight import preflight, weights_place
from kz_build.export.preflight_rules import disk, glibc, memory, python
from kz_build.export.recipe import Amount, RecipeFile
from kz_build.formats.pte_types import newer
from kz_build.formats.qnn_maven import maven_version
from kz_build.formats.soc import ARCH, BY_NUMBER, SOCS, Soc, has_fp16
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from tests.conftest import ROOT

WANTED = {
    "qwen3-4b-qnn-hybrid",
    "qwen3-4b-qnn-kv",
    "qwen3-4b-xnnpack-8da4w",
    "qwen3-0.6b-xnnpack-8da4w",
    "llama3.2-3b-qlora-xnnpack",
    "llama3.2-3b-qlora-vulkan",
    "llama3.2-1b-vulkan",
    "tiny-qwen3-xnnpack",
    "tiny-qwen3-vulkan",
    "qwen3-1.7b-mllm-qnn-aot",
    "tiny-llama-qnn-hybrid",
    "tiny-llama-qnn-kv",
    "tiny-llama-qnn-2shard",
    "tiny-llama-qnn-x86",
    "tiny-qwen3-4b-qnn-hybrid",
}
GB = 10**9


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    return load_project(tmp_path)


def test_the_shipped_recipes(project: Project) -> None:
    found = {one.name: one for one in recipes(project.root, project.pins)}
    assert set(found) >= WANTED
    for one in found.values():
        assert one.needs.memory.source and all(of.source for of in one.needs.disk.values()), one.name
        assert one.contract == read_contract(project.root / "recipes" / f"{one.name}.yaml", project.root), (
            "as `kz pte` reads it"
        )
        if one.line:
            made = [path for stage in one.command for path in stage.makes]
            assert any(path.endswith(".pte") for path in made), one.name
    hybrid = found["qwen3-4b-qnn-hybrid"]
    assert hybrid.contract.methods == ("kv_forward", "prefill_forward")
    assert ARCH[hybrid.contract.soc] == hybrid.contract.htp_arch
    assert (hybrid.needs.memory.low, hybrid.needs.memory.high, hybrid.needs.minutes) == (46, 59, [30, 73])
    assert found["tiny-qwen3-xnnpack"].contract.executorch == "1.5.1"


def test_mllm_names_its_stages_op_packages_and_trap(project: Project) -> None:
    one = named(project.root, project.pins, "qwen3-1.7b-mllm-qnn-aot")
    assert [stage.name for stage in one.command if stage.where == "host"] == ["quantize", "convert", "compile"]
    packages = [name for name in one.device.values() if "LLaMAPackage" in name]
    assert packages == ["libQnnLLaMAPackage_CPU.so", "libQnnLLaMAPackage_HTP.so"]
    assert any("HtpUnsignedPd" in trap.text for trap in one.traps)


def wrong(project: Project, *changes: tuple[str, str], name: str = "qwen3-4b-qnn-hybrid") -> list[str]:
    path = project.root / "recipes" / f"{name}.yaml"
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        recipes(project.root, project.pins)
    assert error.value.exit_code == 2
    return [str(problem) for problem in error.value.problems]


def test_a_soc_that_the_pinned_executorch_does_not_know_is_refused(project: Project) -> None:
    path, older = project.root / "recipes/qwen3-4b-qnn-hybrid.yaml", project.root / "pins.yaml"
    path.write_text(path.read_text().replace("SM8750", "SM8850").replace("htp_arch: v79", "htp_arch: v81"))
    named(project.root, project.pins, path.stem)
    older.write_text(older.read_text().replace("executorch: v1.2.0", "executorch: v1.0.1"))
    with pytest.raises(ConfigError) as error:
        named(project.root, load_project(project.root, local=False).pins, path.stem)
    assert "ExecuTorch has SM8850 since 1.1.0, and et-1.2 has v1.0.1" in str(error.value)


def test_a_qnn_without_the_socs_htp_architecture_is_refused(project: Project) -> None:
    pins = project.root / "pins.yaml"
    pins.write_text(pins.read_text().replace("qnn-sdk: 2.42.0.251225", "qnn-sdk: 2.29.0.241129", 1))
    with pytest.raises(ConfigError) as error:
        named(project.root, load_project(project.root, local=False).pins, "qwen3-4b-qnn-hybrid")
    assert "QNN has HTP v79 since 2.30.0, and et-1.2 has 2.29.0.241129: it cannot compile for SM8750" in str(
        error.value
    )


def test_the_table_of_socs_is_upstreams() -> None:
    """As `git show v1.4.1:backends/qualcomm/serialization/qc_schema.py` has it, where upstream's history is there."""
    assert (SOCS["SM8750"], SOCS["SA8797"]) == (Soc(69, "v79", 8, "0.6.0"), Soc(72, "v81", 16, "1.2.0"))
    assert len(BY_NUMBER) == len(SOCS) and not has_fp16("QCM6490") and has_fp16("SM8750")
    assert [maven_version(qnn) for qnn in ("2.49.40.260810", "2.37.0.250724", "2.36.1.250708", "2.1.0")] == [
        "2.49.0", "2.37.0", "", None,
    ]  # fmt: skip


CASES = {
    "unknown field": (("about:", "abuot: x\nabout:"), "abuot: unknown key; did you mean about?"),
    "unknown contract key": (("kv_bits: 8", "kv_bit: 8"), "contract.kv_bit: unknown key; did you mean kv_bits?"),
    "no such line": (("line: et-1.2", "line: et-9"), "line: there is no line 'et-9' in pins.yaml"),
    "no such source": (("inside: executorch", "inside: exec"), "command.0.inside: 'exec' is not a source of et-1.2"),
    "placeholder": (("--build_folder={out}", "--build_folder={uot}"), "command.0.run.2: {uot} is not one of"),
    "SoC and arch": (("htp_arch: v79", "htp_arch: v75"), "contract.htp_arch: SM8750 has v79"),
    "SoC and command": (("--model=SM8750", "--model=SM8650"), "exports for SM8650, and the contract says SM8750"),
    "unknown SoC": (("soc: SM8750", "soc: SM9999"), "contract.soc: unknown SoC SM9999; known: QCM6490 "),
    "range": (("[46, 59]", "[59, 46]"), "gb must be [at least, at most]"),
    "Python": (('python: ">=3.11,<3.13"', 'python: ">=3.11 <3.13"'), "needs.python: invalid specifier: '>=3.11 <3.13'"),
    "digest": (("config.json: 8", "config.json: abc # 8"), "weights.Qwen3-4B.digests.config.json: "),
    "whose": (("line: et-1.2\n", ""), "a recipe needs one of: line, upstream"),
    "weights": (("    repository: Qwen/Qwen3-4B\n", ""), "weights need one of: repository, random, content, tokenizer"),
    "unpinned SDK": (("{qnn-sdk: pinned}", "{qnn-sdkk: pinned}"), "needs.sdk.qnn-sdkk: is not pinned"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said_with_file_and_line(project: Project, case: str) -> None:
    change, expected = CASES[case]
    said = wrong(project, change)
    assert any(re.match(r"recipes/qwen3-4b-qnn-hybrid\.yaml:\d+: ", p) and expected in p for p in said), said


def test_all_problems_of_all_recipes_at_once(project: Project) -> None:
    (project.root / "recipes" / "second.yaml").write_text("about: x\nneeds: []\n")
    said = wrong(project, ("kv_bits: 8", "kv_bits: 9"), ("about:", "abuot: 1\nabout:"))
    line = (project.root / "recipes" / "qwen3-4b-qnn-hybrid.yaml").read_text().splitlines().index("abuot: 1") + 1
    assert any(p.startswith(f"recipes/qwen3-4b-qnn-hybrid.yaml:{line}: abuot: unknown key") for p in said)
    assert any("contract.kv_bits" in p for p in said)
    assert any(p.startswith("recipes/second.yaml:2: needs: ") for p in said)
    assert any("recipes/second.yaml" in p and "command: is missing" in p for p in said)


def test_a_recipe_that_leads_to_a_device_is_not_read(project: Project) -> None:
    (project.root / "recipes" / "second.yaml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="is not a regular file"):
        recipes(project.root, project.pins)


@pytest.mark.parametrize("name", ["list", "show", "preflight"])
def test_a_recipe_is_not_named_like_an_action_of_kz_export(project: Project, name: str) -> None:
    folder = project.root / "recipes"
    (folder / "tiny-qwen3-xnnpack.yaml").rename(folder / f"{name}.yaml")
    with pytest.raises(ConfigError) as error:
        recipes(project.root, project.pins)
    (problem,) = error.value.problems
    assert f"recipes/{name}.yaml" in str(problem) and f"a recipe cannot be named {name}" in str(problem)


def test_a_name_that_is_nearly_one(project: Project) -> None:
    with pytest.raises(ConfigError, match="did you mean tiny-qwen3-vulkan"):
        named(project.root, project.pins, "tiny-qwen-vulkan")
    with pytest.raises(ConfigError, match="there is no recipe"):
        named(project.root, project.pins, "../pins")


def test_the_schema_in_the_repository_is_the_one_the_code_makes() -> None:
    assert json.loads((ROOT / "recipes.schema.json").read_text()) == json.loads(json.dumps(json_schema(RecipeFile)))


def test_a_shape_of_random_weights_is_what_upstream_calls_its_fields() -> None:
    """The tiny model has the fields of upstream's own files for Qwen3 (examples/models/qwen3/config at v1.2.0)."""
    content = yaml.safe_load((ROOT / "recipes" / "tiny-qwen3-xnnpack.yaml").read_text())["weights"]["tiny-qwen3.json"][
        "content"
    ]
    assert content["n_heads"] % content["n_kv_heads"] == 0
    assert isinstance(content["norm_eps"], float) and isinstance(content["rope_theta"], float)


FOUR_B = Amount(gb=(46, 59), source="the team")


@pytest.mark.parametrize(
    ("ram", "swap", "status"), [(64, 0, "PASS"), (24, 36, "PASS"), (32, 16, "WARN"), (45, 0, "FAIL"), (24, 8, "FAIL")]
)
def test_memory_is_ram_and_swap_together(ram: int, swap: int, status: str) -> None:
    check = memory(FOUR_B, ram * GB, swap * GB, "/data", 500 * GB)
    assert check.status == status
    if status != "PASS":
        assert f"fallocate -l {59 - ram - swap + 1}G /data/kz-swap" in check.fix[0]
        assert "mkswap" in check.fix[0] and "swapoff" in check.fix[1]


def test_a_swap_file_that_does_not_fit_is_said() -> None:
    assert "only 10 GB free" in memory(FOUR_B, 24 * GB, 0, "/", 10 * GB).fix[0]


def test_memory_that_nobody_measured() -> None:
    need = Amount(gb=(16.1, None), source="fp32")
    assert memory(need, 24 * GB, 0, "/", 0).status == "PASS"
    assert "nobody measured the most" in memory(need, 24 * GB, 0, "/", 0).evidence
    assert memory(need, 8 * GB, 0, "/", 0).status == "FAIL"


def test_disks() -> None:
    need = Amount(gb=(25, None), source="the team")
    assert disk("{out}", need, 30 * GB, "/", "ext4", "-C DIR").status == "PASS"
    assert disk("{out}", need, 20 * GB, "/", "ext4", "-C DIR").status == "FAIL"
    tmpfs = disk("/tmp", need, 300 * GB, "/tmp", "tmpfs", "TMPDIR")
    assert tmpfs.status == "FAIL" and "tmpfs" in tmpfs.evidence and "TMPDIR" in tmpfs.fix[0]


def test_versions() -> None:
    assert glibc("2.35", "2.36").status == "PASS"
    assert glibc("2.35", "2.4").status == "FAIL"
    assert glibc("2.35", "").status == "FAIL"
    assert python(">=3.10,<3.13", [("3.13.1", "python3"), ("3.12.3", "python3.12")]).evidence.startswith("python3.12")
    assert python(">=3.10,<3.13", [("3.13.1", "python3"), ("3.9.2", "python3.9")]).status == "FAIL"
    assert python(">=3.10,<3.13", [("3.10.0", "python3")]).status == "PASS"


@pytest.mark.parametrize(
    ("need", "fits", "other"),
    [
        ("<=3.12", "3.12.0", "3.13.1"),
        (">3.10", "3.11.2", "3.10.0"),
        ("!=3.11.4", "3.11.5", "3.11.4"),
        ("~=3.11", "3.12.1", "4.0"),
        ("==3.11.*", "3.11.9", "3.12.0"),
        (">=3.12", "3.12.1+", "3.12.0rc1"),
    ],
)
def test_every_kind_of_range(need: str, fits: str, other: str) -> None:
    assert python(need, [(fits, "python3")]).status == "PASS"
    assert python(need, [(other, "python3")]).status == "FAIL"


def test_requirements_are_compared_as_versions() -> None:
    text = "Torch[cpu] == 2.13.0+cpu  # why\nao==0.17; python_version < '4'\nany_one>=2,<5\nof==1.*\n"
    asked = {one.name: one.version for one in requirements.locked(text)}
    assert asked == {"torch": "2.13.0+cpu", "ao": "0.17"}
    text = "".join(f"{one} \\\n    --hash=sha256:{'0' * 64}\n" for one in ("torch==2.13.0+cpu", "ao==0.17.0"))
    locked = requirements.locked(f"--index-url https://x\n# by hand\n{text}")
    assert [(one.name, one.version) for one in locked] == [("torch", "2.13.0+cpu"), ("ao", "0.17.0")]
    assert "".join(one.text for one in locked).strip() == text.strip()
    assert requirements.mismatches(asked, locked, {"torch": "2.13", "ao": "0.17.0"}, frozenset()) == []
    said = requirements.mismatches(asked, locked, {"torch": "2.13.0+cu130", "ao": "0.17.1"}, frozenset())
    assert [one.partition(" is ")[0] for one in said] == ["torch 2.13.0+cpu", "ao 0.17"]
    with pytest.raises(ConfigError, match="'torch=2' is not a requirement"):
        requirements.package_names("torch=2\n")


def test_every_rehearsal_says_which_devices_it_is_not_for(project: Project) -> None:
    """Their QNN is newer than what the lines have for devices, and no other recipe uses it."""
    pinned = {project.pins.line(line)["qnn-sdk"] for line in project.pins.lines if "qnn-sdk" in project.pins.line(line)}
    rehearsals = [one for one in recipes(project.root, project.pins) if "qnn-host" in one.needs.sdk]
    assert len(rehearsals) == 5
    for one in rehearsals:
        assert {one.contract.newer_than} == pinned and newer(one.contract.qnn, one.contract.newer_than), one.name
        assert any("must not" in trap.text or "refuses it" in trap.text for trap in one.traps), one.name
        assert one.needs.libraries and one.needs.glibc == "2.35" and one.name.startswith("tiny-")


def test_no_locked_set_went_back_to_a_transformers_without_qwen3() -> None:
    """A resolver does that rather than take an older huggingface-hub, and the tokenizers of that time have no wheels."""
    sets = [path.read_text() for path in (ROOT / "recipes" / "requirements").glob("*.txt")]
    found = [match[1].split(".") for text in sets for match in re.finditer(r"(?m)^transformers==(\S+)", text)]
    assert len(found) == 3 and all((int(major), int(minor)) >= (4, 51) for major, minor, *_ in found)


def test_the_commands_of_a_preflight_can_be_pasted_where_a_folder_has_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rm -r /home/me/my cache/x` would remove /home/me/my."""
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "my cache"))
    project = load_project(ROOT)
    for name, word in (("llama3.2-1b-vulkan", "{0}"), ("qwen3-4b-qnn-kv", "HF_HOME={1}")):
        recipe = named(ROOT, project.pins, name)
        ((weights, of),) = recipe.weights.items()
        place, fetch = weights_place(project, recipe, weights, of)
        assert word.format(place, project.store / "weights") in shlex.split(fetch), fetch
    for file in of.digests:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(b"another")
    checks = {one.name: one for one in preflight(project, plan(project, name)).checks}
    assert shlex.split(checks[f"weights {weights}"].fix[0]) == ["rm", "-r", str(place)]
    (swap, _) = memory(Amount(gb=(16, 16), source="x"), GB, 0, "/mnt/my disk", 100 * GB).fix
    assert shlex.split(swap).count("/mnt/my disk/kz-swap") == 4
