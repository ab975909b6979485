"""`kz check-apk`: each sentence of it with an app that earns it, and one that must not."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.checks.apk import check_apk
from kz_build.core.check import Check, Status
from kz_build.formats.android_manifest import manifest_of, read_text
from kz_build.formats.axml import read_axml
from tests.conftest import Kz
from tests.formats.apps import AAPT2, NEWER, QNN, Lib, Linker, Spec, apk, downloaded, good, manifest, written

pytestmark = [
    pytest.mark.apps,
    pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res for real manifests"),
]
APPIUM = ("io.appium.settings", "8.0.10", "apks/settings_apk-debug.apk")


def failures(found: tuple[Check, ...]) -> list[Check]:
    return [c for c in found if c.failed]


def test_an_app_whose_parts_fit(linker: Linker, tmp_path: Path, kz: Kz) -> None:
    path = apk(good(), linker, tmp_path / "app.apk")
    done = kz("check-apk", path, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {c["check"]: c for c in json.loads(done.stdout)}
    assert {name for name, c in found.items() if c["status"] != "PASS"} == {"cxx-runtime"}, found
    assert found["cxx-runtime"]["status"] == "SKIP"
    assert found["qnn-models"]["evidence"] == "1 model, compiled by 2.42.0.251225"
    assert kz("check-apk", path).stdout.count("PASS") == len(found) - 1


HTP = Lib("libQnnHtp.so", says=QNN)
COUT, NEW = "_ZNSt6__ndk14coutE", "_ZNSt6__ndk113hash_memoryEv"
OLD_CXX = Lib("libc++_shared.so", gives=(COUT,))
NEEDS_CXX = Lib("libfbjni.so", needed=("libc++_shared.so",), takes=(COUT,))
GGML = Lib("libggml-htp-v79.so", "hexagon", page=4096)
Change = Callable[[Spec], Spec]
BROKEN: dict[str, tuple[Change, str, str]] = {
    "two versions of QNN": (
        lambda s: s.libraries(onnxruntime=Lib("libonnxruntime.so", says=NEWER)), "qnn-version",
        "several versions: 2.42.0.251225: lib/arm64-v8a/libQnnHtp.so",
    ),
    "a model of a newer QNN": (
        lambda s: replace(s, files={"assets/m.pte": NEWER.encode()}), "qnn-models",
        "compiled by 2.49.40.260810, the app has 2.42.0.251225: contexts do not load on an older QNN",
    ),
    "a model of an older QNN": (
        lambda s: replace(s, files={"assets/m.pte": b"v2.37.0.250724175447_124859"}), "qnn-models", "an older context may load",
    ),
    "an ORT context of another QNN": (
        lambda s: replace(s, files={"assets/m_qnn.bin": NEWER.encode()}), "qnn-models", "compiled by 2.49.40.260810",
    ),
    "no QNN for the model": (
        lambda s: s.libraries(**{n[13:-3]: None for n in s.libs if "nn" in n}), "qnn-runtime", "a model was compiled for it",
    ),
    "no libQnnSystem.so": (lambda s: s.libraries(QnnSystem=None), "qnn-runtime", "libqnn_executorch_backend.so opens it"),
    "QNN of no version": (
        lambda s: replace(s, libs={p: replace(lib, says="") for p, lib in s.libs.items()}), "qnn-version", "no QNN library gives its version",
    ),
    "a QNN library twice": (
        lambda s: replace(s, libs={**s.libs, "assets/dsp/libQnnHtp.so": replace(HTP, page=65536)}), "duplicates", "assets/dsp/libQnnHtp.so",
    ),
    "one soname, two files": (
        lambda s: s.libraries(QnnOther=Lib("libQnnOther.so", soname="libQnnHtp.so", says=QNN)), "duplicates", "libQnnOther.so",
    ),
    "4 KB pages": (lambda s: s.libraries(QnnHtp=replace(HTP, page=4096)), "pages-16k", "aligned to 4,096 bytes"),
    "stored, not aligned": (lambda s: replace(s, stored=True, align=4096, extract="false"), "zip-align", "not a multiple of 16,384"),
    "compressed, not unpacked": (lambda s: replace(s, extract="false"), "zip-align", "it cannot be loaded"),
    "no arm64": (
        lambda s: Spec({"x86_64/libexecutorch.so": Lib("libexecutorch.so", "x86_64")}), "abi", "it has no library, only these have: x86_64",
    ),
    "no library": (lambda s: Spec({}), "abi", "no ABI's folder has a library"),
    "half an ABI": (
        lambda s: replace(s, libs={**s.libs, "x86_64/libfbjni.so": Lib("libfbjni.so", "x86_64")}), "abi",
        "half-filled: libexecutorch.so libonnxruntime.so only for arm64-v8a",
    ),
    "arm64 lacks one": (
        lambda s: replace(s, libs={**s.libs, "x86_64/libmore.so": Lib("libmore.so", "x86_64")}), "abi", "half-filled: libmore.so only for x86_64",
    ),
    "a processor's library, and none of its kind elsewhere": (
        lambda s: replace(s, libs={**s.libs, "arm64-v8a/libllama_v8_2.so": Lib("libllama_v8_2.so"), "x86_64/libfbjni.so": Lib("libfbjni.so", "x86_64")}),
        "abi", "half-filled: libexecutorch.so libllama_v8_2.so libonnxruntime.so only for arm64-v8a",
    ),
    "an ABI nobody knows": (lambda s: replace(s, libs={**s.libs, "arm64/libx.so": Lib("libx.so")}), "abi", "Android knows no such ABI"),
    "x86 among arm64": (lambda s: s.libraries(fbjni=Lib("libfbjni.so", "x86_64")), "elf", "ELF64 EM_X86_64 ET_DYN in a folder of arm64-v8a"),
    "a library that nobody brings": (
        lambda s: s.libraries(fbjni=Lib("libfbjni.so", needed=("libc++_shared.so",))), "needed", "neither in the system nor in arm64-v8a: libc++_shared.so",
    ),
    "a stub alone": (lambda s: s.libraries(QnnHtpV79Skel=None), "htp-pairs", "missing, while the Stub is there"),
    "a skel alone": (lambda s: s.libraries(QnnHtpV79Stub=None), "htp-pairs", "missing, while the Skel is there"),
    "halves of two versions": (
        lambda s: s.libraries(QnnHtpV79Skel=None, QnnHtpV75Skel=Lib("libQnnHtpV75Skel.so", "hexagon")), "htp-pairs", "missing, while",
    ),
    "no pair at all": (lambda s: s.libraries(QnnHtpV79Skel=None, QnnHtpV79Stub=None), "htp-pairs", "the app cannot reach the NPU"),
    "a skel for arm64": (lambda s: s.libraries(QnnHtpV79Skel=Lib("libQnnHtpV79Skel.so", says=QNN)), "skel", "not a library for a Hexagon DSP"),
    "cdsprpc not declared": (lambda s: replace(s, uses=""), "cdsprpc", '<uses-native-library android:name="libcdsprpc.so"'),
    "another one declared": (lambda s: replace(s, uses='<uses-native-library android:name="libOpenCL.so"/>'), "cdsprpc", "lacks <uses-native-library"),
    "not unpacked": (lambda s: replace(s, extract="false", stored=True), "extracted", "the DSP opens the skel as a file"),
    "a C++ runtime of an older NDK": (
        lambda s: s.libraries(**{"c++_shared": OLD_CXX, "fbjni": replace(NEEDS_CXX, takes=(COUT, NEW))}), "cxx-runtime",
        f"lib/arm64-v8a/libfbjni.so 1 C++ symbol in no library that it loads: {NEW}",
    ),
    "a C++ runtime that is there and not asked for": (
        lambda s: s.libraries(**{"c++_shared": OLD_CXX, "fbjni": Lib("libfbjni.so", takes=(COUT,))}), "cxx-runtime", f"1 C++ symbol in no library that it loads: {COUT}",
    ),
    "C++ symbols without a runtime": (
        lambda s: s.libraries(fbjni=Lib("libfbjni.so", takes=(COUT,))), "cxx-runtime", "libfbjni.so 1 C++ symbol in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit(name: str, linker: Linker, tmp_path: Path) -> None:
    change, check, said = BROKEN[name]
    found = [c for c in check_apk((apk(change(good()), linker, tmp_path / "app.apk"),), None) if c.name == check]
    assert [c for c in failures(tuple(found)) if said in f"{c.subject} {c.evidence}"], found


FITS: dict[str, Change] = {
    "stored and aligned, no skel to unpack": lambda s: replace(
        s, stored=True, extract="false", libs={p: lib for p, lib in s.libs.items() if "nn" not in p}, files={}
    ),
    "stored, aligned, unpacked": lambda s: replace(s, stored=True),
    "stored, not aligned, but unpacked when installed": lambda s: replace(s, stored=True, align=4096),
    "an APK that does not say whether it unpacks": lambda s: replace(s, extract=None),
    "cdsprpc before API 31": lambda s: replace(s, uses="", target=30).libraries(QnnHtpV79Stub=Lib("libQnnHtpV79Stub.so", says=QNN)),
    "32-bit with 4 KB pages": lambda s: replace(
        s, libs={**s.libs, **{f"armeabi-v7a/{lib.name}": replace(lib, abi="armeabi-v7a", page=4096) for p, lib in s.libs.items() if "nn" not in p
                              or "onnx" in p}}
    ),
    "x86_64 without what Qualcomm makes for arm64 alone": lambda s: replace(
        s, libs={**s.libs, **{f"x86_64/{lib.name}": replace(lib, abi="x86_64") for p, lib in s.libs.items() if "Qnn" not in p and "qnn_" not in p}}
    ),
    "libraries for one processor or ABI each": lambda s: Spec(
        {f"{abi}/{name}": Lib(name, abi) for abi, name in (("arm64-v8a", "librnllama_v8.so"), ("arm64-v8a", "librnllama_v8_2_dotprod_i8mm.so"),
         ("x86_64", "librnllama_x86_64.so"), ("arm64-v8a", "libggml-cpu-android_armv8.2_1.so"), ("x86_64", "libggml-cpu-x64.so"))},
        {"assets/x.pte": bytes(9)}, None, "",
    ),
    "two pairs": lambda s: s.libraries(QnnHtpV75Stub=Lib("libQnnHtpV75Stub.so"), QnnHtpV75Skel=Lib("libQnnHtpV75Skel.so", "hexagon")),
    "a Hexagon library of a name of its own": lambda s: replace(
        s, libs={"arm64-v8a/libllama.so": Lib("libllama.so"), "x86_64/libllama.so": Lib("libllama.so", "x86_64"), f"arm64-v8a/{GGML.name}": GGML}
    ).libraries(QnnHtp=HTP, QnnSystem=Lib("libQnnSystem.so"), QnnHtpV79Stub=Lib("libQnnHtpV79Stub.so"),
                QnnHtpV79Skel=Lib("libQnnHtpV79Skel.so", "hexagon")),
    "the C++ runtime of a library that loads it": lambda s: s.libraries(
        **{"c++_shared": OLD_CXX, "fbjni": replace(NEEDS_CXX, takes=()), "executorch": Lib("libexecutorch.so", soname="libexecutorch_jni.so",
           needed=("libfbjni.so",), takes=(COUT,))}
    ),
    "no QNN in it": lambda s: Spec({"arm64-v8a/libexecutorch.so": Lib("libexecutorch.so")}, {"assets/x.pte": bytes(9)}, None, ""),
    "a model that says nothing of QNN": lambda s: replace(s, files={"assets/x.pte": b"v2.42.0 v2.99.999999 v2.42.0.991399"}),
    "the same QNN library twice, to the byte": lambda s: replace(s, libs={**s.libs, "assets/libQnnHtp.so": HTP}),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_what_must_not_be_blamed(name: str, linker: Linker, tmp_path: Path) -> None:
    found = check_apk((apk(FITS[name](good()), linker, tmp_path / "app.apk"),), None)
    assert not failures(found)


def test_advice_is_no_failure(linker: Linker, tmp_path: Path) -> None:
    found = check_apk((apk(replace(good(), files={"classes.dex": b"dex"}), linker, tmp_path / "app.apk"),), None)
    advice = next(c for c in found if c.name == "adsp-path")
    assert advice.status is Status.SKIP and "ADSP_LIBRARY_PATH" in advice.evidence and "no dex file" in advice.evidence
    assert not failures(found)


def test_a_model_from_elsewhere_is_held_against_the_app(linker: Linker, tmp_path: Path, kz: Kz) -> None:
    """The version stands across the border of two pieces of a file of several megabytes."""
    path = apk(good(), linker, tmp_path / "app.apk")
    (tmp_path / "fits.pte").write_bytes(bytes((1 << 20) - 9) + QNN.encode() + bytes(3 << 20))
    (tmp_path / "newer.pte").write_bytes(bytes((1 << 20) - 9) + NEWER.encode() + bytes(3 << 20))
    done = kz("check-apk", path, tmp_path / "fits.pte")
    assert done.returncode == 0 and "2 models, compiled by 2.42.0.251225" in done.stdout
    done = kz("check-apk", path, tmp_path / "fits.pte", tmp_path / "newer.pte")
    assert done.returncode == 7 and "newer.pte" in done.stdout and done.stderr.endswith("kz: exit 7 (audit)\n")


def aab(spec: Spec, linker: Linker, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("base/manifest/AndroidManifest.xml", manifest(spec, path.parent / "m", proto=True))
        zipped.writestr("base/dex/classes.dex", spec.files["classes.dex"])
        for place, lib in spec.libs.items():
            module = "npu" if "Qnn" in place else "base"
            zipped.writestr(f"{module}/lib/{place}", linker.bytes(lib))
        zipped.writestr("models/assets/qwen.pte", spec.files["assets/qwen.pte"])
    return path


def test_an_app_bundle_with_modules(linker: Linker, tmp_path: Path) -> None:
    found = {c.name: c for c in check_apk((aab(good(), linker, tmp_path / "app.aab"),), None)}
    assert not failures(tuple(found.values()))
    assert found["zip-align"].status is Status.SKIP and "bundletool" in found["zip-align"].evidence
    assert {c for c in found if found[c].status is Status.SKIP} == {"zip-align", "cxx-runtime"}
    silent = check_apk((aab(replace(good(), extract=None, uses=""), linker, tmp_path / "2.aab"),), None)
    assert {c.name for c in failures(silent)} == {"extracted", "cdsprpc", "needed"}


def bundle(spec: Spec, linker: Linker, folder: Path, *, other: bool = False) -> Path:
    """Two AARs, loose libraries, a model and the manifest as one writes it."""
    folder.mkdir()
    libs = {p: lib for p, lib in spec.libs.items() if p != "arm64-v8a/libfbjni.so"}
    for name, mine in (("executorch.aar", "Qnn"), ("qnn-runtime.aar", "libe")):
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("AndroidManifest.xml", written(spec))
            for place, lib in libs.items():
                if mine not in place:
                    zipped.writestr(
                        f"jni/{place}", linker.bytes(replace(lib, page=65536) if other and mine == "libe" else lib)
                    )
    (folder / "jniLibs/arm64-v8a").mkdir(parents=True)
    (folder / "jniLibs/arm64-v8a/libfbjni.so").write_bytes(linker.bytes(spec.libs["arm64-v8a/libfbjni.so"]))
    (folder / "models").mkdir()
    (folder / "models/qwen.pte").write_bytes(spec.files["assets/qwen.pte"])
    return folder


def test_a_folder_of_parts(linker: Linker, tmp_path: Path) -> None:
    folder = bundle(good(), linker, tmp_path / "parts")
    found = {c.name: c for c in check_apk((), folder)}
    assert not failures(tuple(found.values()))
    skipped = {"manifest", "zip-align", "cxx-runtime", "extracted", "adsp-path"}
    assert {c for c in found if found[c].status is Status.SKIP} == skipped
    assert "libcdsprpc.so is declared" in found["cdsprpc"].evidence  # by an AAR: Gradle merges it
    (folder / "AndroidManifest.xml").write_text(written(replace(good(), extract=None)))
    assert {c.name for c in failures(check_apk((), folder))} == {"extracted"}


def test_two_aars_with_the_same_library_and_other_bytes(linker: Linker, tmp_path: Path) -> None:
    found = check_apk((), bundle(good(), linker, tmp_path / "parts", other=True))
    rows = [c for c in failures(found) if c.name == "duplicates"]
    assert [c.subject for c in rows] == ["libonnxruntime.so", "libqnn_executorch_backend.so"]
    assert "executorch.aar!jni/arm64-v8a/" in rows[1].evidence and "qnn-runtime.aar!" in rows[1].evidence


def aar(libs: tuple[Lib, ...], linker: Linker, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("AndroidManifest.xml", written(replace(good(), uses="")))
        zipped.writestr("classes.jar", b"")
        for lib in libs:
            zipped.writestr(f"jni/{lib.abi}/{lib.name}", linker.bytes(lib))
    return path


def test_a_lone_aar(linker: Linker, tmp_path: Path, kz: Kz) -> None:
    """What the app must have for it is no failure, and what is wrong in it is one."""
    path = aar((NEEDS_CXX,), linker, tmp_path / "fbjni.aar")
    done = kz("check-apk", path, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {c["check"]: c for c in json.loads(done.stdout)}
    assert "the app must have libc++_shared.so" in found["needed"]["evidence"]
    assert {c for c in found if found[c]["status"] == "PASS"} == {
        "abi",
        "elf",
        "pages-16k",
        "duplicates",
        "cxx-runtime",
    }
    bad = check_apk((aar((replace(NEEDS_CXX, page=4096),), linker, tmp_path / "2.aar"),), None)
    assert {c.name for c in failures(bad)} == {"pages-16k"}


def test_an_app_and_an_aar_for_it(linker: Linker, tmp_path: Path, kz: Kz) -> None:
    """Two C++ runtimes in one app: Gradle stops, or takes the one that comes first."""
    new_cxx = replace(OLD_CXX, gives=(COUT, NEW))
    app = apk(good().libraries(**{"c++_shared": OLD_CXX}), linker, tmp_path / "app.apk")
    same = aar((OLD_CXX, Lib("libnew.so", needed=("libc++_shared.so",), takes=(COUT,))), linker, tmp_path / "same.aar")
    done = kz("check-apk", app, same, tmp_path / "fits.pte")
    assert done.returncode == 7 and "fits.pte is not a file" in done.stderr
    assert not failures(check_apk((app, same), None))
    other = aar((new_cxx, Lib("libnew.so", needed=("libc++_shared.so",), takes=(NEW,))), linker, tmp_path / "other.aar")
    found = [c for c in failures(check_apk((app, other), None)) if c.name == "duplicates"]
    assert [c.subject for c in found] == ["libc++_shared.so"]
    assert f"{app}!lib/arm64-v8a/libc++_shared.so" in found[0].evidence and f"{other}!jni/" in found[0].evidence


def test_split_apks_are_one_app(linker: Linker, tmp_path: Path) -> None:
    folder = tmp_path / "splits"
    folder.mkdir()
    split = written(replace(good(), uses="", extract="false")).replace("<manifest ", '<manifest split="config.arm64" ')
    apk(replace(good(), libs={}), linker, folder / "base.apk")
    apk(replace(good(), files={}), linker, folder / "a-split.apk", manifest_bytes=split.encode())
    assert not failures(check_apk((), folder))


def test_a_manifest_in_its_three_forms(tmp_path: Path) -> None:
    spec = replace(good(), extract="false")
    text = manifest_of(read_text(written(spec).encode()))
    assert text.package == "org.example.app" and text.target_sdk == 34 and text.extract is False
    assert text.libraries == {"libcdsprpc.so": False}
    huge = written(spec).replace('targetSdkVersion="34"', f'targetSdkVersion="{"9" * 5000}"')
    assert manifest_of(read_text(huge.encode())).target_sdk == 0, "Python makes no number of more than 4,300 digits"
    assert manifest_of(read_axml(manifest(spec, tmp_path))) == text
    bundled = manifest(spec, tmp_path, proto=True)
    assert manifest_of(read_axml(bundled)) == text
    # aapt2 makes the same APK of it: an attribute is known by its id.
    assert manifest_of(read_axml(bundled.replace(b"extractNativeLibs", b"extractNativeLibz"))) == text


def test_manifests_of_apps_that_people_run(downloads: Path, tmp_path: Path) -> None:
    """Appium's, made by Gradle: as aapt2 reads it."""
    if not shutil.which("npm"):
        pytest.skip("needs npm to fetch a real APK")
    package, version, inner = APPIUM
    tgz = downloaded(downloads, f"{package}-{version}.tgz", "npm", "pack", "--silent", f"{package}@{version}")
    subprocess.run(["tar", "xzf", tgz, "-C", tmp_path, f"package/{inner}"], check=True)
    path = tmp_path / "package" / inner
    with zipfile.ZipFile(path) as zipped:
        found = manifest_of(read_axml(zipped.read("AndroidManifest.xml")))
    assert (found.package, found.target_sdk, found.extract) == ("io.appium.settings", 35, False)
    assert {c.name for c in failures(check_apk((path,), None))} == {"abi"}
