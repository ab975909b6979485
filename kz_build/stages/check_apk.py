"""check-apk: do the libraries and models of one app fit each other? Asked without a device (docs/check-apk.md)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kz_build.adapters.app import read_app, read_folder, with_models
from kz_build.model.app import App, Library
from kz_build.model.checks import CheckResult, Status

PAGE = 16384
MAIN = "arm64-v8a"
_MACHINES = {
    "arm64-v8a": (64, "EM_AARCH64"), "armeabi-v7a": (32, "EM_ARM"), "armeabi": (32, "EM_ARM"), "x86": (32, "EM_386"),
    "x86_64": (64, "EM_X86_64"), "riscv64": (64, "EM_RISCV"),
}  # fmt: skip
# What the NDK lets every app link with (developer.android.com, "Android NDK native APIs").
SYSTEM = frozenset(
    f"lib{name}.so"
    for name in [
        "EGL",
        "GLESv1_CM",
        "GLESv2",
        "GLESv3",
        "OpenMAXAL",
        "OpenSLES",
        "aaudio",
        "amidi",
        "android",
        "binder_ndk",
        "c",
        "camera2ndk",
        "dl",
        "icu",
        "jnigraphics",
        "log",
        "m",
        "mediandk",
        "nativehelper",
        "nativewindow",
        "neuralnetworks",
        "stdc++",
        "sync",
        "vulkan",
        "z",
    ]
)
_PAIR = re.compile(r"libQnnHtp(V\d+)(Stub|Skel)\.so")
_QNN = re.compile(r"lib(Qnn\w+|qnn_executorch_backend)\.so")
_PASS, _FAIL, _SKIP, _ERROR = Status.PASS, Status.FAIL, Status.SKIP, Status.ERROR
_Row = tuple[str, Status, str]


def check_apk(files: tuple[Path, ...], bundle: Path | None) -> tuple[CheckResult, ...]:
    """Read an app (the first file) or a folder with parts of one, and models beside it; ask every check.

    Raises AuditError for what cannot be read at all.
    """
    app, models = (read_folder(bundle), files) if bundle else (read_app(files[0]), files[1:])
    return check(with_models(app, models))


def check(app: App) -> tuple[CheckResult, ...]:
    """Every check of an app: a row for each file that fails it, else one row. What is not PASS and was asked fails."""
    return tuple(
        CheckResult(place, name, status, evidence, status is not _SKIP)
        for name, ask in _CHECKS.items()
        for place, status, evidence in ask(app)
    )


def _answer(bad: Iterable[_Row], good: str) -> list[_Row]:
    return list(bad) or [("-", _PASS, good)]


def _skip(reason: str) -> list[_Row]:
    return [("-", _SKIP, reason)]


def _count(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} {what[:-1]}ies" if what.endswith("y") else f"{number} {what}s"


def _by_abi(app: App) -> dict[str, list[Library]]:
    found = defaultdict(list)
    for library in app.libraries:
        if library.abi:
            found[library.abi].append(library)
    return dict(sorted(found.items()))


def _in_abis(app: App) -> list[Library]:
    return [library for library in app.libraries if library.abi and not library.hexagon]


def _manifest(app: App) -> list[_Row]:
    if app.manifest_problem:
        return [("AndroidManifest.xml", _ERROR, app.manifest_problem)]
    if app.manifest is None:
        return _skip("no app's manifest in this folder: check the APK too")
    return [("-", _PASS, app.manifest.package)]


def _abi(app: App) -> list[_Row]:
    """Android takes one ABI's folder and no other: what lacks there is not there."""
    folders = _by_abi(app)
    if not folders:
        return [("-", _FAIL, "there is no library in an ABI's folder")]
    rows = [(abi, _FAIL, "no ABI that Android knows") for abi in folders if abi not in _MACHINES]
    names = {abi: {lib.name for lib in libs} for abi, libs in folders.items()}
    every = {n for abi in names for n in names[abi]}
    for abi in sorted({MAIN, *names} & {MAIN, *_MACHINES}):
        # Qualcomm makes its runtime for arm64 alone.
        lost = sorted(n for n in every - names.get(abi, set()) if abi == MAIN or not _QNN.fullmatch(n))
        if abi not in names:
            rows.append((abi, _FAIL, f"no library for it, only for {', '.join(names)}"))
        elif lost:
            having = sorted({other for other in names if names[other] & set(lost)})
            rows.append((abi, _FAIL, f"half-filled: {' '.join(lost)} only for {', '.join(having)}"))
    return _answer(rows, ", ".join(f"{abi}: {_count(len(names[abi]), 'library')}" for abi in names))


