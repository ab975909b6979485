"""check-apk: do the libraries and models of one app fit each other? Asked without a device (docs/check-apk.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from kz_build.checks import apk_qnn
from kz_build.checks.answers import MAIN, QNN, Row, answer, count, skip
from kz_build.core.result import CheckResult, Status
from kz_build.formats.app import read_app, read_folder, with_models
from kz_build.formats.app_types import App, Library

PAGE = 16384
# ABI -> class and machine of its libraries.
_MACHINES = {
    "arm64-v8a": (64, "EM_AARCH64"), "armeabi-v7a": (32, "EM_ARM"), "armeabi": (32, "EM_ARM"), "x86": (32, "EM_386"),
    "x86_64": (64, "EM_X86_64"), "riscv64": (64, "EM_RISCV"),
}  # fmt: skip
# What the NDK lets every app link with (developer.android.com, "Android NDK native APIs").
SYSTEM = frozenset({
    "libEGL.so", "libGLESv1_CM.so", "libGLESv2.so", "libGLESv3.so", "libOpenMAXAL.so", "libOpenSLES.so", "libaaudio.so",
    "libamidi.so", "libandroid.so", "libbinder_ndk.so", "libc.so", "libcamera2ndk.so", "libdl.so", "libicu.so",
    "libjnigraphics.so", "liblog.so", "libm.so", "libmediandk.so", "libnativehelper.so", "libnativewindow.so",
    "libneuralnetworks.so", "libstdc++.so", "libsync.so", "libvulkan.so", "libz.so",
})  # fmt: skip


def check_apk(files: tuple[Path, ...], bundle: Path | None) -> tuple[CheckResult, ...]:
    """Read an app (the first file) or a folder with parts of one, and models beside it; ask every check.

    Raises AuditError for what cannot be read at all.
    """
    app, models = (read_folder(bundle), files) if bundle else (read_app(files[0]), files[1:])
    return check(with_models(app, models))


def check(app: App) -> tuple[CheckResult, ...]:
    """Every check of an app: a row for each file that fails it, else one row. What is not PASS and was asked fails."""
    return tuple(
        CheckResult(place, name, status, evidence, status is not Status.SKIP)
        for name, ask in _CHECKS.items()
        for place, status, evidence in ask(app)
    )


def _by_abi(app: App) -> dict[str, list[Library]]:
    found = defaultdict(list)
    for library in app.libraries:
        if library.abi:
            found[library.abi].append(library)
    return dict(sorted(found.items()))


def _in_abis(app: App) -> list[Library]:
    return [library for library in app.libraries if library.abi and not library.hexagon]


def _manifest(app: App) -> list[Row]:
    if app.manifest_problem:
        return [("AndroidManifest.xml", Status.ERROR, app.manifest_problem)]
    if app.manifest is None:
        return skip("no app's manifest in this folder: check the APK too")
    return [("-", Status.PASS, app.manifest.package)]


def _abi(app: App) -> list[Row]:
    """Android takes one ABI's folder and no other: what lacks there is not there."""
    folders = _by_abi(app)
    if not folders:
        return [("-", Status.FAIL, "there is no library in an ABI's folder")]
    rows = [(abi, Status.FAIL, "no ABI that Android knows") for abi in folders if abi not in _MACHINES]
    names = {abi: {lib.name for lib in libs} for abi, libs in folders.items()}
    every = {n for abi in names for n in names[abi]}
    for abi in sorted({MAIN, *names} & {MAIN, *_MACHINES}):
        # Qualcomm makes its runtime for arm64 alone.
        lost = sorted(n for n in every - names.get(abi, set()) if abi == MAIN or not QNN.fullmatch(n))
        if abi not in names:
            rows.append((abi, Status.FAIL, f"no library for it, only for {', '.join(names)}"))
        elif lost:
            having = sorted({other for other in names if names[other] & set(lost)})
            rows.append((abi, Status.FAIL, f"half-filled: {' '.join(lost)} only for {', '.join(having)}"))
    return answer(rows, ", ".join(f"{abi}: {count(len(names[abi]), 'library')}" for abi in names))


