"""The audit on real Android libraries from the registries, and on files that are damaged or none."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kz_build.checks.audit import Audited, Rules, audit_files
from kz_build.core.check import Check, Status
from kz_build.core.errors import AuditError
from kz_build.formats.elf import read_elf
from kz_build.formats.elf_types import JavaSide, NativeMethod
from kz_build.formats.java_source import java_side
from tests.formats.apps import downloaded

SYSTEM = frozenset({"libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so"})
WHEEL = "markupsafe-3.0.4-cp313-cp313-android_24_arm64_v8a.whl"
WHEEL_SHA256 = "de8b364c423ef0a4bad9069657d617f9a5d2b2062457a89b1fa16ee199c399c1"
HERMES_SHA256 = "be46cc8cfcdd8376472f4ecf0e4a2548bb3986525559b1580494afc40e20ec2c"
JSC_SHA256 = "2571ee361cd3700d86cc31686431b89cafac0540aa3fb320eb3015be1aa05dd2"


def rules(**changed: object) -> Rules:
    values: dict[str, object] = {
        "platform": "android", "abi": "arm64-v8a", "required": frozenset({"elf"}), "needed": SYSTEM, "max_api": 26,
        "build_paths": (), "java": JavaSide((), frozenset()),
    }  # fmt: skip
    return Rules(**{**values, **changed})  # type: ignore[arg-type]


def answers(path: Path, profile: str = "ours", **changed: object) -> dict[str, Check]:
    return {r.name: r for r in audit_files((Audited(path, profile),), rules(**changed))}


def fetched(folder: Path, name: str, sha256: str, *argv: str) -> Path:
    path = downloaded(folder, name, *argv)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, name
    return path


@pytest.fixture(scope="session")
def good(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arm64 Android library with 16 KB pages (markupsafe's wheel)."""
    wheel = fetched(downloads, WHEEL, WHEEL_SHA256, sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                    "--platform", "android_24_arm64_v8a", "--python-version", "3.13", "markupsafe==3.0.4")  # fmt: skip
    folder = tmp_path_factory.mktemp("good")
    with zipfile.ZipFile(wheel) as zipped:
        return Path(zipped.extract(next(n for n in zipped.namelist() if n.endswith(".so")), folder))


def from_npm(downloads: Path, folder: Path, package: str, version: str, sha256: str, library: str) -> Path:
    if not shutil.which("npm"):
        pytest.skip("needs npm to fetch a real library")
    tgz = fetched(downloads, f"{package}-{version}.tgz", sha256, "npm", "pack", "--silent", f"{package}@{version}")
    with tarfile.open(tgz) as tar:
        for member in tar.getmembers():
            if member.name.endswith(".aar"):
                aar = tar.extractfile(member)
                assert aar
                (folder / "x.aar").write_bytes(aar.read())
                with zipfile.ZipFile(folder / "x.aar") as zipped:
                    for name in zipped.namelist():
                        if name.endswith(f"arm64-v8a/{library}"):
                            return Path(zipped.extract(name, folder))
    raise AssertionError(f"no {library} in {package}")


def test_a_good_library(good: Path) -> None:
    found = answers(good, needed=SYSTEM | {"libpython3.13.so"})
    assert {c: found[c].status for c in ("elf", "pages-16k", "android-note", "needed", "textrel")} == dict.fromkeys(
        ("elf", "pages-16k", "android-note", "needed", "textrel"), Status.PASS
    )
    assert "API 24" in found["android-note"].evidence and "NDK r27" in found["android-note"].evidence


def test_what_the_folder_does_not_hold(good: Path) -> None:
    found = answers(good)["needed"]
    assert found.status is Status.FAIL and "libpython3.13.so" in found.evidence and found.failed


@pytest.mark.apps
def test_4_kb_pages(downloads: Path, tmp_path: Path) -> None:
    library = from_npm(downloads, tmp_path, "hermes-engine", "0.11.0", HERMES_SHA256, "libhermes.so")
    found = answers(library, "vendor")["pages-16k"]
    assert found.status is Status.FAIL and "4 KB" in found.evidence


