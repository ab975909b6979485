"""The checks of check-apk for an app that uses QNN (docs/reference/verbs/check-apk.md)."""

from __future__ import annotations

import re
from collections import defaultdict

from kz_build.checks.elf_rules import is_for
from kz_build.core.check import Answer, failed, passed, skipped, unanswered
from kz_build.formats.app_types import App, Library
from kz_build.formats.elf_types import HEXAGON
from kz_build.formats.library_types import htp_arch
from kz_build.formats.pte_types import version_key

MAIN = "arm64-v8a"
QNN = re.compile(r"lib(Qnn\w+|qnn_executorch_backend)\.so")
"""Libraries of Qualcomm's SDK, or linked with it: built only for arm64."""


def _libraries(app: App) -> list[Library]:
    return [lib for lib in app.libraries if lib.name.startswith("libQnn")]


def _htp(app: App) -> list[Library]:
    return [lib for lib in _libraries(app) if lib.name.startswith("libQnnHtp")]


def _contexts(app: App) -> bool:
    return any(model.qnn for model in app.models)


def runtime(app: App) -> Answer:
    """Check for the libraries that the backend opens by name."""
    backend = any(lib.name == "libqnn_executorch_backend.so" for lib in app.libraries)
    if not (backend or _contexts(app)):
        return skipped("nothing here needs QNN")
    why = "libqnn_executorch_backend.so opens it" if backend else "a model was compiled for it"
    names = {lib.name for lib in _libraries(app) if lib.abi in (MAIN, "")}
    missing = [name for name in ("libQnnHtp.so", "libQnnSystem.so") if name not in names]
    return [failed(f"not in the app, and {why}", name) for name in missing] or passed("libQnnHtp.so libQnnSystem.so")


def version(app: App) -> Answer:
    """Check that all libraries are of one QNN version."""
    libraries = _libraries(app)
    if not libraries and not _contexts(app):
        return skipped("it has neither a QNN library nor a QNN context")
    by_version: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        for version in library.qnn:
            by_version[version].add(library.place)
    text = "; ".join(
        f"{version}: {', '.join(sorted(by_version[version]))}" for version in sorted(by_version, key=version_key)
    )
    if not by_version:
        return unanswered("no QNN library gives its version" if libraries else "it has no QNN library")
    return failed(f"several versions: {text}") if len(by_version) > 1 else passed(text)


def models(app: App) -> Answer:
    """Check that every context was compiled by the QNN version in the app."""
    compiled = [model for model in app.models if model.qnn]
    if not compiled:
        return skipped(f"no QNN context in {count(len(app.models), 'model')}")
    runtimes = sorted({v for lib in app.libraries for v in lib.qnn}, key=version_key)
    if not runtimes:
        return [
            unanswered(f"compiled by {' '.join(m.qnn)}; which QNN the app has is unknown", m.place) for m in compiled
        ]
    rows = []
    for model in compiled:
        if set(model.qnn) != set(runtimes):
            newer = version_key(max(model.qnn, key=version_key)) > version_key(runtimes[0])
            why = (
                "contexts do not load on an older QNN"
                if newer
                else "an older context may load, but was not tested with this QNN"
            )
            rows.append(
                failed(f"compiled by {' '.join(model.qnn)}, the app has {' '.join(runtimes)}: {why}", model.place)
            )
    return rows or passed(f"{count(len(compiled), 'model')}, compiled by {runtimes[0]}")


def pairs(app: App) -> Answer:
    """Check that every stub has its skel, and that there is at least one pair."""
    if not _htp(app):
        return skipped("it has no HTP library")
    halves: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        for kind in ("Stub", "Skel"):
            if arch := htp_arch(library.name, kind):
                halves[arch].add(kind)
    rows = []
    for arch, there in sorted(halves.items()):
        if len(there) == 1:
            missing = "Skel" if "Stub" in there else "Stub"
            rows.append(failed(f"missing, while the {next(iter(there))} is there", f"libQnnHtp{arch}{missing}.so"))
    if not halves:
        rows.append(failed("no stub and no skel of any HTP version: the app cannot reach the NPU", "-"))
    return rows or passed(" ".join(sorted(halves)))


def skels(app: App) -> Answer:
    """Check that every skel is for the DSP; other libraries for it are known by their machine alone."""
    skels = [lib for lib in app.libraries if lib.hexagon]
    if not skels:
        return skipped("it has no skel and no other library for a Hexagon DSP")
    rows = []
    for library in skels:
        elf = library.elf
        if elf and not is_for(elf, HEXAGON):
            rows.append(failed(f"ELF{elf.bits} {elf.machine}: not a library for a Hexagon DSP", library.place))
    return rows or passed(f"{count(len(skels), 'library')} for a Hexagon DSP, ELF32")


def _unknown() -> Answer:
    """Skip a check that needs the manifest; the check `manifest` says why there is none."""
    return skipped("no AndroidManifest.xml to check")


def cdsprpc(app: App) -> Answer:
    """Check that the app may load libcdsprpc.so, the system's library to reach the DSP."""
    if not _htp(app):
        return skipped("it has no HTP library")
    if "libcdsprpc.so" in app.declared:
        required = app.manifest and app.manifest.libraries.get("libcdsprpc.so", False)
        note = "; required: the app cannot be installed on a device without it" if required else ""
        return passed(f"libcdsprpc.so is declared{note}")
    if app.manifest is None:
        return _unknown()
    if 0 < app.manifest.target_sdk < 31:
        return passed(f"targets API {app.manifest.target_sdk}: must be declared only from 31 on")
    wanted = '<uses-native-library android:name="libcdsprpc.so" android:required="false"/>'
    return failed(f"<application> lacks {wanted}: the app cannot reach the DSP", "AndroidManifest.xml")


def extracted(app: App) -> Answer:
    """Check that the skel is unpacked to a file, as the DSP opens it."""
    if not any(lib.hexagon and lib.abi for lib in app.libraries):
        return skipped("no skel in an ABI's folder")
    if app.manifest is None:
        return _unknown()
    extract = app.manifest.extract
    if app.unpacked:
        return passed("libraries are unpacked when installed")
    if isinstance(extract, str):
        return unanswered(f"android:extractNativeLibs is {extract}: say true or false", "AndroidManifest.xml")
    text = "is false" if extract is False else "is not set"
    return failed(
        f"android:extractNativeLibs {text}: the DSP opens the skel as a file. "
        "Gradle: packaging.jniLibs.useLegacyPackaging = true",
        "AndroidManifest.xml",
    )


def adsp_path(app: App) -> Answer:
    """Advise on ADSP_LIBRARY_PATH, which tells the DSP where the skel is."""
    if not any(lib.hexagon for lib in app.libraries):
        return skipped("it has no skel")
    if app.adsp_path:
        return passed("the app's code sets it")
    advice = 'Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true) before the first model is loaded'
    return skipped(f"advice: {advice}" + ("" if app.adsp_path is None else "; no dex file names it"))


def count(number: int, what: str) -> str:
    """Return a number with its noun: `1 library`, `2 libraries`."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what[:-1]}ies" if what.endswith("y") else f"{number} {what}s"
