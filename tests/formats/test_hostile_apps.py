"""Apps that are damaged or made to do harm: a clear error, bounded memory, never a pass."""

from __future__ import annotations

import io
import random
import resource
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kz_build.checks.apk import check_apk
from kz_build.core.errors import AuditError
from kz_build.formats import zip as zips
from kz_build.formats.android_manifest import DamagedError, manifest_of, read_text
from kz_build.formats.app import read_app, read_folder
from kz_build.formats.axml import read_axml
from tests.formats.apps import AAPT2, ROOT, Lib, Linker, Spec, apk, good, manifest

TEXT = b'<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="x"><application/></manifest>'
SMALL = {"AndroidManifest.xml": TEXT, "lib/arm64-v8a/libx.so": b"\x7fELF" + bytes(60), "assets/x.pte": bytes(300)}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


def refused(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "app.apk"
    path.write_bytes(data)
    with pytest.raises(AuditError) as found:
        read_app(path)
    assert "app.apk" in str(found.value)
    return str(found.value)


def field(data: bytes, name: bytes, at: int, form: str, value: int, *, local: bool = False) -> bytes:
    """One field of an entry's record in the directory (or of its local header) changed."""
    changed = bytearray(data)
    where = data.find(name) - 30 if local else data.rfind(name) - 46
    assert data[where : where + 4] == (b"PK\3\4" if local else b"PK\1\2")
    struct.pack_into(form, changed, where + at, value)
    return bytes(changed)


def end(data: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, len(data) - 22 + at, value)
    return bytes(changed)


@pytest.mark.parametrize("name", ["../x.so", "lib/../../x.so", "/etc/x.so", "lib//x.so", "lib\\..\\x.so", "lib/./x.so"])
def test_names_that_leave_the_folder(tmp_path: Path, name: str) -> None:
    data = zipped({**SMALL, "placeholder".ljust(len(name), "x")[: len(name)]: b""})
    assert "leaves the folder" in refused(
        tmp_path, data.replace("placeholder".ljust(len(name), "x")[: len(name)].encode(), name.encode())
    )


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda d: b"", "is empty"),
    "no zip": (lambda d: b"\x7fELF" + bytes(5000), "is not a complete zip"),
    "another file's name in the header": (lambda d: d.replace(b"assets/x.pte", b"assets/y.pte", 1), "is damaged"),
    "encrypted": (lambda d: field(d, b"assets/x.pte", 8, "<H", 1), "is encrypted"),
    "packed as no Android packs": (lambda d: zipped(SMALL, zipfile.ZIP_LZMA), "Android does not know"),
    "overlapping": (lambda d: field(d, b"assets/x.pte", 42, "<I", d.find(b"lib/arm64-v8a") - 30), "overlaps"),
    "longer than the file": (lambda d: field(d, b"assets/x.pte", 20, "<I", 1 << 30), "overlaps"),
    "a size that is not its own": (lambda d: field(d, b"assets/x.pte", 24, "<I", 299), "is damaged"),
    "a bomb by what it says": (lambda d: field(d, b"assets/x.pte", 24, "<I", 0xFFFFFFF0), "a bomb"),
    "stored, of two sizes": (lambda d: field(zipped(SMALL, 0), b"assets/x.pte", 24, "<I", 0xFFFFFFF0), "is stored"),
    "a wrong checksum": (lambda d: field(d, b"assets/x.pte", 16, "<I", 7), "is damaged"),
    "a directory elsewhere": (lambda d: end(d, 16, "<I", 5), "is not where it says"),
    "a directory with other signatures": (lambda d: d.replace(b"PK\1\2", b"PK\0\0"), "its directory cannot be read"),
    "a directory that counts wrong": (lambda d: end(d, 10, "<H", 9), "says that they are 9"),
    "a name that goes on into the next entry": (lambda d: field(d, b"AndroidManifest.xml", 28, "<H", 66), "is damaged: its dir"),
    "a directory of 4 GB": (lambda d: end(d, 12, "<I", 0xFFFFFFF0), "is not where it says"),
    "zip64": (lambda d: end(d, 10, "<H", 0xFFFF), "zip64"),
    "something glued to its end": (lambda d: d + b"more", "is appended"),
    "something glued to its front": (lambda d: b"more" + d, "is not where it says"),
    "no manifest": (lambda d: zipped({"lib/arm64-v8a/libx.so": b""}), "is no APK, app bundle or AAR"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    change, said = DAMAGE[name]
    assert said in refused(tmp_path, change(zipped(SMALL)))


def test_a_name_in_it_twice(tmp_path: Path) -> None:
    data = zipped({**SMALL, "assets/y.pte": b"other"}).replace(b"assets/y.pte", b"assets/x.pte")
    assert "is in it twice" in refused(tmp_path, data)


def test_an_app_cut_off_anywhere(tmp_path: Path) -> None:
    data = zipped(SMALL)
    for size in range(len(data)):
        refused(tmp_path, data[:size])


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"gone\.apk cannot be read"):
        read_app(tmp_path / "gone.apk")
    with pytest.raises(AuditError, match="is not a folder"):
        read_folder(tmp_path / "gone")
    with pytest.raises(AuditError, match="has no library"):
        read_folder(tmp_path)