@pytest.mark.apps
def test_mixed_alignment_every_load_counts(downloads: Path, tmp_path: Path) -> None:
    library = from_npm(downloads, tmp_path, "jsc-android", "294992.0.0", JSC_SHA256, "libjsc.so")
    found = answers(library, "vendor")["pages-16k"]
    assert found.status is Status.FAIL and len(set(read_elf(library).alignments)) > 1, found


def test_an_api_level_that_is_too_high(good: Path) -> None:
    assert answers(good, max_api=23)["android-note"].status is Status.FAIL


def test_a_library_of_this_machine_is_not_arm64() -> None:
    library = next(
        Path(p) for p in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6") if Path(p).exists()
    )
    found = answers(library, abi="arm64-v8a" if "x86" in str(library) else "x86_64")
    assert found["elf"].status is Status.FAIL and found["android-note"].status is Status.FAIL


def hexagon(path: Path) -> Path:
    header = (
        b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 3, 164, 1, 0, 0, 0, 0x68, 52, 32, 0, 40, 0, 0)
    )
    path.write_bytes(header)
    return path


def test_a_hexagon_skel_is_elf32_and_nothing_else_passes_for_one(good: Path, tmp_path: Path) -> None:
    skel = hexagon(tmp_path / "libQnnHtpV79Skel.so")
    assert answers(skel, "hexagon")["elf"].status is Status.PASS
    assert set(answers(skel, "hexagon")) == {"elf", "size"}
    assert answers(good, "hexagon")["elf"].status is Status.FAIL
    assert answers(skel, "vendor")["elf"].status is Status.FAIL


@pytest.mark.parametrize(
    "content", [b"", b"\x7f", b"\x7fELF", b"#!/bin/sh\n", b"PK\x03\x04zip", b"\x7fELF\x02\x01\x01" + b"\xff" * 100]
)
def test_what_is_no_library(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "libx.so").write_bytes(content)
    found = audit_files((Audited(tmp_path / "libx.so", "ours"),), rules())
    assert [r.status for r in found] == [Status.ERROR] and found[0].failed and "libx.so" in found[0].evidence


