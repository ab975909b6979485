"""Stand-ins of archives and wheels, laid out as the real ones are. The NDK's compiler is zig."""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from kz_build.build.native_sources import FOLDER
from tests.formats.elves import HEXAGON, X86_64, elf

BIN = "toolchains/llvm/prebuilt/linux-x86_64/bin"
LIBRARIES = "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/aarch64-linux-android"
_TOOLCHAIN = f"""set(NDK "${{CMAKE_CURRENT_LIST_DIR}}/../../{BIN}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER "${{NDK}}/clang")
set(CMAKE_AR "${{NDK}}/llvm-ar" CACHE FILEPATH "" FORCE)
set(CMAKE_RANLIB "${{NDK}}/llvm-ranlib" CACHE FILEPATH "" FORCE)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
"""
_ZIG = """#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}
exec {zig} {tool} "$@"
"""
_CLANG = """#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}
below=$(dirname "$0")/../sysroot/usr/lib/aarch64-linux-android
case " $* " in
*" -c "* | *" -E "* | *" -S "*) ;;
*" -shared "*) set -- -nostdlib "$@" "$below/crtbegin_so.s" "$below/libc.so" ;;
*) set -- -nostdlib "$@" "$below/crtbegin_so.s" "$below/crtbegin_dynamic.s" "$below/libc.so" ;;
esac
for word; do
  shift
  [ "$word" = -ldl ] || set -- "$@" "$word"
done
exec {zig} cc {target} "$@"
"""
"""As Clang links for Android: with start files that name the API and the NDK, and its libc, which has dl here too."""
_TARGET = "-target aarch64-linux-gnu.2.28 -O3"
_NOTE = """.section .note.android.ident,"a",%note
.balign 4
.long 8, 132, 1
.asciz "Android"
.long 26
.asciz "r28c"
.zero 59
.asciz "13676358"
.zero 55
"""
_START = ".text\n.globl _start\n_start: bl main\n b .\n"


def packed(files: Mapping[str, bytes | str], root: str = "", programs: str = "/bin/") -> bytes:
    """A zip with these files below `root`, the same for the same files. Those below `programs` are executable."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            info = zipfile.ZipInfo(f"{root}/{name}" if root else name)
            info.external_attr = (0o100755 if programs in f"/{name}" else 0o100644) << 16
            zipped.writestr(info, content)
    return data.getvalue()


def ndk(version: str, revision: str, zig: Path | None, cache: Path) -> bytes:
    """An NDK; without zig, one that compiles nothing."""
    files: dict[str, bytes | str] = {
        "source.properties": f"Pkg.Desc = Android NDK\nPkg.Revision = {revision}\n",
        "NOTICE": "stand-in\n",
        "build/cmake/android.toolchain.cmake": _TOOLCHAIN,
        f"{LIBRARIES}/libc++_shared.so": elf(soname="libc++_shared.so"),
    }
    if zig:
        files |= {
            f"{LIBRARIES}/libc.so": _libc(zig, cache),
            f"{LIBRARIES}/crtbegin_so.s": _NOTE,
            f"{LIBRARIES}/crtbegin_dynamic.s": _START,
            f"{BIN}/clang": _CLANG.format(cache=cache, zig=zig, target=_TARGET),
            **{
                f"{BIN}/llvm-{tool}": _ZIG.format(cache=cache, zig=zig, tool=tool)
                for tool in ("ar", "ranlib", "objcopy")
            },
        }
    return packed(files, f"android-ndk-{version}")


def _libc(zig: Path, cache: Path) -> bytes:
    """A library with the functions that kz's own program takes from libc: to link with, not to run."""
    environment = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache), "PATH": "/usr/bin:/bin"}
    folder = cache / "kz-stand-in"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [str(zig), "cc", *_TARGET.split()]
    subprocess.run([*compiler, "-c", "-o", "probe.o", FOLDER / "kz_probe.c"], cwd=folder, env=environment, check=True)
    with (folder / "probe.o").open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
        names = sorted(symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name)
    assembly = "".join(f".globl {name}\n.type {name},%function\n{name}: ret\n" for name in names)
    (folder / "libc.s").write_text(f".text\n{assembly}")
    linked = ("-nostdlib", "-shared", "-Wl,-soname,libc.so", "-Wl,-z,max-page-size=16384", "-o", "libc.so", "libc.s")
    subprocess.run([*compiler, *linked], cwd=folder, env=environment, check=True)
    return (folder / "libc.so").read_bytes()


def qnn_sdk(version: str, arch: str = "79") -> bytes:
    """An SDK of Qualcomm's: its identity, a header, the libraries of an SoC's runtime."""
    number, _, build = version.rpartition(".")
    android = ("Htp", "HtpPrepare", "System", f"HtpV{arch}Stub")
    hexagon = f"libQnnHtpV{arch}Skel.so"
    files: dict[str, bytes | str] = {
        "sdk.yaml": f"version: '{number}'\nbuild_id: '{build}135753_193295'\n",
        "LICENSE.pdf": "%PDF-1.4 stand-in\n",
        "include/QNN/QnnInterface.h": "#define QNN_API_VERSION_MAJOR 2\n",
        **{
            f"lib/aarch64-android/libQnn{name}.so": elf(soname=f"libQnn{name}.so", needed=("libc.so",))
            for name in android
        },
        f"lib/hexagon-v{arch}/unsigned/{hexagon}": elf(bits=32, machine=HEXAGON, soname=hexagon),
        **{
            f"lib/x86_64-linux-clang/libQnn{name}.so": elf(
                machine=X86_64, soname=f"libQnn{name}.so", alignments=(0x4000,)
            )
            for name in ("Htp", "System")
        },
    }
    return packed(files, f"qairt/{version}")


def fbjni() -> bytes:
    """The AAR of fbjni."""
    library = elf(soname="libfbjni.so", needed=("libc++_shared.so", "liblog.so", "libc.so"))
    return packed({"AndroidManifest.xml": "<manifest/>", "jni/arm64-v8a/libfbjni.so": library})


def wheel(name: str, version: str, files: Mapping[str, str]) -> bytes:
    """A wheel with these files."""
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: kz-test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = "".join(f"{path},,\n" for path in (*files, *metadata, f"{info}/RECORD"))
    metadata[f"{info}/RECORD"] = rows
    return packed({**files, **metadata})