@pytest.mark.apps
@pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res")
def test_a_damaged_app_never_crashes_the_check(tmp_path: Path, linker: Linker) -> None:
    spec = good()
    small = Spec(
        {p: lib for p, lib in spec.libs.items() if "Htp" in p}, {"assets/x.pte": spec.files["assets/qwen.pte"]}
    )
    data, chance = apk(small, linker, tmp_path / "good.apk").read_bytes(), random.Random(1)
    directory, path, errors = data.find(b"PK\1\2"), tmp_path / "app.apk", 0
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.choice((chance.randrange(directory, len(data)), chance.randrange(len(data))))
            changed[at] = chance.randrange(256)
        path.write_bytes(changed)
        try:
            assert check_apk((path,), None)
        except AuditError:
            errors += 1
    assert errors > 100


LIMITED = """
import sys
from pathlib import Path
from kz_build.formats.app import read_app
try:
    print(len(read_app(Path(sys.argv[1])).models))
except Exception as error:
    print(type(error).__name__, error)
# Not getrusage: to the kernel the parent's memory counts as what the child had before it became another program.
print(next(int(row.split()[1]) // 1024 for row in open("/proc/self/status") if row.startswith("VmHWM")))
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [("lib/arm64-v8a/libx.so", "a bomb"), ("assets/x.pte", "a bomb"), ("AndroidManifest.xml", "at most")],
)
def test_a_bomb_takes_no_memory(tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / "app.apk"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for other in SMALL:
            if other != name:
                made.writestr(other, SMALL[other])
        with made.open(name, "w") as stream:
            for _ in range(150):
                stream.write(bytes(1 << 20))
    argv = [sys.executable, "-c", LIMITED, str(path)]
    found = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}).stdout.splitlines()
    assert said in found[0] and int(found[1]) < 100, found


def test_a_large_model_takes_no_memory(tmp_path: Path) -> None:
    """Stored in the zip, read in pieces; its version stands at the end."""
    path = tmp_path / "app.apk"
    chance = random.Random(1).randbytes(1 << 20)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("AndroidManifest.xml", TEXT)
        with made.open("assets/x.pte", "w") as stream:
            for _ in range(150):
                stream.write(chance)
            stream.write(b"v2.42.0.251225135753")
    argv = [sys.executable, "-c", LIMITED, str(path)]
    found = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}).stdout.splitlines()
    assert found[0] == "1" and int(found[1]) < 100, found
    assert read_app(path).models[0].qnn == ("2.42.0.251225",)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cut off"),
        (b"<manifest>", "no element found"),
        (b"<html/>", "its root is not"),
        (b'<!DOCTYPE m [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><manifest>&b;</manifest>', "declares an entity"),
        (b"<manifest>" + b"<a>" * 100, "deeper than"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "app.apk"
    path.write_bytes(zipped({**SMALL, "AndroidManifest.xml": data}))
    row = next(c for c in check_apk((path,), None) if c.name == "manifest")
    assert row.failed and (said in row.evidence or not data)


@pytest.mark.apps
@pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res")
@pytest.mark.parametrize("proto", [False, True])
def test_a_damaged_manifest_is_an_error_of_its_own(tmp_path: Path, proto: bool) -> None:
    data, chance = manifest(good(), tmp_path, proto=proto), random.Random(1)
    whole = manifest_of(read_axml(data))
    for size in range(len(data)):
        try:
            found = manifest_of(read_axml(data[:size]))
        except DamagedError:
            continue
        assert proto and found == whole  # behind its element comes where it stood in its source
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 2, 8))):
            changed[chance.randrange(len(data))] = chance.choice((0, 255, chance.randrange(256)))
        try:
            manifest_of(read_axml(bytes(changed)))
        except DamagedError:
            continue


def test_strings_that_overlap_are_not_multiplied() -> None:
    """60,000 offsets into texts of 32,767 bytes each would be 2 GB."""
    offsets = struct.pack("<60000I", *range(60_000))
    text = b"\xff" * 100_000
    size = 28 + len(offsets) + len(text)
    pool = struct.pack("<HHIIIIII", 1, 28, size, 60_000, 0, 0x100, 28 + len(offsets), 0) + offsets + text
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedError, match="overlap"):
        read_axml(struct.pack("<HHI", 3, 8, 8 + len(pool)) + pool)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_library_with_a_hostile_name_in_an_aar(tmp_path: Path) -> None:
    (tmp_path / "x.aar").write_bytes(
        zipped({"jni/arm64-v8a/placehold.so": b"", "AndroidManifest.xml": TEXT}).replace(
            b"arm64-v8a/placehold", b"../../../../../etc/"
        )
    )
    with pytest.raises(AuditError, match="leaves the folder"):
        read_folder(tmp_path)


def test_offsets_are_those_that_zipalign_sees(tmp_path: Path, linker: Linker) -> None:
    """Each stored entry's bytes stand where the reader says."""
    files = {"AndroidManifest.xml": TEXT, "lib/arm64-v8a/libx.so": linker.bytes(Lib("libx.so"))}
    path = tmp_path / "app.apk"
    path.write_bytes(zipped(files, zipfile.ZIP_STORED))
    with path.open("rb") as file, zips.opened("app.apk", file) as archive:
        for entry in archive.entries:
            assert path.read_bytes()[entry.offset : entry.offset + entry.size] == files[entry.name]
    assert read_text(TEXT)