def _elf(app: App) -> list[_Row]:
    rows: list[_Row] = []
    for library in app.libraries:
        if library.elf is None:
            rows.append((library.place, _ERROR, library.problem))
        elif library.abi in _MACHINES and not library.hexagon:
            elf = library.elf
            if (elf.bits, elf.machine, elf.kind) != (*_MACHINES[library.abi], "ET_DYN"):
                rows.append(
                    (library.place, _FAIL, f"ELF{elf.bits} {elf.machine} {elf.kind} in a folder of {library.abi}")
                )
    return _answer(rows, _count(len(_in_abis(app)), "library") + ", each for its folder's ABI")


def _pages(app: App) -> list[_Row]:
    asked = [lib for lib in _in_abis(app) if lib.elf and lib.elf.bits == 64]
    if not asked:
        return _skip("no 64-bit library: only they meet 16 KB pages")
    rows = []
    for library in asked:
        elf = library.elf
        assert elf
        if not elf.alignments or any(a < PAGE or a % PAGE for a in elf.alignments):
            least = min(elf.alignments, default=0)
            rows.append(
                (library.place, _FAIL, f"a PT_LOAD is aligned to {least:,} bytes: link with -z max-page-size=16384")
            )
        elif not elf.congruent:
            rows.append((library.place, _FAIL, "addresses of a PT_LOAD do not fit its offsets"))
    return _answer(rows, f"{len(asked)} 64-bit: every PT_LOAD aligned to 16 KB")


def _zip(app: App) -> list[_Row]:
    if app.kind == "aab":
        return _skip("a bundle's APKs are made later: check one that bundletool made of it")
    asked = [lib for lib in app.libraries if lib.stored is not None and lib.abi]
    if not asked:
        return _skip("no library lies in an APK")
    extract = app.manifest.extract if app.manifest else None
    rows: list[_Row] = []
    for library in asked:
        if library.stored and library.offset % PAGE:
            rows.append(
                (library.place, _FAIL, f"stored at byte {library.offset:,}, no multiple of 16,384: zipalign -P 16 4")
            )
        elif not library.stored and extract is False:
            rows.append(
                (library.place, _FAIL, "compressed, while android:extractNativeLibs is false: it cannot be loaded")
            )
        elif not library.stored and isinstance(extract, str):
            rows.append(
                (library.place, _ERROR, f"compressed, and android:extractNativeLibs is {extract}: say true or false")
            )
    stored = sum(bool(lib.stored) for lib in asked)
    packed = f"{len(asked) - stored} compressed, unpacked when installed" if len(asked) > stored else ""
    return _answer(rows, ", ".join(x for x in (f"{stored} stored at 16 KB" if stored else "", packed) if x))


def _needed(app: App) -> list[_Row]:
    rows = []
    for abi, libraries in _by_abi(app).items():
        own = [lib for lib in libraries if not lib.hexagon]
        there = {lib.name for lib in own} | {lib.elf.soname for lib in own if lib.elf} | SYSTEM | app.declared
        for library in own:
            if library.elf and (lost := [n for n in library.elf.needed if n not in there]):
                rows.append((library.place, _FAIL, f"neither the system's nor in {abi}: {' '.join(lost)}"))
    return (
        _answer(rows, "each library finds what it needs") if _in_abis(app) else _skip("no library in an ABI's folder")
    )


