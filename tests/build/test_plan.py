"""Plans of every shipped target: pure, whole, and keyed by content alone."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.build.plan import plan
from kz_build.build.steps import MAPPED, Ccache, Checkout, Command, Copy, Layout, Plan
from kz_build.core.errors import ConfigError
from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.sources.fetched import Fetched, TreeAt
from kz_build.sources.request import resolve_target
from tests.conftest import ROOT, Kz

TARGETS = (
    "android-arm64-qnn", "android-arm64-xnnpack", "android-x86_64-xnnpack", "android-arm64-vulkan", "linux-x86_64-qnn",
)  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))
    return load_project(ROOT, local=False)


def sources(project: Project, line: str, target: str, at: Path, tree: str) -> tuple[Fetched, ...]:
    found = []
    for name in project.pins.target(target, line)["sources"]:
        source, version = project.pins.source(name), project.pins.line(line)[name]
        if source.kind == "git":
            trees = (TreeAt("", at / "git", "c" * 40, tree), TreeAt("third-party/x", at / "git", "d" * 40, "b" * 40))
            found.append(Fetched(name, "git", version, f"commit {'c' * 40}", trees))
        else:
            found.append(Fetched(name, source.kind, version, f"sha256 {name}", (), at / name, at / "file" / name))
    return tuple(found)


def made(
    project: Project,
    target: str,
    at: Path = Path("/store"),
    soc: str = "",
    jobs: int = 4,
    tree: str = "a" * 40,
    line: str = "et-1.2",
) -> Plan:
    return plan(project, line, target, sources(project, line, target, at, tree), soc=soc, jobs=jobs)


@pytest.mark.parametrize("line", ["et-1.2", "et-1.3", "et-1.4"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_placeholder_is_filled_and_every_output_is_built(project: Project, target: str, line: str) -> None:
    found = made(project, target, line=line)
    configured = {s.argv[s.argv.index("-B") + 1] for s in found.steps if isinstance(s, Command) and "-B" in s.argv}
    for step in found.steps:
        words = (
            step.argv + tuple(v for _, v in step.env)
            if isinstance(step, Command)
            else (str(step.to), str(step.source))
            if isinstance(step, Copy)
            else ()
        )
        assert not [w for w in words if "{" in w], step
    outputs = project.pins.target(target, line)["outputs"]
    assert len([a for a in found.artifacts if a.built]) == len(outputs)
    assert configured == {str(found.build / name) for name in project.pins.target(target, line)["cmake"]}


def test_no_environment_of_the_caller_comes_in(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(project, TARGETS[0])
    for name in ("CFLAGS", "CC", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH", "CCACHE_DIR"):
        monkeypatch.setenv(name, "/evil")
    assert made(project, TARGETS[0]) == before


def test_a_source_takes_the_place_of_anothers_submodule(project: Project) -> None:
    def with_own(submodule: str, *omit: str) -> Project:
        data = copy.deepcopy(dict(project.pins.data))
        data["sources"]["a"] = {**data["sources"]["executorch"], "submodules": [], "submodule": submodule}
        data["lines"]["et-1.2"]["a"] = "v1"
        if not submodule.startswith("executorch/"):  # else it need not be named
            data["targets"][TARGETS[0]]["sources"].insert(0, "a")
        data["targets"][TARGETS[0]]["omit"] += omit
        return project._replace(pins=project.pins._replace(data=data))

    replacing = with_own("executorch/third-party/y")
    checkouts = [s for s in made(replacing, TARGETS[0]).steps if isinstance(s, Checkout)]
    tree = replacing.out("tree", "et-1.2", TARGETS[0])
    folders = [step.folder for step in checkouts]
    assert tree / "executorch/third-party/y/third-party/x" in folders and tree / "a" not in folders
    assert folders.index(tree / "executorch") < folders.index(tree / "executorch/third-party/y")
    assert "executorch/third-party/y/" in resolve_target(replacing, "et-1.2", TARGETS[0])[2].omit
    for elsewhere in ("", "torchtune/x"):  # a source that this target does not have
        beside = with_own(elsewhere)
        assert tree / "a" in [s.folder for s in made(beside, TARGETS[0]).steps if isinstance(s, Checkout)]
        assert (
            resolve_target(beside, "et-1.2", TARGETS[0])[2].omit
            == resolve_target(project, "et-1.2", TARGETS[0])[2].omit
        )
    assert made(replacing, TARGETS[0]).key != made(with_own(""), TARGETS[0]).key
    omitting = with_own("executorch/third-party/y", "executorch/third-party/y/")
    assert "a" not in omitting.pins.target(TARGETS[0], "et-1.2")["sources"]


def test_compiler_flags_of_ones_own_come_after_those_that_hide_paths(project: Project) -> None:
    data = copy.deepcopy(dict(project.pins.data))
    data["targets"][TARGETS[1]]["cmake"]["library"]["defines"] |= {"CMAKE_C_FLAGS": "-O2 -DA"}
    found = made(project._replace(pins=project.pins._replace(data=data)), TARGETS[1])
    configure = next(s for s in found.steps if isinstance(s, Command) and s.phase == "library-configure")
    [flags] = (word for word in configure.argv if word.startswith("-DCMAKE_C_FLAGS="))
    [others] = (word for word in configure.argv if word.startswith("-DCMAKE_CXX_FLAGS="))
    assert "-ffile-prefix-map=" in flags and flags.endswith(" -O2 -DA")
    assert flags.removesuffix(" -O2 -DA").partition("=")[2] == others.partition("=")[2]


def test_the_key_is_of_content_not_of_places_or_cores(project: Project) -> None:
    base = made(project, TARGETS[0])
    assert made(project, TARGETS[0], at=Path("/elsewhere"), jobs=64).key == base.key
    assert made(project, TARGETS[0], tree="f" * 40).key != base.key
    assert made(project, TARGETS[0], soc="SM8650").key != base.key


def test_the_compile_cache_of_one_image_says_nothing_to_another(project: Project) -> None:
    """ccache knows the compiler's own file, and not the assembler or the headers of the image beside it."""

    def namespace(image: str) -> str:
        at = sources(project, "et-1.2", TARGETS[0], Path("/store"), "a" * 40)
        layout = Layout(Path(MAPPED), Path(MAPPED) / "out", Path("/cache"), "python3", image)
        ccache = Ccache("ccache", Path("/cache/ccache"))
        found = plan(project, "et-1.2", TARGETS[0], at, soc="", jobs=4, ccache=ccache, layout=layout)
        return next(dict(s.env)["CCACHE_NAMESPACE"] for s in found.steps if isinstance(s, Command))

    assert namespace("one") == namespace("one") != namespace("two")


