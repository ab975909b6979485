"""check-apk: check, without a device, that the libraries and models of an app fit each other (docs/reference/verbs/check-apk.md)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from kz_build.checks import apk_qnn
from kz_build.checks.apk_qnn import MAIN, QNN, count
from kz_build.checks.elf_rules import PAGE, aligned, is_for, lacking, lacking_cxx, names
from kz_build.core.check import Answer, Check, ask, failed, passed, skipped, unanswered
from kz_build.core.escape import one_line
from kz_build.formats.app import PARTS, read_app, read_folder, with_models
from kz_build.formats.app_types import App, Library
from kz_build.formats.elf_types import MACHINES, Elf

# What the NDK lets every app link with (developer.android.com, "Android NDK native APIs").
SYSTEM = frozenset({
    "libEGL.so", "libGLESv1_CM.so", "libGLESv2.so", "libGLESv3.so", "libOpenMAXAL.so", "libOpenSLES.so", "libaaudio.so",
    "libamidi.so", "libandroid.so", "libbinder_ndk.so", "libc.so", "libcamera2ndk.so", "libdl.so", "libicu.so",
    "libjnigraphics.so", "liblog.so", "libm.so", "libmediandk.so", "libnativehelper.so", "libnativewindow.so",
    "libneuralnetworks.so", "libstdc++.so", "libsync.so", "libvulkan.so", "libz.so",
})  # fmt: skip

_MOST_SYMBOLS = 3
_VARIANT = re.compile(
    r"[_.-](android[_.-])?(arm(64|v\d+a?|eabi)?|v[789](fp16)?|x86|x64|neon|vfpv\d|dotprod|i8mm|sve\d?|sme\d?|sse\d*|avx\d*)(?![a-z])"
)
"""The mark of an ABI or of a processor's feature in a library's name: an app loads the one of these that fits."""


def check_apk(files: tuple[Path, ...], bundle: Path | None) -> tuple[Check, ...]:
    """Check an app (the first file, with its other APKs and AARs), or a folder with parts of one, and the models beside it.

    Raises AuditError for a file that cannot be read at all.
    """
    parts = [] if bundle else [file for file in files if file is files[0] or file.suffix in PARTS]
    app = read_folder(bundle) if bundle else read_app(*parts)
    return ask(with_models(app, [file for file in files if file not in parts]), _CHECKS, "-")


def _by_abi(app: App) -> dict[str, list[Library]]:
    by_abi = defaultdict(list)
    for library in app.libraries:
        if library.abi:
            by_abi[library.abi].append(library)
    return dict(sorted(by_abi.items()))


def _in_abis(app: App) -> list[Library]:
    return [library for library in app.libraries if library.abi and not library.hexagon]


def _manifest(app: App) -> Answer:
    if app.manifest_problem:
        return unanswered(app.manifest_problem, "AndroidManifest.xml")
    if app.manifest is None:
        return skipped("there is no app's AndroidManifest.xml: check the APK too")
    return passed(one_line(app.manifest.package))


def _abi(app: App) -> Answer:
    """Check that each ABI has every library: Android takes the folder of one ABI and no other."""
    folders = _by_abi(app)
    if not folders:
        return failed("no ABI's folder has a library")
    rows = [failed("Android knows no such ABI", abi) for abi in folders if abi not in MACHINES]
    present = {abi: {lib.name for lib in libs} for abi, libs in folders.items()}
    every = {n for abi in present for n in present[abi]}
    # Qualcomm makes its runtime for arm64 alone, and other libraries for its DSP lie beside that.
    qualcomm = {lib.name for lib in app.libraries if lib.hexagon or QNN.fullmatch(lib.name)}
    for abi in sorted({MAIN, *present} & {MAIN, *MACHINES}):
        own = present.get(abi, set())
        kinds = {_kind(name) for name in own}
        missing = sorted(
            n
            for n in every - own
            if (abi == MAIN or n not in qualcomm) and not (_VARIANT.search(n) and _kind(n) in kinds)
        )
        if abi not in present:
            rows.append(failed(f"it has no library, only these have: {', '.join(present)}", abi))
        elif missing:
            others = sorted({other for other in present if present[other] & set(missing)})
            rows.append(failed(f"half-filled: {' '.join(missing)} only for {', '.join(others)}", abi))
    return rows or passed(", ".join(f"{abi}: {count(len(present[abi]), 'library')}" for abi in present))


def _kind(name: str) -> str:
    """Return a library's name without the mark of what it was built for: `libggml-cpu` of `libggml-cpu-android_armv8.2_1.so`."""
    return _VARIANT.split(name.removesuffix(".so"), maxsplit=1)[0]


def _elf(app: App) -> Answer:
    if not app.libraries:
        return skipped("it has no library")
    rows: list[Check] = []
    for library in app.libraries:
        if library.elf is None:
            rows.append(unanswered(library.problem, library.place))
        elif library.abi in MACHINES and not library.hexagon:
            elf = library.elf
            if not is_for(elf, MACHINES[library.abi]) or elf.kind != "ET_DYN":
                rows.append(
                    failed(f"ELF{elf.bits} {elf.machine} {elf.kind} in a folder of {library.abi}", library.place)
                )
    return rows or passed(count(len(_in_abis(app)), "library") + ", each for its folder's ABI")


