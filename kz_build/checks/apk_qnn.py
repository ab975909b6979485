"""What check-apk asks of an app that uses QNN (docs/check-apk.md)."""

from __future__ import annotations

import re
from collections import defaultdict

from kz_build.checks.elf_rules import is_for
from kz_build.core.check import Answer, failed, passed, skipped, unanswered
from kz_build.formats.app_types import App, Library
from kz_build.formats.elf_types import HEXAGON
from kz_build.formats.pte_types import version_key

MAIN = "arm64-v8a"
QNN = re.compile(r"lib(Qnn\w+|qnn_executorch_backend)\.so")
"""What Qualcomm's SDK brings or is linked with it: made for arm64 alone."""
_PAIR = re.compile(r"libQnnHtp(V\d+)(Stub|Skel)\.so")


def _libraries(app: App) -> list[Library]:
    """The libraries of QNN itself."""
    return [lib for lib in app.libraries if lib.name.startswith("libQnn")]


def _htp(app: App) -> list[Library]:
    return [lib for lib in _libraries(app) if lib.name.startswith("libQnnHtp")]


def _contexts(app: App) -> bool:
    return any(model.qnn for model in app.models)


def runtime(app: App) -> Answer:
    """What the backend opens by name is there."""
    backend = any(lib.name == "libqnn_executorch_backend.so" for lib in app.libraries)
    if not (backend or _contexts(app)):
        return skipped("nothing in it needs QNN")
    why = "libqnn_executorch_backend.so opens it" if backend else "a model was compiled for it"
    names = {lib.name for lib in _libraries(app) if lib.abi in (MAIN, "")}
    lost = [name for name in ("libQnnHtp.so", "libQnnSystem.so") if name not in names]
    return [failed(f"not in the app, and {why}", name) for name in lost] or passed("libQnnHtp.so libQnnSystem.so")


def version(app: App) -> Answer:
    """All libraries that name a QNN version name the same."""
    libraries = _libraries(app)
    if not libraries and not _contexts(app):
        return skipped("neither a QNN library nor a QNN context in it")
    by_version: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        for version in library.qnn:
            by_version[version].add(library.place)
    said = "; ".join(
        f"{version}: {', '.join(sorted(by_version[version]))}" for version in sorted(by_version, key=version_key)
    )
    if not by_version:
        return unanswered("no library of QNN says which version it is" if libraries else "there is no library of QNN")
    return failed(f"several versions: {said}") if len(by_version) > 1 else passed(said)


def models(app: App) -> Answer:
    """Every context was compiled by the version that the app has."""
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
                else "an older context may load, and may not be what was tried"
            )
            rows.append(
                failed(f"compiled by {' '.join(model.qnn)}, the app has {' '.join(runtimes)}: {why}", model.place)
            )
    return rows or passed(f"{count(len(compiled), 'model')}, compiled by {runtimes[0]}")


def duplicates(app: App) -> Answer:
    """No QNN library is there twice with other bytes, no SONAME under two names."""
    found: dict[tuple[str, str], list[Library]] = defaultdict(list)
    for library in app.libraries:
        if QNN.fullmatch(library.name) or (library.elf and QNN.fullmatch(library.elf.soname)):
            found[library.abi or MAIN, library.name].append(library)
            if library.elf and library.elf.soname not in ("", library.name):
                found[library.abi or MAIN, library.elf.soname].append(library)
    if not found:
        return skipped("no QNN library in it")
    rows, same = [], 0
    for (_, name), libraries in sorted(found.items()):
        places = ", ".join(f"{lib.place} ({lib.sha256[:8]})" for lib in libraries)
        if len({(lib.sha256, lib.name) for lib in libraries}) > 1:
            rows.append(failed(f"in several places, and not the same: {places}", name))
        same += len(libraries) > 1
    return rows or passed(
        f"{len(found)} names, each once" if not same else f"{same} twice with the same bytes: pickFirsts"
    )


def pairs(app: App) -> Answer:
    """To each HTP version's stub its skel, and at least one of both."""
    if not _htp(app):
        return skipped("no HTP library in it")
    halves: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        if match := _PAIR.fullmatch(library.name):
            halves[match[1]].add(match[2])
    rows = []
    for arch, there in sorted(halves.items()):
        if len(there) == 1:
            lost = "Skel" if "Stub" in there else "Stub"
            rows.append(failed(f"not in the app, while the {next(iter(there))} is", f"libQnnHtp{arch}{lost}.so"))
    if not halves:
        rows.append(failed("neither stub nor skel of any HTP version: the NPU cannot be reached", "-"))
    return rows or passed(" ".join(sorted(halves)))


def skels(app: App) -> Answer:
    """A skel is for the DSP."""
    skels = [lib for lib in app.libraries if lib.hexagon]
    if not skels:
        return skipped("no skel in it")
    rows = []
    for library in skels:
        elf = library.elf
        if elf and not is_for(elf, HEXAGON):
            rows.append(failed(f"ELF{elf.bits} {elf.machine}: no library for a Hexagon DSP", library.place))
    return rows or passed(f"{count(len(skels), 'skel')}, Hexagon ELF32")


def _unknown() -> Answer:
    """What only a manifest can answer: that there is none to read is the answer of its own check."""
    return skipped("no app's manifest to ask")


def cdsprpc(app: App) -> Answer:
    """The app may load the system's way to the DSP."""
    if not _htp(app):
        return skipped("no HTP library in it")
    if "libcdsprpc.so" in app.declared:
        required = app.manifest and app.manifest.libraries.get("libcdsprpc.so", False)
        note = "; required: it cannot be installed where there is none" if required else ""
        return passed(f"libcdsprpc.so is declared{note}")
    if app.manifest is None:
        return _unknown()
    if 0 < app.manifest.target_sdk < 31:
        return passed(f"targets API {app.manifest.target_sdk}: only from 31 on it must be declared")
    wanted = '<uses-native-library android:name="libcdsprpc.so" android:required="false"/>'
    return failed(f"<application> lacks {wanted}: the DSP cannot be reached", "AndroidManifest.xml")


def extracted(app: App) -> Answer:
    """The skel will lie as a file where the DSP looks for it."""
    if not any(lib.hexagon and lib.abi for lib in app.libraries):
        return skipped("no skel in an ABI's folder")
    if app.manifest is None:
        return _unknown()
    extract = app.manifest.extract
    # Without the attribute an APK's libraries are unpacked; Gradle and bundletool decide otherwise when they make one.
    if extract is True or (extract is None and app.kind == "apk"):
        return passed("libraries are unpacked when installed")
    if isinstance(extract, str):
        return unanswered(f"android:extractNativeLibs is {extract}: say true or false", "AndroidManifest.xml")
    said = "is false" if extract is False else "is not said"
    return failed(
        f"android:extractNativeLibs {said}: the DSP opens the skel as a file. "
        "Gradle: packaging.jniLibs.useLegacyPackaging = true",
        "AndroidManifest.xml",
    )


def adsp_path(app: App) -> Answer:
    """Advice: does the app's code say where that is?"""
    if not any(lib.hexagon for lib in app.libraries):
        return skipped("no skel in it")
    if app.adsp_path:
        return passed("the app's code names it")
    advice = 'Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true) before the first model is loaded'
    return skipped(f"advice: {advice}" + ("" if app.adsp_path is None else "; no dex file names it"))


def count(number: int, what: str) -> str:
    """`1 library`, `2 libraries`."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what[:-1]}ies" if what.endswith("y") else f"{number} {what}s"