def _runtime(app: App) -> list[Library]:
    """The libraries of QNN itself."""
    return [lib for lib in app.libraries if lib.name.startswith("libQnn")]


def _htp(app: App) -> list[Library]:
    return [lib for lib in _runtime(app) if lib.name.startswith("libQnnHtp")]


def _contexts(app: App) -> bool:
    return any(model.qnn for model in app.models)


def _qnn_runtime(app: App) -> list[_Row]:
    backend = any(lib.name == "libqnn_executorch_backend.so" for lib in app.libraries)
    if not (backend or _contexts(app)):
        return _skip("nothing in it needs QNN")
    why = "libqnn_executorch_backend.so opens it" if backend else "a model was compiled for it"
    names = {lib.name for lib in _runtime(app) if lib.abi in (MAIN, "")}
    lost = [name for name in ("libQnnHtp.so", "libQnnSystem.so") if name not in names]
    return _answer([(name, _FAIL, f"not in the app, and {why}") for name in lost], "libQnnHtp.so libQnnSystem.so")


def _qnn_version(app: App) -> list[_Row]:
    runtime = _runtime(app)
    if not runtime and not _contexts(app):
        return _skip("neither a QNN library nor a QNN context in it")
    by_version: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        for version in library.qnn:
            by_version[version].add(library.place)
    said = "; ".join(
        f"{version}: {', '.join(sorted(by_version[version]))}" for version in sorted(by_version, key=_order)
    )
    if not by_version:
        return [
            ("-", _ERROR, "no library of QNN says which version it is" if runtime else "there is no library of QNN")
        ]
    return _answer([("-", _FAIL, f"several versions: {said}")] if len(by_version) > 1 else [], said)


def _qnn_models(app: App) -> list[_Row]:
    compiled = [model for model in app.models if model.qnn]
    if not compiled:
        return _skip(f"no QNN context in {_count(len(app.models), 'model')}")
    runtimes = sorted({v for lib in app.libraries for v in lib.qnn}, key=_order)
    if not runtimes:
        return [(m.place, _ERROR, f"compiled by {' '.join(m.qnn)}; which QNN the app has is unknown") for m in compiled]
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
                (model.place, _FAIL, f"compiled by {' '.join(model.qnn)}, the app has {' '.join(runtimes)}: {why}")
            )
    return _answer(rows, f"{_count(len(compiled), 'model')}, compiled by {runtimes[0]}")


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _duplicates(app: App) -> list[_Row]:
    found: dict[tuple[str, str], list[Library]] = defaultdict(list)
    for library in app.libraries:
        if _QNN.fullmatch(library.name) or (library.elf and _QNN.fullmatch(library.elf.soname)):
            found[library.abi or MAIN, library.name].append(library)
            if library.elf and library.elf.soname not in ("", library.name):
                found[library.abi or MAIN, library.elf.soname].append(library)
    if not found:
        return _skip("no QNN library in it")
    rows, same = [], 0
    for (_, name), libraries in sorted(found.items()):
        places = ", ".join(f"{lib.place} ({lib.sha256[:8]})" for lib in libraries)
        if len({(lib.sha256, lib.name) for lib in libraries}) > 1:
            rows.append((name, _FAIL, f"in several places, and not the same: {places}"))
        same += len(libraries) > 1
    return _answer(
        rows, f"{len(found)} names, each once" if not same else f"{same} twice with the same bytes: pickFirsts"
    )