def _pages(app: App) -> Answer:
    libraries = [(lib.place, lib.elf) for lib in _in_abis(app) if lib.elf and lib.elf.bits == 64]
    if not libraries:
        return skipped("no 64-bit library: 16 KB pages concern only those")
    rows = []
    for place, elf in libraries:
        if not aligned(elf):
            least = min(elf.alignments, default=0)
            rows.append(failed(f"a PT_LOAD is aligned to {least:,} bytes: link with -z max-page-size=16384", place))
        elif not elf.congruent:
            rows.append(failed("a PT_LOAD's address and offset disagree", place))
    return rows or passed(f"{len(libraries)} 64-bit: every PT_LOAD aligned to 16 KB")


def _zip(app: App) -> Answer:
    if app.kind == "aab":
        return skipped("a bundle's APKs are made later: check one that bundletool makes from it")
    libraries = [lib for lib in app.libraries if lib.stored is not None and lib.abi]
    if not libraries:
        return skipped("no APK has a library")
    extract = app.manifest.extract if app.manifest else None
    rows: list[Check] = []
    for library in libraries:
        if library.stored and library.offset % PAGE and not app.unpacked:
            rows.append(
                failed(f"stored at byte {library.offset:,}, not a multiple of 16,384: zipalign -P 16 4", library.place)
            )
        elif not library.stored and extract is False:
            rows.append(
                failed("compressed, while android:extractNativeLibs is false: it cannot be loaded", library.place)
            )
        elif not library.stored and isinstance(extract, str):
            rows.append(
                unanswered(f"compressed, and android:extractNativeLibs is {extract}: say true or false", library.place)
            )
    stored = sum(bool(lib.stored) for lib in libraries)
    placed = f"{stored} stored{', unpacked when installed' if app.unpacked else ' at 16 KB'}" if stored else ""
    packed = f"{len(libraries) - stored} compressed, unpacked when installed" if len(libraries) > stored else ""
    return rows or passed(", ".join(x for x in (placed, packed) if x))


def _needed(app: App) -> Answer:
    rows, elsewhere = [], set[str]()
    for abi, libraries in _by_abi(app).items():
        own = [lib for lib in libraries if not lib.hexagon]
        there = {lib.name for lib in own} | names(_elves(own)) | SYSTEM | app.declared
        for library in own:
            if library.elf and (missing := lacking(library.elf, there)):
                elsewhere.update(missing)
                rows.append(failed(f"neither in the system nor in {abi}: {' '.join(missing)}", library.place))
    if not _in_abis(app):
        return skipped("no library in an ABI's folder")
    if rows and app.kind == "aar":
        return skipped(f"the app must have {' '.join(sorted(elsewhere))} too: check both together")
    return rows or passed("each library finds what it needs")


def _elves(libraries: list[Library]) -> dict[str, Elf]:
    return {lib.name: lib.elf for lib in libraries if lib.elf and not lib.hexagon}


def _cxx_runtime(app: App) -> Answer:
    """Check that the C++ runtime of an ABI defines what its libraries, built by any NDK, take from it."""
    rows, wanted = [], 0
    for libraries in _by_abi(app).values():
        elves = _elves(libraries)
        wanted += sum(bool(elf.cxx_imports) for elf in elves.values())
        missing = lacking_cxx(elves, SYSTEM | app.declared)
        for library in libraries:
            if symbols := missing.get(library.name):
                first = " ".join(symbols[:_MOST_SYMBOLS]) + (" …" if len(symbols) > _MOST_SYMBOLS else "")
                rows.append(
                    failed(f"{count(len(symbols), 'C++ symbol')} in no library that it loads: {first}", library.place)
                )
    if not wanted:
        return skipped("no library takes C++ symbols from another one")
    return rows or passed(f"{count(wanted, 'library')} with C++ symbols from others")


def _duplicates(app: App) -> Answer:
    """Check for a library that is there twice with different bytes, and a QNN library's SONAME under two names.

    Only QNN's are looked for outside of the ABIs' folders too: those are opened by path.
    """
    by_name: dict[tuple[str, str], list[Library]] = defaultdict(list)
    for library in app.libraries:
        soname = library.elf.soname if library.elf else ""
        if library.abi or QNN.fullmatch(library.name) or QNN.fullmatch(soname):
            by_name[library.abi or MAIN, library.name].append(library)
            if soname != library.name and QNN.fullmatch(soname):
                by_name[library.abi or MAIN, soname].append(library)
    if not by_name:
        return skipped("it has no library in an ABI's folder")
    rows, same = [], 0
    for (_, name), libraries in sorted(by_name.items()):
        places = ", ".join(f"{lib.place} ({lib.sha256[:8]})" for lib in libraries)
        if len({(lib.sha256, lib.name) for lib in libraries}) > 1:
            rows.append(failed(f"in several places, with different content: {places}", name))
        same += len(libraries) > 1
    once = f"{count(len({name for _, name in by_name}), 'name')}, each once"
    return rows or passed(once if not same else f"{same} twice with the same bytes: pickFirsts")


_CHECKS: Mapping[str, Callable[[App], Answer]] = {
    "manifest": _manifest, "abi": _abi, "elf": _elf, "pages-16k": _pages, "zip-align": _zip, "needed": _needed,
    "cxx-runtime": _cxx_runtime, "duplicates": _duplicates,
    "qnn-runtime": apk_qnn.runtime, "qnn-version": apk_qnn.version, "qnn-models": apk_qnn.models,
    "htp-pairs": apk_qnn.pairs, "skel": apk_qnn.skels, "cdsprpc": apk_qnn.cdsprpc, "extracted": apk_qnn.extracted, "adsp-path": apk_qnn.adsp_path,
}  # fmt: skip
