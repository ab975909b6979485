"""What check-apk asks of an app that uses QNN (docs/check-apk.md)."""

from __future__ import annotations

import re
from collections import defaultdict

from kz_build.checks.answers import MAIN, QNN, Row, answer, count, skip
from kz_build.core.result import Status
from kz_build.formats.app_types import App, Library

_PAIR = re.compile(r"libQnnHtp(V\d+)(Stub|Skel)\.so")


def _libraries(app: App) -> list[Library]:
    """The libraries of QNN itself."""
    return [lib for lib in app.libraries if lib.name.startswith("libQnn")]


def _htp(app: App) -> list[Library]:
    return [lib for lib in _libraries(app) if lib.name.startswith("libQnnHtp")]


def _contexts(app: App) -> bool:
    return any(model.qnn for model in app.models)


def runtime(app: App) -> list[Row]:
    """What the backend opens by name is there."""
    backend = any(lib.name == "libqnn_executorch_backend.so" for lib in app.libraries)
    if not (backend or _contexts(app)):
        return skip("nothing in it needs QNN")
    why = "libqnn_executorch_backend.so opens it" if backend else "a model was compiled for it"
    names = {lib.name for lib in _libraries(app) if lib.abi in (MAIN, "")}
    lost = [name for name in ("libQnnHtp.so", "libQnnSystem.so") if name not in names]
    return answer([(name, Status.FAIL, f"not in the app, and {why}") for name in lost], "libQnnHtp.so libQnnSystem.so")


def version(app: App) -> list[Row]:
    """All libraries that name a QNN version name the same."""
    libraries = _libraries(app)
    if not libraries and not _contexts(app):
        return skip("neither a QNN library nor a QNN context in it")
    by_version: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        for version in library.qnn:
            by_version[version].add(library.place)
    said = "; ".join(
        f"{version}: {', '.join(sorted(by_version[version]))}" for version in sorted(by_version, key=_order)
    )
    if not by_version:
        return [
            (
                "-",
                Status.ERROR,
                "no library of QNN says which version it is" if libraries else "there is no library of QNN",
            )
        ]
    return answer([("-", Status.FAIL, f"several versions: {said}")] if len(by_version) > 1 else [], said)


def models(app: App) -> list[Row]:
    """Every context was compiled by the version that the app has."""
    compiled = [model for model in app.models if model.qnn]
    if not compiled:
        return skip(f"no QNN context in {count(len(app.models), 'model')}")
    runtimes = sorted({v for lib in app.libraries for v in lib.qnn}, key=_order)
    if not runtimes:
        return [
            (m.place, Status.ERROR, f"compiled by {' '.join(m.qnn)}; which QNN the app has is unknown")
            for m in compiled
        ]
    rows = []
    for model in compiled:
        if set(model.qnn) != set(runtimes):
            newer = _order(max(model.qnn, key=_order)) > _order(runtimes[0])
            why = (
                "contexts do not load on an older QNN"
                if newer
                else "an older context may load, and may not be what was tried"
            )
            rows.append(
                (
                    model.place,
                    Status.FAIL,
                    f"compiled by {' '.join(model.qnn)}, the app has {' '.join(runtimes)}: {why}",
                )
            )
    return answer(rows, f"{count(len(compiled), 'model')}, compiled by {runtimes[0]}")


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def duplicates(app: App) -> list[Row]:
    """No QNN library is there twice with other bytes, no SONAME under two names."""
    found: dict[tuple[str, str], list[Library]] = defaultdict(list)
    for library in app.libraries:
        if QNN.fullmatch(library.name) or (library.elf and QNN.fullmatch(library.elf.soname)):
            found[library.abi or MAIN, library.name].append(library)
            if library.elf and library.elf.soname not in ("", library.name):
                found[library.abi or MAIN, library.elf.soname].append(library)
    if not found:
        return skip("no QNN library in it")
    rows, same = [], 0
    for (_, name), libraries in sorted(found.items()):
        places = ", ".join(f"{lib.place} ({lib.sha256[:8]})" for lib in libraries)
        if len({(lib.sha256, lib.name) for lib in libraries}) > 1:
            rows.append((name, Status.FAIL, f"in several places, and not the same: {places}"))
        same += len(libraries) > 1
    return answer(
        rows, f"{len(found)} names, each once" if not same else f"{same} twice with the same bytes: pickFirsts"
    )


