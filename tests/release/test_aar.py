"""An AAR for a phone and an emulator: QNN and XNNPACK for arm64-v8a, XNNPACK alone for x86_64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kz_build.build.wheel_types import zip_bytes
from kz_build.checks.apk import check_apk
from kz_build.core.check import Status
from kz_build.release.aar import combine, qnn_of
from kz_build.release.aar_checks import lacking_in_abis
from kz_build.release.aar_folder import Package, Part
from kz_build.release.gradle import snippet
from kz_build.report.text import table
from tests.formats.apps import Lib, Linker, good, written

UPSTREAM = {
    "AndroidManifest.xml": written(replace(good(), uses="")).encode(),
    "classes.jar": b"",
    "jni/arm64-v8a/libexecutorch.so": b"upstream's own",
    "jni/x86_64/libexecutorch.so": b"upstream's own",
    "jni/armeabi-v7a/libexecutorch.so": b"upstream's own",
}
FBJNI = {"com.facebook.fbjni:fbjni:0.7.0": ("libfbjni.so", "libc++_shared.so")}


def part(linker: Linker, folder: Path, abi: str, *libs: Lib) -> Part:
    folder.mkdir()
    for lib in libs:
        (folder / lib.name).write_bytes(linker.bytes(lib))
    profiles = {lib.name: "hexagon" if lib.abi == "hexagon" else "ours" for lib in libs}
    return Part(folder.name, {"abi": abi}, folder, {lib.name: lib.name for lib in libs}, profiles, ())


def test_a_phone_with_qnn_and_an_emulator_without(linker: Linker, tmp_path: Path) -> None:
    qnn = part(linker, tmp_path / "qnn", "arm64-v8a", *good().libs.values())
    names = ("libexecutorch.so", "libfbjni.so", "libonnxruntime.so")
    xnnpack = part(linker, tmp_path / "xnnpack", "x86_64", *(Lib(name, "x86_64") for name in names))
    members, placed, left_out = combine(UPSTREAM, (qnn, xnnpack), FBJNI)
    assert dict(placed)["jni/arm64-v8a/libexecutorch.so"] == dict(placed)["jni/x86_64/libexecutorch.so"] == "replaced"
    assert left_out == (
        ("jni/arm64-v8a/libfbjni.so", "comes with com.facebook.fbjni:fbjni:0.7.0"),
        ("jni/armeabi-v7a/libexecutorch.so", "armeabi-v7a is not built here"),
        ("jni/x86_64/libfbjni.so", "comes with com.facebook.fbjni:fbjni:0.7.0"),
    )
    check = lacking_in_abis((qnn, xnnpack), dict(placed))
    assert check.status is Status.WARN and not check.failed and check.evidence == (
        "x86_64 lacks libQnnHtp.so libQnnHtpPrepare.so libQnnHtpV79Skel.so libQnnHtpV79Stub.so libQnnSystem.so"
        " libqnn_executorch_backend.so"
    )  # fmt: skip
    path = tmp_path / "both.aar"
    path.write_bytes(zip_bytes(tuple(sorted(members.items()))))
    checks = {c.name: c for c in check_apk((path,), None)}
    assert not [c for c in checks.values() if c.failed], checks
    assert checks["abi"].evidence == "arm64-v8a: 8 libraries, x86_64: 2 libraries"


PLACE = "jni/arm64-v8a"
RUNTIME = "com.qualcomm.qti:qnn-runtime:2.42.0"
LINE = {"qnn-sdk": "2.42.0.251225"}


def test_the_qnn_of_an_aar_by_its_version_in_maven(linker: Linker, tmp_path: Path) -> None:
    whole = part(linker, tmp_path / "whole", "arm64-v8a", *good().libs.values())
    backend = part(linker, tmp_path / "backend", "arm64-v8a", Lib("libqnn_executorch_backend.so"))
    plain = part(linker, tmp_path / "plain", "x86_64", Lib("libexecutorch.so", "x86_64"))
    assert qnn_of((plain, whole), {"qnn-sdk": "2.37.0"}) == (
        "2.42.0.251225",
        RUNTIME,
    )  # what is in it, not what is pinned
    assert qnn_of((backend,), LINE) == ("2.42.0.251225", RUNTIME)
    assert qnn_of((backend,), {"qnn-sdk": "2.36.1"}) == ("2.36.1", "")  # Maven Central has no such version
    assert qnn_of((plain,), LINE) == ("", "")

    def text(library: str, runtime: str, *dependencies: str) -> str:
        package = Package(
            "et-1.2", ("android-arm64-qnn",), ("arm64-v8a",), "org.pytorch:executorch-android:1", "", "", "",
            ((f"{PLACE}/{library}", "added"),), (), dependencies, False, "2.42.0.251225", runtime, (), (),
        )  # fmt: skip
        return snippet(package)

    said = text("libQnnHtp.so", RUNTIME)
    assert f"// QNN 2.42.0.251225, on Maven: {RUNTIME}\n// Its libraries are in the AAR" in said
    assert f"// QNN 2.42.0.251225 is not in the AAR: it comes with {RUNTIME}" in text("libx.so", RUNTIME, RUNTIME)
    assert "not on Maven, as far as kz knows\n// Its libraries are not in the AAR: kz build --soc" in text(
        "libx.so", ""
    )
    record = {
        "path": "x.aar",
        "sha256": "0" * 64,
        "coordinates": "a:b:1",
        "qnn": "2.42.0.251225",
        "qnn_runtime": RUNTIME,
    }
    rows = table(
        {"line": "l", "pins": {}, "canonical": True, "overrides": [], "single_source": [], "package": {"t": record}}
    )
    assert rows.endswith(f"package t: x.aar {'0' * 12}, a:b:1\n  QNN 2.42.0.251225, on Maven: {RUNTIME}")