def _elf(app: App) -> list[Row]:
    if not app.libraries:
        return skip("no library in it")
    rows: list[Row] = []
    for library in app.libraries:
        if library.elf is None:
            rows.append((library.place, Status.ERROR, library.problem))
        elif library.abi in _MACHINES and not library.hexagon:
            elf = library.elf
            if (elf.bits, elf.machine, elf.kind) != (*_MACHINES[library.abi], "ET_DYN"):
                rows.append(
                    (library.place, Status.FAIL, f"ELF{elf.bits} {elf.machine} {elf.kind} in a folder of {library.abi}")
                )
    return answer(rows, count(len(_in_abis(app)), "library") + ", each for its folder's ABI")


def _pages(app: App) -> list[Row]:
    asked = [lib for lib in _in_abis(app) if lib.elf and lib.elf.bits == 64]
    if not asked:
        return skip("no 64-bit library: only they meet 16 KB pages")
    rows = []
    for library in asked:
        elf = library.elf
        assert elf
        if not elf.alignments or any(a < PAGE or a % PAGE for a in elf.alignments):
            least = min(elf.alignments, default=0)
            rows.append(
                (
                    library.place,
                    Status.FAIL,
                    f"a PT_LOAD is aligned to {least:,} bytes: link with -z max-page-size=16384",
                )
            )
        elif not elf.congruent:
            rows.append((library.place, Status.FAIL, "addresses of a PT_LOAD do not fit its offsets"))
    return answer(rows, f"{len(asked)} 64-bit: every PT_LOAD aligned to 16 KB")


def _zip(app: App) -> list[Row]:
    if app.kind == "aab":
        return skip("a bundle's APKs are made later: check one that bundletool made of it")
    asked = [lib for lib in app.libraries if lib.stored is not None and lib.abi]
    if not asked:
        return skip("no library lies in an APK")
    extract = app.manifest.extract if app.manifest else None
    rows: list[Row] = []
    for library in asked:
        if library.stored and library.offset % PAGE:
            rows.append(
                (
                    library.place,
                    Status.FAIL,
                    f"stored at byte {library.offset:,}, no multiple of 16,384: zipalign -P 16 4",
                )
            )
        elif not library.stored and extract is False:
            rows.append(
                (
                    library.place,
                    Status.FAIL,
                    "compressed, while android:extractNativeLibs is false: it cannot be loaded",
                )
            )
        elif not library.stored and isinstance(extract, str):
            rows.append(
                (
                    library.place,
                    Status.ERROR,
                    f"compressed, and android:extractNativeLibs is {extract}: say true or false",
                )
            )
    stored = sum(bool(lib.stored) for lib in asked)
    packed = f"{len(asked) - stored} compressed, unpacked when installed" if len(asked) > stored else ""
    return answer(rows, ", ".join(x for x in (f"{stored} stored at 16 KB" if stored else "", packed) if x))


def _needed(app: App) -> list[Row]:
    rows = []
    for abi, libraries in _by_abi(app).items():
        own = [lib for lib in libraries if not lib.hexagon]
        there = {lib.name for lib in own} | {lib.elf.soname for lib in own if lib.elf} | SYSTEM | app.declared
        for library in own:
            if library.elf and (lost := [n for n in library.elf.needed if n not in there]):
                rows.append((library.place, Status.FAIL, f"neither the system's nor in {abi}: {' '.join(lost)}"))
    return answer(rows, "each library finds what it needs") if _in_abis(app) else skip("no library in an ABI's folder")


_CHECKS: Mapping[str, Callable[[App], list[Row]]] = {
    "manifest": _manifest, "abi": _abi, "elf": _elf, "pages-16k": _pages, "zip-align": _zip, "needed": _needed,
    "qnn-runtime": apk_qnn.runtime, "qnn-version": apk_qnn.version, "qnn-models": apk_qnn.models, "duplicates": apk_qnn.duplicates,
    "htp-pairs": apk_qnn.pairs, "skel": apk_qnn.skels, "cdsprpc": apk_qnn.cdsprpc, "extracted": apk_qnn.extracted, "adsp-path": apk_qnn.adsp_path,
}  # fmt: skip
