"""Real parts of apps for tests: libraries from a real linker, manifests from Android's own compiler, zips made by hand."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kz_build.core.locks import lock

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "examples" / "sample"
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
AAPT2 = shutil.which("aapt2") if FRAMEWORK.exists() else None
QNN = "v2.42.0.251225135753_193295"
NEWER = "v2.49.40.260810104044"
TRIPLES = {
    "arm64-v8a": "aarch64-linux-android", "x86_64": "x86_64-linux-android", "armeabi-v7a": "arm-linux-androideabi",
    "hexagon": "hexagon-linux-musl",
}  # fmt: skip


def downloaded(folder: Path, name: str, *argv: str) -> Path:
    """A file that a registry's client leaves in a folder which tests share; downloaded once."""
    path = folder / name
    with lock(folder, name):
        if not path.exists():
            subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return path


@dataclass(frozen=True)
class Lib:
    """A library to link: `says` is a text in its data, `gives` and `takes` are symbols that it defines and lacks."""

    name: str
    abi: str = "arm64-v8a"
    needed: tuple[str, ...] = ()
    page: int = 16384
    says: str = ""
    soname: str = ""
    gives: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


class Linker:
    """clang and lld as PyPI's ziglang has them: what it links in 0.1 s is a real library of each machine, Hexagon too."""

    def __init__(self, env: Mapping[str, str], folder: Path, cache: Path) -> None:
        self.folder, self.made = folder, dict[Lib, bytes]()
        argv = [sys.executable, "-m", "kz_build", "-C", str(SAMPLE), "fetch", "--json"]
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.zig = next(s["folder"] for s in json.loads(done.stdout) if s["name"] == "ziglang") + "/ziglang/zig"
        self.env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache)}

    def bytes(self, lib: Lib) -> bytes:
        """The library's content; the same one is linked once."""
        if lib not in self.made:
            at = self.folder / f"{len(self.made)}"
            at.mkdir()
            stubs = [self.linked(at, Lib(name, lib.abi), ()) for name in lib.needed]
            self.made[lib] = self.linked(at, lib, stubs).read_bytes()
        return self.made[lib]

    def linked(self, at: Path, lib: Lib, against: list[Path] | tuple[()]) -> Path:
        code = [f'const char kz_says[] = "{lib.says}"; int kz_{zlib.crc32(repr(lib).encode())}(void) {{ return 1; }}']
        code += [f"void {name}(void) {{}}" for name in lib.gives]
        code += [f"void {name}(void); void kz_calls_{name}(void) {{ {name}(); }}" for name in lib.takes]
        (at / "x.c").write_text("\n".join(code))
        self.run("cc", "-target", TRIPLES[lib.abi], "-fPIC", "-c", "-o", at / "x.o", at / "x.c")
        out = at / lib.name
        soname = lib.soname or lib.name
        self.run(
            "ld.lld", "-shared", "-soname", soname, "-z", f"max-page-size={lib.page}", "-o", out, at / "x.o", *against
        )
        return out

    def run(self, *argv: str | Path) -> None:
        done = subprocess.run([self.zig, *argv], env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Spec:
    """An app to make: libraries by place, other files by name, and what its manifest says."""

    libs: Mapping[str, Lib]
    files: Mapping[str, bytes] = field(default_factory=dict)
    extract: str | None = "true"
    uses: str = '<uses-native-library android:name="libcdsprpc.so" android:required="false"/>'
    target: int = 34
    stored: bool = False
    align: int = 16384
    package: str = "org.example.app"
    activities: tuple[str, ...] = ()

    def libraries(self, **changed: Lib | None) -> Spec:
        """With libraries in the arm64 folder replaced, added or (None) taken out; names without `lib` and `.so`."""
        libs = dict(self.libs)
        for name, lib in changed.items():
            libs.pop(f"arm64-v8a/lib{name}.so", None)
            if lib:
                libs[f"arm64-v8a/lib{name}.so"] = lib
        return replace(self, libs=libs)


def good() -> Spec:
    """ExecuTorch with QNN beside ONNX Runtime with QNN, and a model: all of one version."""
    said = {name: Lib(f"lib{name}.so", says=QNN) for name in ("QnnHtp", "QnnHtpPrepare", "onnxruntime")}
    libs = {
        "QnnSystem": Lib("libQnnSystem.so"),  # Qualcomm's own says no version
        "fbjni": Lib("libfbjni.so", needed=("liblog.so", "libc.so")),
        "executorch": Lib("libexecutorch.so", needed=("libfbjni.so", "libm.so"), soname="libexecutorch_jni.so"),
        "qnn_executorch_backend": Lib("libqnn_executorch_backend.so", needed=("libexecutorch_jni.so",)),
        "QnnHtpV79Stub": Lib("libQnnHtpV79Stub.so", needed=("libcdsprpc.so",), says=QNN),
        "QnnHtpV79Skel": Lib("libQnnHtpV79Skel.so", "hexagon", says=QNN, page=4096),
        **said,
    }
    files = {
        "assets/qwen.pte": b"ET12" + bytes(100) + f"\0{QNN}.b91d05aa97\0".encode(),
        "assets/xnn.pte": bytes(64),
        "assets/other.bin": b"v2.1 no context",
        "classes.dex": b"dex\n035\0" + bytes(50) + b"\x12ADSP_LIBRARY_PATH\0",
    }
    return Spec({f"arm64-v8a/lib{name}.so": lib for name, lib in libs.items()}, files)


def manifest(spec: Spec, folder: Path, *, proto: bool = False) -> bytes:
    """The manifest as aapt2 compiles it."""
    if shutil.which("aapt2") is None:
        raise AssertionError("aapt2 is missing")
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "AndroidManifest.xml").write_text(written(spec))
    argv: list[str] = [
        "aapt2",
        "link",
        "--warn-manifest-validation",
        "-I",
        str(FRAMEWORK),
        "--manifest",
        str(folder / "AndroidManifest.xml"),
    ]
    subprocess.run(
        [*argv, *(["--proto-format"] if proto else []), "-o", str(folder / "m.apk")], check=True, capture_output=True
    )
    with zipfile.ZipFile(folder / "m.apk") as made:
        return made.read("AndroidManifest.xml")


