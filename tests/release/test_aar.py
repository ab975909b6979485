"""An AAR for a phone and an emulator: QNN and XNNPACK for arm64-v8a, XNNPACK alone for x86_64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kz_build.build.wheel_types import zip_bytes
from kz_build.checks.apk import check_apk
from kz_build.core.check import Status
from kz_build.release.aar import combine
from kz_build.release.aar_checks import lacking_in_abis
from kz_build.release.aar_folder import Part
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