def test_a_folder_that_upstream_breaks_at_is_refused_before_the_build(project: Project) -> None:
    there = project._replace(root=Path("/home/me/my app"))
    with pytest.raises(ConfigError, match="has a space in it"):
        made(there, "android-arm64-xnnpack")


def test_the_soc_chooses_runtime_stub_and_skel(project: Project) -> None:
    names = {a.name for a in made(project, "android-arm64-qnn").artifacts}
    assert {"libQnnHtp.so", "libQnnHtpV79Stub.so", "libQnnHtpV79Skel.so", "libQnnSystem.so"} <= names
    assert "libQnnHtpV75Skel.so" in {a.name for a in made(project, "android-arm64-qnn", soc="SM8650").artifacts}
    assert not [a for a in made(project, "android-arm64-xnnpack").artifacts if "Qnn" in a.name]
    with pytest.raises(ConfigError, match="unknown SoC"):
        made(project, "android-arm64-qnn", soc="SM1")


def test_the_library_has_the_name_that_java_loads_and_what_it_needs(project: Project) -> None:
    found = {a.name: a for a in made(project, "android-arm64-qnn").artifacts}
    assert found["libexecutorch.so"].folder == "jniLibs/arm64-v8a" and found["libexecutorch.so"].symbols
    assert {"libfbjni.so", "libc++_shared.so", "libqnn_executorch_backend.so"} <= set(found)
    assert not found["libqnn_executorch_backend.so"].symbols, "upstream links it with -s"
    assert found["qnn_llama_runner"].folder == "bin"


def test_an_emulators_library_is_of_its_machine_throughout(project: Project) -> None:
    found = made(project, "android-x86_64-xnnpack")
    words = [word for step in found.steps if isinstance(step, Command) for word in step.argv]
    assert {w for w in words if w.startswith("-DANDROID_ABI=")} == {"-DANDROID_ABI=x86_64"}
    assert [w for w in words if w.startswith(("--preset", "android-x86_64"))]
    libraries = [a for a in found.artifacts if a.folder.startswith("jniLibs")]
    assert {a.folder for a in libraries} == {"jniLibs/x86_64"} and {a.name for a in libraries} > {"libc++_shared.so"}
    places = (*words, *(str(step) for step in found.steps if isinstance(step, Copy)))
    assert not [place for place in places if "aarch64" in place or "arm64" in place]


@pytest.mark.parametrize("target", [t for t in TARGETS if t.startswith("android")])
def test_all_of_an_app_has_one_cxx_runtime(project: Project, target: str) -> None:
    configured = [s for s in made(project, target).steps if isinstance(s, Command) and s.phase == "library-configure"]
    assert all("-DANDROID_STL=c++_shared" in step.argv for step in configured) and configured
    assert {"runtime", "exports"} <= set(project.pins.target(target, "et-1.2")["audit"]["required"])


def test_upstreams_hidden_downloads_are_sources(project: Project) -> None:
    found = made(project, "android-arm64-xnnpack")
    assert [s for s in found.steps if isinstance(s, Copy) and s.to.as_posix().endswith("third-party/fbjni/fbjni.aar")]
    configure = next(s for s in found.steps if isinstance(s, Command) and s.phase == "library-configure")
    assert f"-DKLEIDIAI_SOURCE_DIR={found.tree / 'kleidiai'}" in configure.argv
    assert any(isinstance(s, Checkout) and s.folder == found.tree / "executorch" for s in found.steps), (
        "its folder must be named executorch"
    )


@pytest.mark.parametrize("replacement", ["folder: .", f"git: ., commit: {'a' * 40}"])
def test_an_archive_without_its_file_is_refused_before_anything_is_asked_for(
    project: Project, tmp_path: Path, kz: Kz, replacement: str
) -> None:
    """The AAR of fbjni is put into the build as it is: the plan had `install -D .` for it."""
    for name in ("pins.yaml", "pins.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pins.local.yaml").write_text(f"sources: {{fbjni: {{{replacement}}}}}\n")
    done = kz("-C", tmp_path, "build", "--dry-run", "--engine", "host", "--target", "android-arm64-xnnpack")
    assert done.returncode == 2 and "uses the file of fbjni as it is" in done.stderr, done.stderr
    assert "sources: {fbjni: {file: PATH}}" in done.stderr and "missing" not in done.stderr
    found = sources(project, "et-1.2", "android-arm64-xnnpack", tmp_path, "1" * 40)
    content = tuple(replace(one, file=None) if one.name == "fbjni" else one for one in found)
    with pytest.raises(ConfigError, match="uses the file of fbjni"):
        plan(project, "et-1.2", "android-arm64-xnnpack", content, soc="", jobs=1)