def pairs(app: App) -> list[Row]:
    """To each HTP version's stub its skel, and at least one of both."""
    if not _htp(app):
        return skip("no HTP library in it")
    halves: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        if match := _PAIR.fullmatch(library.name):
            halves[match[1]].add(match[2])
    rows = []
    for arch, there in sorted(halves.items()):
        if len(there) == 1:
            lost = "Skel" if "Stub" in there else "Stub"
            rows.append((f"libQnnHtp{arch}{lost}.so", Status.FAIL, f"not in the app, while the {next(iter(there))} is"))
    if not halves:
        rows.append(("-", Status.FAIL, "neither stub nor skel of any HTP version: the NPU cannot be reached"))
    return answer(rows, " ".join(sorted(halves)))


def skels(app: App) -> list[Row]:
    """A skel is for the DSP."""
    skels = [lib for lib in app.libraries if lib.hexagon]
    if not skels:
        return skip("no skel in it")
    rows = []
    for library in skels:
        elf = library.elf
        if elf and (elf.bits, elf.machine) != (32, "EM_QDSP6"):
            rows.append((library.place, Status.FAIL, f"ELF{elf.bits} {elf.machine}: no library for a Hexagon DSP"))
    return answer(rows, f"{count(len(skels), 'skel')}, Hexagon ELF32")


def _unknown() -> list[Row]:
    """What only a manifest can answer: that there is none to read is the answer of its own check."""
    return skip("no app's manifest to ask")


def cdsprpc(app: App) -> list[Row]:
    """The app may load the system's way to the DSP."""
    if not _htp(app):
        return skip("no HTP library in it")
    if "libcdsprpc.so" in app.declared:
        required = app.manifest and app.manifest.libraries.get("libcdsprpc.so", False)
        note = "; required: it cannot be installed where there is none" if required else ""
        return [("-", Status.PASS, f"libcdsprpc.so is declared{note}")]
    if app.manifest is None:
        return _unknown()
    if 0 < app.manifest.target_sdk < 31:
        return [("-", Status.PASS, f"targets API {app.manifest.target_sdk}: only from 31 on it must be declared")]
    wanted = '<uses-native-library android:name="libcdsprpc.so" android:required="false"/>'
    return [("AndroidManifest.xml", Status.FAIL, f"<application> lacks {wanted}: the DSP cannot be reached")]


def extracted(app: App) -> list[Row]:
    """The skel will lie as a file where the DSP looks for it."""
    if not any(lib.hexagon and lib.abi for lib in app.libraries):
        return skip("no skel in an ABI's folder")
    if app.manifest is None:
        return _unknown()
    extract = app.manifest.extract
    # Without the attribute an APK's libraries are unpacked; Gradle and bundletool decide otherwise when they make one.
    if extract is True or (extract is None and app.kind == "apk"):
        return [("-", Status.PASS, "libraries are unpacked when installed")]
    if isinstance(extract, str):
        return [("AndroidManifest.xml", Status.ERROR, f"android:extractNativeLibs is {extract}: say true or false")]
    said = "is false" if extract is False else "is not said"
    return [
        ("AndroidManifest.xml", Status.FAIL, f"android:extractNativeLibs {said}: the DSP opens the skel as a file. "
         "Gradle: packaging.jniLibs.useLegacyPackaging = true")
    ]  # fmt: skip


def adsp_path(app: App) -> list[Row]:
    """Advice: does the app's code say where that is?"""
    if not any(lib.hexagon for lib in app.libraries):
        return skip("no skel in it")
    if app.adsp_path:
        return [("-", Status.PASS, "the app's code names it")]
    advice = 'Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true) before the first model is loaded'
    return skip(f"advice: {advice}" + ("" if app.adsp_path is None else "; no dex file names it"))
