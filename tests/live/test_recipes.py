"""Every flag that a recipe passes exists in upstream's own script, at the line's pin."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kz_build.export.load import recipes
from kz_build.export.recipe import Recipe
from kz_build.pins.load import load_project
from tests.conftest import ROOT

pytestmark = pytest.mark.upstream
LLAMA = "examples/qualcomm/oss_scripts/llama/llama.py"
# Where the options stand that upstream's examples share; it moved.
COMMON = {"et-1.2": "examples/qualcomm/utils.py", "et-1.5": "backends/qualcomm/export_utils.py"}
CONFIG = "extension/llm/export/config/llm_config.py"
# The line of wheels alone: the release of the repository that is nearest to 1.5.1.
NEAREST = {"et-1.5": "v1.4.1"}


@pytest.fixture(scope="module")
def all_recipes() -> tuple[Recipe, ...]:
    return recipes(ROOT, load_project(ROOT).pins)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone(tmp_path_factory.mktemp("executorch"), "https://github.com/pytorch/executorch")


def clone(folder: Path, url: str) -> Path:
    done = subprocess.run(
        ["git", "clone", "-q", "--bare", "--filter=blob:none", "--no-tags", "--single-branch", url, folder],
        capture_output=True,
    )
    if done.returncode:
        pytest.skip(f"{url} cannot be reached: {done.stderr.decode().splitlines()[-1]}")
    return folder


def text(repository: Path, revision: str, path: str) -> str:
    def show() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", f"--git-dir={repository}", "show", f"{revision}:{path}"], capture_output=True)

    done = show()
    if done.returncode:
        ref = f"refs/tags/{revision}" if revision.startswith("v") else revision
        fetch = [
            "git",
            f"--git-dir={repository}",
            "fetch",
            "-q",
            "--depth=1",
            "--filter=blob:none",
            "origin",
            f"{ref}:refs/at/{revision}",
        ]
        subprocess.run(fetch, check=True, capture_output=True)
        done = subprocess.run(
            ["git", f"--git-dir={repository}", "show", f"refs/at/{revision}:{path}"], capture_output=True
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def options(source: str) -> set[str]:
    """What `add_argument` calls of a script name."""
    calls = [
        n
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "add_argument"
    ]
    return {a.value for call in calls for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}


def config_keys(source: str) -> set[str]:
    """`group.field` of the dataclasses of llm_config.py."""
    classes = {n.name: n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)}

    def fields(name: str) -> dict[str, str]:
        body = [n for n in classes[name].body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        return {n.target.id: ast.unparse(n.annotation) for n in body}  # type: ignore[union-attr]

    def walk(name: str, prefix: str) -> set[str]:
        found = set()
        for field, kind in fields(name).items():
            found |= walk(kind, f"{prefix}{field}.") if kind in classes and fields(kind) else {f"{prefix}{field}"}
        return found

    return walk("LlmConfig", "")


def flags(argv: Sequence[str]) -> list[str]:
    return [word.split("=")[0] for word in argv if re.match(r"--?[a-zA-Z]", word) and word not in ("-m", "-c", "-P")]


def test_flags_of_llama_py(all_recipes: tuple[Recipe, ...], upstream: Path) -> None:
    seen = 0
    for one in all_recipes:
        for stage in one.command:
            if any(word == LLAMA or "oss_scripts.llama" in word for word in stage.run):
                seen += 1
                pin = load_project(ROOT).pins.line(one.line).get("executorch") or NEAREST[one.line]
                known = set().union(*(options(text(upstream, pin, path)) for path in (LLAMA, COMMON[one.line])))
                assert set(flags(stage.run)) <= known, one.name
    assert seen >= 6


def test_options_of_export_llm(all_recipes: tuple[Recipe, ...], upstream: Path) -> None:
    seen = 0
    for one in all_recipes:
        for stage in one.command:
            if not any(word.endswith("export_llm") for word in stage.run):
                continue
            seen += 1
            pins = load_project(ROOT).pins.line(one.line)
            pin = pins.get("executorch") or NEAREST[one.line]
            known = config_keys(text(upstream, pin, CONFIG))
            asked = {m[1] for word in stage.run if (m := re.match(r"\+?([a-z_]+\.[a-z_.]+)=", word))}
            assert len(asked) >= 3 and asked <= known, (one.name, asked - known)
            for word in (w for w in stage.run if w.startswith("examples/") or ("=examples/" in w)):
                assert text(upstream, pin, word.rpartition("=")[2]), word
    assert seen >= 6


def test_flags_of_mllm(all_recipes: tuple[Recipe, ...], tmp_path: Path) -> None:
    one = next(r for r in all_recipes if "mllm" in r.name)
    assert one.upstream
    repository, commit = clone(tmp_path / "mllm", one.upstream.git), one.upstream.commit
    sources = {
        "quantize": one.command[0].run[1],
        "convert": "pymllm/mobile/utils/mllm_convertor.py",
        "compile": "examples/qwen3_qnn_aot/compile_sha.cpp",
        "run": "examples/qwen3_qnn_aot/aot_run.cpp",
    }
    for stage in one.command:
        source = text(repository, commit, sources[stage.name])
        for flag in (w.split("=")[0] for w in stage.run if re.match(r"--?[a-z]", w)):
            assert re.search(rf'["|]{re.escape(flag)}["|]', source), (stage.name, flag)
    assert "libQnnLLaMAPackage_HTP.so" in text(repository, commit, "docs/qnn_backend/aot_execute.rst")
    assert '"HtpSignedPd"' in text(repository, commit, "examples/qwen3_qnn_aot/qnn_aot_cfg_1.7B.json")


# Where upstream's runners define their flags.
RUNNERS = {
    "./qnn_llama_runner": "examples/qualcomm/oss_scripts/llama/qnn_llama_runner.cpp",
    "./llama_main": "examples/models/llama/main.cpp",
}


@pytest.mark.parametrize("line", ["et-1.2", "et-1.3", "et-1.4"])
def test_every_flag_of_a_device_run_is_known_to_its_runner(upstream: Path, line: str) -> None:
    pins = load_project(ROOT).pins
    devices = [pins.target(name, line)["device"] for name in pins.targets]
    runs = [[*device["run"], *device["timed"]] for device in devices if device and device["run"]]
    assert {run[0] for run in runs} == set(RUNNERS)
    for run in runs:
        source = text(upstream, pins.line(line)["executorch"], RUNNERS[run[0]])
        known = set(re.findall(r"\bDEFINE_(?:string|bool|double|u?int32|u?int64)\(\s*(\w+)", source))
        given = {word[2:].partition("=")[0] for word in run[1:] if word.startswith("--")}
        assert given and not given - known, (line, run[0], given - known)