def test_a_library_that_needs_a_million_others_takes_no_memory(tmp_path: Path, linker: Linker) -> None:
    """A real library whose dynamic segment is made 64 MB long, all of it DT_NEEDED."""
    data = bytearray(linker.bytes(Lib("libx.so", needed=("libc.so",))))
    more = struct.pack("<QQ", 1, 1) * (4 << 20)
    (offset, count) = struct.unpack_from("<Q", data, 0x20)[0], struct.unpack_from("<H", data, 0x38)[0]
    dynamic = next(at for i in range(count) if struct.unpack_from("<I", data, at := offset + 56 * i)[0] == 2)
    struct.pack_into("<Q", data, dynamic + 8, len(data))
    struct.pack_into("<Q", data, dynamic + 32, len(more))
    struct.pack_into("<Q", data, 0x28, 0)
    struct.pack_into("<HH", data, 0x3C, 0, 0)
    folder = tmp_path / "arm64-v8a"
    folder.mkdir()
    (folder / "libx.so").write_bytes(data + more)
    script = LIMITED.replace(
        "read_app(Path(sys.argv[1])).models", "read_folder(Path(sys.argv[1])).libraries[0].problem"
    )
    argv = [sys.executable, "-c", script.replace("import read_app", "import read_folder"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    found = done.stdout.splitlines()
    assert int(found[0]) > 0 and int(found[1]) < 200, done
    assert "dynamic entries" in read_folder(tmp_path).libraries[0].problem


def test_a_target_of_many_digits_and_a_library_of_a_long_name(tmp_path: Path) -> None:
    """A name in a zip may have 65,535 bytes, one of a file 255."""
    sdk = TEXT.replace(b"<application/>", b'<uses-sdk android:targetSdkVersion="' + b"9" * 5000 + b'"/>')
    place = f"lib/arm64-v8a/{'ä' * 300}.so"
    (tmp_path / "app.apk").write_bytes(zipped({"AndroidManifest.xml": sdk, place: b"\x7fELF"}))
    app = read_app(tmp_path / "app.apk")
    assert app.manifest and app.manifest.target_sdk == 0
    assert [lib.place for lib in app.libraries] == [place] and "is damaged" in app.libraries[0].problem


def test_a_package_with_a_line_end_makes_no_line_of_its_own(tmp_path: Path) -> None:
    text = TEXT.replace(b'"x"', b'"x&#10;PASS  -  elf"')
    (tmp_path / "app.apk").write_bytes(zipped({"AndroidManifest.xml": text}))
    (found,) = (c for c in check_apk((tmp_path / "app.apk",), None) if c.name == "manifest")
    assert "\n" not in found.evidence