def written(spec: Spec) -> str:
    """The manifest as people write it."""
    extract = f' android:extractNativeLibs="{spec.extract}"' if spec.extract else ""
    activities = "".join(f'<activity android:name="{name}" android:exported="true"/>' for name in spec.activities)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<manifest xmlns:android="http://schemas.android.com/apk/res/android" '
        f'package="{spec.package}">'
        f'<uses-sdk android:minSdkVersion="26" android:targetSdkVersion="{spec.target}"/>'
        f'<application android:label="Ümläut 日本"{extract}>{spec.uses}{activities}</application></manifest>'
    )


def apk(spec: Spec, linker: Linker, path: Path, *, manifest_bytes: bytes | None = None) -> Path:
    """An APK; stored libraries begin at multiples of `align`, as zipalign lays them."""
    content = manifest(spec, path.parent / "manifest") if manifest_bytes is None else manifest_bytes
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("AndroidManifest.xml", content)
        for name, data in spec.files.items():
            zipped.writestr(name, data)
        for place, lib in spec.libs.items():
            info = zipfile.ZipInfo(
                f"lib/{place}" if place.count("/") == 1 and not place.startswith("assets") else place
            )
            info.compress_type = zipfile.ZIP_STORED if spec.stored else zipfile.ZIP_DEFLATED
            if spec.stored:
                assert zipped.fp
                pad = -(zipped.fp.tell() + 30 + len(info.filename) + 4) % spec.align
                info.extra = struct.pack("<HH", 0xD935, pad) + bytes(pad)
            zipped.writestr(info, linker.bytes(lib))
    return path
