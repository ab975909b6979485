"""Wrong pins: all problems at once, each with file, line and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.errors import ConfigError
from kz_build.pins import load
from kz_build.pins.load import load_project
from tests.conftest import ROOT, SAMPLE
from tests.stack.test_git_tools import stack_in

GOOD = (SAMPLE / "pins.yaml").read_text()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "cache"))


def problems(tmp_path: Path, text: str, local: str = "") -> list[str]:
    (tmp_path / "pins.yaml").write_text(text)
    if local:
        (tmp_path / "pins.local.yaml").write_text(local)
    with pytest.raises(ConfigError) as error:
        load_project(tmp_path)
    assert error.value.exit_code == 2
    return [str(p) for p in error.value.problems]


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


CASES = {
    "unknown key": (("preset: linux-arm64", "presset: linux-arm64"), "unknown key; did you mean preset?", "presset"),
    "unknown source": (
        ("[minirt, ziglang, cmake", "[minirt, zigland, cmake"),
        "there is no source 'zigland'; did you mean ziglang?",
        "zigland",
    ),
    "a submodule of an unknown source": (
        ("minirt: {git: upstream.bundle}", "minirt: {git: upstream.bundle, submodule: minirtt/x}"),
        "there is no source 'minirtt'; did you mean minirt?",
        "minirtt",
    ),
    "a submodule that is not fetched": (
        (
            "minirt: {git: upstream.bundle}",
            "minirt: {git: upstream.bundle, submodules: [third_party/jni]}\n  jni: {git: jni.bundle, submodule: minirt/third_party/jn}",
        ),
        "'third_party/jn' is none of the `submodules` of minirt, nor nested in one; did you mean third_party/jni?",
        "minirt/third_party/jn",
    ),
    "a submodule outside": (
        ("minirt: {git: upstream.bundle}", "minirt: {git: upstream.bundle, submodule: minirt/../x}"),
        "climbs out of its folder",
        "minirt/../x",
    ),
    "unknown line": (
        ("default: sample-0.1", "default: sample-0.2"),
        "there is no line 'sample-0.2'; did you mean sample-0.1?",
        "default:",
    ),
    "placeholder": (
        ('"{ziglang}/ziglang/zig", objcopy', '"{ziglnag}/ziglang/zig", objcopy'),
        "there is no placeholder 'ziglnag'; did you mean ziglang?",
        "ziglnag",
    ),
    "boolean": (("defines: {ZIG:", "defines: {A: ON, ZIG:"), 'quote it ("ON")', "A: ON"),
    "number": (("ninja: 1.13.0}", "ninja: 1.13}"), "must be text: quote it", "ninja: 1.13}"),
    "no kind": (
        ("{wheel: ninja, tag", "{weel: ninja, tag"),
        "needs one of: git, wheel, archive, image; it has: weel, tag",
        "weel",
    ),
    "a list for keys": (("minirt: {git: upstream.bundle}", "minirt: []"), "a source needs one of", "minirt: []"),
    "text for keys": (("\ntargets:\n", "\ntargets: x\nno:\n"), "targets: must have keys (KEY: VALUE)", "targets: x"),
    "check name": (("textrel, build-id", "textrels, build-id"), "must be", "textrels"),
    "folder of one machine": (
        ("minirt: {git: upstream.bundle}", "minirt: {folder: /x}"),
        "pins.local.yaml",
        "folder: /x",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_fault_is_named_at_its_line(tmp_path: Path, case: str) -> None:
    (old, new), said, where = CASES[case]
    text = GOOD.replace(old, new)
    assert text != GOOD
    found = problems(tmp_path, text)
    assert any(said in p and p.startswith(f"pins.yaml:{line_of(text, where)}:") for p in found), found


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    text = (
        GOOD.replace("preset: linux-arm64", "presset: linux-arm64")
        .replace("version: 1", "version: 2")
        .replace("{wheel: ninja,", "{wheeel: ninja,")
    )
    assert len(problems(tmp_path, text)) >= 3


def test_faults_on_one_line_come_in_the_same_order_each_time(tmp_path: Path) -> None:
    text = GOOD.replace(
        "minirt: {git: upstream.bundle", "minirt: {q: 1, z: 1, b: 1, k: 1, c: 1, x: 1, git: upstream.bundle"
    )
    found = problems(tmp_path, text)
    assert len(found) == 6 and found == sorted(found)


def test_a_file_without_content_has_no_keys(tmp_path: Path) -> None:
    assert problems(tmp_path, "") == ["pins.yaml: file: must have keys (KEY: VALUE); it is empty"]


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    assert "second time" in problems(tmp_path, GOOD + "version: 1\n")[0]


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "\t", "just text"])
def test_what_is_no_mapping(tmp_path: Path, text: str) -> None:
    problems(tmp_path, text)


def test_local_overrides_are_named_and_checked_too(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD, "lines: {sample-0.1: {minirtt: v0.2.0}}\n")
    assert any("pins.local.yaml:1" in p and "did you mean minirt?" in p for p in found), found
    (tmp_path / "pins.local.yaml").write_text("lines: {sample-0.1: {minirt: v0.2.0}}\n")
    project = load_project(tmp_path)
    assert project.pins.line("sample-0.1")["minirt"] == "v0.2.0"
    assert [(o.where, o.value) for o in project.pins.overrides] == [("lines.sample-0.1.minirt", "v0.2.0")]
    assert project.pins.changed("sample-0.1", "minirt") and not project.pins.changed("sample-0.1", "cmake")


def test_the_shipped_pins_are_right() -> None:
    project = load_project(ROOT, local=False)
    assert project.pins.default == "et-1.2" and project.pins.targets[0] == "android-arm64-qnn"
    xnnpack = project.pins.target("android-arm64-xnnpack", "et-1.2")
    assert "qnn-sdk" not in xnnpack["sources"]
    assert xnnpack["cmake"]["library"]["defines"]["EXECUTORCH_BUILD_QNN"] == "OFF"


def test_a_line_without_a_source_says_which_lines_have_it() -> None:
    project = load_project(ROOT, local=False)
    assert "executorch" not in project.pins.line("et-1.5"), "a line of wheels alone"
    with pytest.raises(ConfigError, match="line et-1.5 has no executorch") as error:
        project.locked("et-1.5", "executorch")
    assert error.value.hint == "lines that have it: et-1.2, et-1.3, et-1.4"


def stack(tmp_path: Path, **files: str) -> ConfigError:
    folder = tmp_path / "patches" / "l" / "s"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name.replace("__", ".").replace("N_", "0001-")).write_text(content)
    with pytest.raises(ConfigError) as error:
        stack_in(tmp_path, "patches/l/s")
    return error.value


def test_a_series_that_does_not_fit_its_folder(tmp_path: Path) -> None:
    said = str(
        stack(tmp_path, series="# a comment\n\n0001-a.patch -p0\n0002-gone.patch\n", N_a__patch="x", N_left__patch="x")
    )
    assert "series:3: 0001-a.patch: options (-p0)" in said
    assert "series:4: 0002-gone.patch: there is no such file" in said
    assert "0001-left.patch is in the folder but not in the series" in said


def test_two_patches_that_two_branches_numbered_alike_are_numbered_again(tmp_path: Path) -> None:
    folder = tmp_path / "patches" / "l" / "s"
    folder.mkdir(parents=True)
    names = ("0001-a.patch", "0002-theirs.patch", "0002-ours.patch")
    for name in names:
        (folder / name).write_text("x")
    (folder / "series").write_text(
        "0001-a.patch\n<<<<<<< HEAD\n0002-theirs.patch\n=======\n0002-ours.patch\n>>>>>>> b\n"
    )
    with pytest.raises(ConfigError, match="has git's conflict markers"):
        stack_in(tmp_path, "patches/l/s")
    (folder / "series").write_text("".join(f"{name}\n" for name in names))
    with pytest.raises(ConfigError, match="the order differs") as error:
        stack_in(tmp_path, "patches/l/s")
    assert "in patches/l/s, mv -- 0002-ours.patch 0003-ours.patch; and the same" in error.value.hint


def test_wrong_checks_are_named_at_their_lines(tmp_path: Path) -> None:
    patch = (SAMPLE / "patches/sample-0.1/minirt/0001-decoders-add-tiny3-4b.patch").read_text()
    checks = "a:\n  - contans: {file: f, text: t}\n  - contains: {file: f}\n  - absent: {file: f, text: t, more: 1}\n  - contains\n"
    checks += "  - contains: {file: 5, text: t}\n  - contains: {file: f, text: 2024-01-01}\nb: 5\n5: []\n"
    said = str(stack(tmp_path, series="0001-a.patch\n", N_a__patch=patch, checks__yaml=checks))
    for part in (
        "checks.yaml:2: unknown kind 'contans'; did you mean contains?",
        "checks.yaml:3: contains: `text` is missing",
        "checks.yaml:4: absent: unknown field 'more'",
        "checks.yaml:5: a check is one kind",
        "checks.yaml:6: contains: the value of 'file' is not text",
        "checks.yaml:7: contains: the value of 'text' is not text",
        "checks.yaml:8: b: must be a patch's name and a list of checks",
        "checks.yaml:9: 5: must be a patch's name and a list of checks",
    ):
        assert part in said, said


def test_what_a_kz_that_was_replaced_while_it_ran_found_valid_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be kept as the judgement of the files that are there now."""
    (tmp_path / "pins.yaml").write_text(GOOD)
    started = load._STARTED
    monkeypatch.setattr(load, "_STARTED", 0)
    load_project(tmp_path)
    kept = tmp_path / "cache" / "validated"
    assert not kept.exists()
    monkeypatch.setattr(load, "_STARTED", started)
    load_project(tmp_path)
    assert len(list(kept.iterdir())) == 1


def test_a_folder_without_pins_names_both_ways_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path)
    assert "-C FOLDER" in str(caught.value.hint)
    assert "kz init" in str(caught.value.hint)