def _pairs(app: App) -> list[_Row]:
    if not _htp(app):
        return _skip("no HTP library in it")
    halves: dict[str, set[str]] = defaultdict(set)
    for library in app.libraries:
        if match := _PAIR.fullmatch(library.name):
            halves[match[1]].add(match[2])
    rows = []
    for arch, there in sorted(halves.items()):
        if len(there) == 1:
            lost = "Skel" if "Stub" in there else "Stub"
            rows.append((f"libQnnHtp{arch}{lost}.so", _FAIL, f"not in the app, while the {next(iter(there))} is"))
    if not halves:
        rows.append(("-", _FAIL, "neither stub nor skel of any HTP version: the NPU cannot be reached"))
    return _answer(rows, " ".join(sorted(halves)))


def _skels(app: App) -> list[_Row]:
    skels = [lib for lib in app.libraries if lib.hexagon]
    if not skels:
        return _skip("no skel in it")
    rows = []
    for library in skels:
        elf = library.elf
        if elf and (elf.bits, elf.machine) != (32, "EM_QDSP6"):
            rows.append((library.place, _FAIL, f"ELF{elf.bits} {elf.machine}: no library for a Hexagon DSP"))
    return _answer(rows, f"{_count(len(skels), 'skel')}, Hexagon ELF32")


def _unknown() -> list[_Row]:
    """What only a manifest can answer: that there is none to read is the answer of its own check."""
    return _skip("no app's manifest to ask")


def _cdsprpc(app: App) -> list[_Row]:
    if not _htp(app):
        return _skip("no HTP library in it")
    if "libcdsprpc.so" in app.declared:
        required = app.manifest and app.manifest.libraries.get("libcdsprpc.so", False)
        note = "; required: it cannot be installed where there is none" if required else ""
        return [("-", _PASS, f"libcdsprpc.so is declared{note}")]
    if app.manifest is None:
        return _unknown()
    if 0 < app.manifest.target_sdk < 31:
        return [("-", _PASS, f"targets API {app.manifest.target_sdk}: only from 31 on it must be declared")]
    wanted = '<uses-native-library android:name="libcdsprpc.so" android:required="false"/>'
    return [("AndroidManifest.xml", _FAIL, f"<application> lacks {wanted}: the DSP cannot be reached")]


def _extracted(app: App) -> list[_Row]:
    if not any(lib.hexagon and lib.abi for lib in app.libraries):
        return _skip("no skel in an ABI's folder")
    if app.manifest is None:
        return _unknown()
    extract = app.manifest.extract
    # Without the attribute an APK's libraries are unpacked; Gradle and bundletool decide otherwise when they make one.
    if extract is True or (extract is None and app.kind == "apk"):
        return [("-", _PASS, "libraries are unpacked when installed")]
    if isinstance(extract, str):
        return [("AndroidManifest.xml", _ERROR, f"android:extractNativeLibs is {extract}: say true or false")]
    said = "is false" if extract is False else "is not said"
    return [
        ("AndroidManifest.xml", _FAIL, f"android:extractNativeLibs {said}: the DSP opens the skel as a file. "
         "Gradle: packaging.jniLibs.useLegacyPackaging = true")
    ]  # fmt: skip


def _adsp(app: App) -> list[_Row]:
    if not any(lib.hexagon for lib in app.libraries):
        return _skip("no skel in it")
    if app.adsp_path:
        return [("-", _PASS, "the app's code names it")]
    advice = 'Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true) before the first model is loaded'
    return _skip(f"advice: {advice}" + ("" if app.adsp_path is None else "; no dex file names it"))


_CHECKS: Mapping[str, Callable[[App], list[_Row]]] = {
    "manifest": _manifest, "abi": _abi, "elf": _elf, "pages-16k": _pages, "zip-align": _zip, "needed": _needed, "qnn-runtime": _qnn_runtime,
    "qnn-version": _qnn_version, "qnn-models": _qnn_models, "duplicates": _duplicates, "htp-pairs": _pairs, "skel": _skels,
    "cdsprpc": _cdsprpc, "extracted": _extracted, "adsp-path": _adsp,
}  # fmt: skip