def test_a_library_cut_off_anywhere_is_an_error_never_a_pass(good: Path, tmp_path: Path) -> None:
    data = good.read_bytes()
    cut = tmp_path / "libcut.so"
    for size in [*range(4, 120, 4), *range(120, len(data), max(1, len(data) // 60)), len(data) - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(AuditError, match=r"libcut\.so"):
            read_elf(cut)


def with_section(good: Path, path: Path, content: bytes, flags: int) -> Path:
    """The real library whose .comment holds `content` (appended to the file) under other section flags."""
    data = bytearray(good.read_bytes())
    with good.open("rb") as file:
        elf = ELFFile(file)
        index = elf.get_section_index(".comment")
        header = elf["e_shoff"] + index * elf["e_shentsize"]
    struct.pack_into("<IQ", data, header + 4, 1, flags)  # SHT_PROGBITS
    struct.pack_into("<QQ", data, header + 24, len(data), len(content))
    path.write_bytes(data + content)
    return path


ALLOC, COMPRESSED = 0x2, 0x800


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"/home/me/src/a.cpp", Status.FAIL),
        (b"-I/home/me", Status.FAIL),
        (b"/home/me2/src/a.cpp", Status.PASS),
        (b"/home/me.old", Status.PASS),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_path_of_the_build_machine_in_any_section(
    good: Path, tmp_path: Path, text: bytes, status: Status, packed: bool
) -> None:
    content = b"x\0" + text + b"\0"
    if packed:
        content = struct.pack("<IIQQ", 1, 0, len(content), 1) + zlib.compress(content)
    library = with_section(good, tmp_path / "libx.so", content, COMPRESSED if packed else 0)
    found = answers(library, build_paths=("/home/me",))["paths"]
    assert found.status is status
    assert status is Status.PASS or ".comment: /home/me" in found.evidence


def test_a_damaged_compressed_section_is_an_error_of_the_check_that_reads_it(good: Path, tmp_path: Path) -> None:
    content = struct.pack("<IIQQ", 1, 0, 100, 1) + b"no zlib"
    found = answers(with_section(good, tmp_path / "libx.so", content, COMPRESSED), build_paths=("/home/me",))
    assert found["elf"].status is Status.PASS
    assert found["paths"].status is Status.ERROR and "libx.so is damaged" in found["paths"].evidence


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert answers(tmp_path / "libgone.so")["elf"].status is Status.ERROR
    assert answers(tmp_path)["elf"].status is Status.ERROR


def test_without_section_headers_a_library_still_needs_what_it_needs(good: Path, tmp_path: Path) -> None:
    data = bytearray(good.read_bytes())
    struct.pack_into("<Q", data, 0x28, 0)
    struct.pack_into("<HH", data, 0x3C, 0, 0)
    (tmp_path / "libx.so").write_bytes(data)
    found = answers(tmp_path / "libx.so", build_paths=("/home/me",))
    assert found["needed"].status is Status.FAIL and "libpython3.13.so" in found["needed"].evidence
    assert found["android-note"].status is found["build-id"].status is Status.PASS
    (tmp_path / "libx.so").write_bytes(bytes(data) + b"/home/me/a.c\0")
    assert answers(tmp_path / "libx.so", build_paths=("/home/me",))["paths"].status is Status.FAIL


def test_a_damaged_library_never_crashes_the_audit(good: Path, tmp_path: Path) -> None:
    data, damaged, chance = good.read_bytes(), tmp_path / "libruntime.so", random.Random(1)
    with good.open("rb") as file:
        sections = ELFFile(file)["e_shoff"]
    side = JavaSide((NativeMethod("org/example/M", "go"),), frozenset({"runtime"}))
    for _ in range(100):  # `nox -s fuzz` makes 100,000
        changed = bytearray(data)
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.choice(
                (chance.randrange(0x240), chance.randrange(sections, len(data)), chance.randrange(len(data)))
            )
            changed[at] = chance.randrange(256)
        damaged.write_bytes(changed)
        assert answers(damaged, java=side, build_paths=("/home/me",))["elf"].evidence


def test_a_hexagon_library_beside_it_is_none_that_an_arm64_one_can_load(good: Path, tmp_path: Path) -> None:
    dsp = hexagon(tmp_path / "libpython3.13.so")
    known = rules(needed=SYSTEM)
    found = audit_files((Audited(good, "ours"), Audited(dsp, "hexagon")), known)
    assert next(r.status for r in found if r.name == "needed") is Status.FAIL
    shutil.copy(good, tmp_path / "libpython3.13.so")
    found = audit_files((Audited(good, "ours"), Audited(dsp, "vendor")), known)
    assert next(r.status for r in found if r.name == "needed") is Status.PASS


JAVA = b"""package org.example.app;
/* a comment with: public native void ghost(); */
public class Module {
  static { NativeLoader.loadLibrary("runtime"); }
  String text = "must have native byte order (java.nio.ByteOrder#order());";
  private static native HybridData initHybrid(
      String path, int mode);
  public native String[] getMethods();   // native int ghost2();
  private native int load_it(String name) throws Exception;
  static class Inner { native void go(); }
}
"""
KOTLIN = b"""package org.example.app
class Asr {
  companion object {
    init { System.loadLibrary("runtime") }
    @JvmStatic private external fun nativeCreate(path: String): Long
    external fun plain()
  }
  private external fun step(handle: Long): Int
}
"""


def test_native_methods_are_read_from_java_and_kotlin() -> None:
    side = java_side({"Module.java": JAVA, "Asr.kt": KOTLIN})
    assert side.loads == {"runtime"}
    found = {(m.java_class.removeprefix("org/example/app/"), m.name) for m in side.methods}
    assert found == {("Module", "initHybrid"), ("Module", "getMethods"), ("Module", "load_it"), ("Module$Inner", "go"),
                     ("Asr", "nativeCreate"), ("Asr$Companion", "plain"), ("Asr", "step")}  # fmt: skip
    exports = {m.name: m.export for m in side.methods}
    assert exports["load_it"] == "Java_org_example_app_Module_load_1it"
    assert exports["go"] == "Java_org_example_app_Module_00024Inner_go"


def test_a_library_that_does_not_register_what_java_declares(good: Path, tmp_path: Path) -> None:
    shutil.copy(good, tmp_path / "libruntime.so")
    side = JavaSide((NativeMethod("org/example/Gone", "neverThere"),), frozenset({"runtime"}))
    found = answers(tmp_path / "libruntime.so", java=side, required=frozenset({"natives", "jni"}))
    assert found["natives"].status is Status.FAIL and "Gone.neverThere" in found["natives"].evidence
    assert found["jni"].status is Status.FAIL and "JNI_OnLoad missing" in found["jni"].evidence


@pytest.mark.parametrize(
    ("content", "flags", "status"),
    [
        (b"\0Lorg/example/M;\0load\0", ALLOC, Status.PASS),
        (b"\0org/example/M\0load\0", ALLOC, Status.PASS),  # FindClass and RegisterNatives
        (b"\0Lorg/example/M;\0unload\0", ALLOC, Status.FAIL),
        (b"\0Lorg/example/M;\0load_more\0", ALLOC, Status.FAIL),
        (b"\0load\0", ALLOC, Status.FAIL),
        (b"\0Lorg/example/M;\0load\0", 0, Status.FAIL),  # as debug information has it
    ],
)
def test_a_native_counts_when_its_class_and_its_whole_name_stand_in_loaded_data(
    good: Path, tmp_path: Path, content: bytes, flags: int, status: Status
) -> None:
    library = with_section(good, tmp_path / "libruntime.so", content, flags)
    side = JavaSide((NativeMethod("org/example/M", "load"),), frozenset({"runtime"}))
    assert answers(library, java=side)["natives"].status is status


@pytest.mark.parametrize(("symbol", "method"), [(b"Java_A_go", "go"), (b"Java_A_go__I", "go"), (b"Java_A__1go", "_go")])
def test_exported_natives_and_their_overloads(good: Path, tmp_path: Path, symbol: bytes, method: str) -> None:
    name = b"PyInit__speedups"
    data = good.read_bytes()
    assert data.count(name + b"\0") >= 1
    (tmp_path / "libruntime.so").write_bytes(data.replace(name + b"\0", symbol.ljust(len(name) + 1, b"\0")))
    for declared, status in ((method, Status.PASS), ("other", Status.FAIL)):
        side = JavaSide((NativeMethod("A", declared),), frozenset({"runtime"}))
        found = answers(tmp_path / "libruntime.so", java=side)
        assert found["natives"].status is status
        assert ("no Java method" in found["jni"].evidence) is (status is Status.FAIL)


def test_a_class_that_must_be_registered_and_that_java_no_longer_has(good: Path, tmp_path: Path) -> None:
    library = with_section(good, tmp_path / "libruntime.so", b"\0LM;\0go\0", ALLOC)
    side = JavaSide((NativeMethod("M", "go"),), frozenset({"runtime"}))
    assert answers(library, java=side, classes=frozenset({"M"}))["natives"].status is Status.PASS
    found = answers(library, java=side, classes=frozenset({"M", "org/example/Renamed"}))["natives"]
    assert found.status is Status.FAIL and "org/example/Renamed" in found.evidence


def test_the_library_that_java_loads_must_be_there_under_that_name(good: Path) -> None:
    found = audit_files((Audited(good, "ours"),), rules(java=JavaSide((), frozenset({"executorch"}))))
    lost = next(r for r in found if r.subject == "libexecutorch.so")
    assert lost.failed and "no file has that name" in lost.evidence


def test_a_required_check_that_no_file_is_asked_fails(good: Path) -> None:
    found = audit_files((Audited(good, "vendor"),), rules(required=frozenset({"elf", "build-id"})))
    assert [(r.name, r.status) for r in found if r.subject == "-"] == [("build-id", Status.ERROR)]


def test_the_size_has_its_delta(good: Path) -> None:
    size = os.path.getsize(good)
    found = audit_files((Audited(good, "ours", size - 100),), rules())
    assert "+100 B" in next(r.evidence for r in found if r.name == "size")
