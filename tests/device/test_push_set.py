"""What goes to a device of each HTP arch, from where, under which names; and what is missing, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.device.push_set import ALONG, RUNTIME, InputFile, push_set, skel_archs
from kz_build.formats.soc import ARCH

OURS = {name: Path("/dist", name) for name in ("libexecutorch.so", "libqnn_executorch_backend.so", "qnn_llama_runner")}
ARCHS = sorted(set(ARCH.values()))


def runtime(*archs: str, place: str = "/sdk") -> dict[str, Path]:
    names = {name.format(ARCH=arch.upper()) for name in RUNTIME for arch in archs}
    return {name: Path(place, name) for name in (*names, *ALONG)}


def input_file(name: str, *, there: bool = True) -> InputFile:
    return InputFile(Path("/given", name), name, there, f"kz export {name}")


@pytest.mark.parametrize("arch", ARCHS)
def test_each_arch_gets_its_own_stub_and_skel_and_no_other(arch: str) -> None:
    found = push_set(arch, OURS, runtime(*ARCHS), (input_file("m.pte"),), qnn=True)
    assert not found.missing
    assert skel_archs(tuple(found.names)) == {arch.upper()}
    upstreams = {
        "libQnnHtp.so", "libQnnHtpPrepare.so", "libQnnSystem.so", "libQnnModelDlc.so",
        f"libQnnHtp{arch.upper()}Stub.so", f"libQnnHtp{arch.upper()}Skel.so",
    }  # fmt: skip
    assert found.names == {*OURS, *upstreams, "m.pte"}


def test_a_build_that_has_all_of_the_arch_gives_all_of_it() -> None:
    own = {**OURS, **runtime("v79", place="/dist")}
    found = push_set("v79", own, runtime("v79"), (), qnn=True)
    assert {path.parent.as_posix() for path, name in found.files if name.startswith("libQnn")} == {"/dist"}


def test_versions_are_never_mixed_where_the_build_is_for_another_arch() -> None:
    own = {**OURS, **runtime("v79", place="/dist")}
    found = push_set("v75", own, runtime("v75"), (), qnn=True)
    assert {path.parent.as_posix() for path, name in found.files if name.startswith("libQnn")} == {"/sdk"}
    assert skel_archs(tuple(found.names)) == {"V75"}


def test_all_that_is_missing_is_told_at_once_with_what_brings_it() -> None:
    own = {**OURS, **runtime("v79", place="/dist")}
    found = push_set("v81", own, {}, (input_file("m.pte", there=False), input_file("tokenizer.json")), qnn=True)
    told = {one.what: one for one in found.missing}
    assert set(told) == {"libQnnHtpV81Stub.so", "libQnnHtpV81Skel.so", "m.pte"}
    assert "it is for v79" in told["libQnnHtpV81Skel.so"].why and "--qnn" in told["libQnnHtpV81Skel.so"].remedy
    assert told["m.pte"].remedy == "kz export m.pte"


def test_without_an_arch_qnn_has_no_set_and_cpu_needs_none() -> None:
    assert [one.what for one in push_set("", OURS, runtime("v79"), (), qnn=True).missing] == [
        "the HTP arch of the device"
    ]
    found = push_set("", {"libexecutorch.so": Path("/x")}, {}, (), qnn=False)
    assert not found.missing and found.names == {"libexecutorch.so"}


def test_a_recipes_op_packages_keep_their_names_and_its_own_runtime_counts() -> None:
    """One op package, built twice: two files of one name here, two names there (recipes/qwen3-1.7b-mllm-qnn-aot.yaml)."""
    packages = (
        InputFile(Path("/build/aarch64-android/libQnnLLaMAPackage.so"), "libQnnLLaMAPackage_CPU.so", True, ""),
        InputFile(Path("/build/hexagon-v75/libQnnLLaMAPackage.so"), "libQnnLLaMAPackage_HTP.so", True, ""),
    )
    own = tuple(input_file(name.format(ARCH="V75")) for name in RUNTIME)
    found = push_set("v75", {"kz_probe": Path("/dist/kz_probe")}, {}, (*packages, *own), qnn=True)
    assert not found.missing
    files = {name: path for path, name in found.files}
    assert files["libQnnLLaMAPackage_CPU.so"] != files["libQnnLLaMAPackage_HTP.so"]
    assert files["libQnnHtpV75Skel.so"] == Path("/given/libQnnHtpV75Skel.so")
