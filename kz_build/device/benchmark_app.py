"""app: build upstream's benchmark app with our AAR and one activity of ours, for `kz device check --in-app` (docs/reference/verbs/device.md)."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kz_build.build.build import with_stacks
from kz_build.core import env as environment
from kz_build.core import files
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, LockError, Missing, MissingError
from kz_build.core.process import find, run
from kz_build.core.progress import Watch
from kz_build.core.stage_record import Output, StageRecord, changed, load, load_any
from kz_build.device import probe_app
from kz_build.device.in_app import App
from kz_build.device.in_app_types import PROBE
from kz_build.git.repository import Repository, TreeEntry
from kz_build.pins.pins import digest_of
from kz_build.pins.project import Project
from kz_build.sources.fetch import fetch
from kz_build.sources.installed_sdk import installed_folder
from kz_build.sources.request import Request
from kz_build.stack.apply import apply

OURS = Path(__file__).with_name("probe")
_PLACES = {"AndroidManifest.xml": "", "ProbeActivity.java": "java/kz/"}
"""Our files in the app's source set of debug builds: none of upstream's is changed."""
_APK = "app/build/outputs/apk/debug/app-debug.apk"


def app(project: Project, line: str, target: str, commands: Commands, watch: Watch) -> App:
    """Build out/app/<line>/<target>/minibench.apk of the target's AAR, unless it is there from the same inputs.

    Gradle downloads what the app's own build files name. Without Android's SDK it is `probe_app`'s. Raises MissingError without
    the tools of either, ConfigError for a target without an app, LockError if its AAR is not packed, CommandError if a tool fails.
    """
    settings = project.pins.target(target, line)
    package, java = settings["package"] or {}, settings["audit"]["java"]
    if not package.get("app") or not java:
        raise ConfigError(
            f"{target} says no `package.app` in pins.yaml", hint="docs/reference/verbs/device.md, or --apk FILE"
        )
    sdk = tools()
    folder, path = project.out("app", line, target), project.record("app", line, target)
    if sdk.missing and probe_app.dexer().missing and not path.is_file():
        raise MissingError(probe_app.missing(sdk.missing))
    aar, aar_sha256 = _packed(project, line, target)
    if sdk.missing:
        return probe_app.app(project, line, target, aar, sdk.missing, commands, watch)
    repository, entries = _project_of(project, line, str(java["source"]), package["app"], watch)
    ours = {name: (OURS / name).read_bytes() for name in _PLACES}
    inputs = [package["app"], [(e.path, e.mode, e.id) for e in entries], aar_sha256]
    key = digest_of([*inputs, {name: hashlib.sha256(data).hexdigest() for name, data in ours.items()}])
    apk = folder / "minibench.apk"
    record = load(path, key)
    if record and not changed(apk, record.outputs):
        return App(apk, record.outputs[""].sha256, PROBE)
    files.remove(folder)
    repository.checkout(entries, folder / "tree")
    app_folder = folder / "tree" / package["app"]
    _add_files(app_folder, aar, ours)
    _gradle(app_folder, sdk.sdk, commands)
    shutil.copyfile(app_folder / _APK, apk)
    files.remove(folder / "tree")
    sha256 = files.sha256_file(apk)
    StageRecord(path, key, {"aar": aar_sha256}, {"": Output(sha256)}, {"line": line, "target": target}).save()
    return App(apk, sha256, PROBE)


def _packed(project: Project, line: str, target: str) -> tuple[Path, str]:
    """Return the target's AAR from `kz package`, and its sha256."""
    hint = f"kz package --line {line} --target {target}"
    record = load_any(project.record("package", line, target))
    if not record:
        raise LockError(f"{target} of {line} is not packed, and the app needs its AAR", hint=hint)
    path = project.root / record.get("path", str)
    if "" not in record.outputs or changed(path, record.outputs):
        raise LockError(f"{record.get('path', str)} has changed since it was packed", hint=hint)
    return path, record.outputs[""].sha256


def _project_of(
    project: Project, line: str, source: str, folder: str, watch: Watch
) -> tuple[Repository, tuple[TreeEntry, ...]]:
    """Return the files of the app's Gradle project in the patched tree."""
    at = fetch(project, Request(line, (source,), paths={}, watch=watch))[0].trees[0]
    paths = {e.path for e in Repository(at.repository).entries(at.tree, only=(f"{folder}/",))}
    if f"{folder}/gradlew" not in paths:
        raise ConfigError(
            f"{source} of {line} has no {folder}/gradlew", hint="fix `package.app` of the target in pins.yaml"
        )
    fetched = fetch(project, Request(line, (source,), paths={source: frozenset(paths)}, watch=watch))
    at = with_stacks(fetched, apply(project, line, watch, (source,)))[0].trees[0]
    repository = Repository(at.repository)
    return repository, repository.entries(at.tree, only=(f"{folder}/",))


def _add_files(app_folder: Path, aar: Path, ours: Mapping[str, bytes]) -> None:
    with files.disk_errors(app_folder):
        (app_folder / "app/libs").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(aar, app_folder / "app/libs/executorch.aar")
        for name, data in ours.items():
            to = app_folder / "app/src/debug" / _PLACES[name] / name
            if to.exists():
                raise ConfigError(
                    f"upstream's app has a {to.relative_to(app_folder)} of its own",
                    hint="--apk FILE, with one that you built",
                )
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)


def _gradle(app_folder: Path, sdk: Path, commands: Commands) -> None:
    argv = ["sh", "./gradlew", "--no-daemon", "--console=plain", ":app:assembleDebug"]
    commands.run("gradle", argv, cwd=app_folder, env=environment.gradle(sdk))
    if not (app_folder / _APK).is_file():
        raise CommandError(f"Gradle ended with 0, but did not make {_APK}", hint="has upstream renamed its app?")


VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
JAVA = 17
"""The oldest that Android's Gradle plugin 8 runs on."""


class Tools(NamedTuple):
    """Where the SDK is, and all that is missing to build an app."""

    sdk: Path
    missing: tuple[Missing, ...]


def tools() -> Tools:
    """Find what builds an app."""
    place = installed_folder(VARIABLES)
    missing = []
    if place is None or not (place[1] / "platforms").is_dir():
        why = "ANDROID_HOME and ANDROID_SDK_ROOT are unset" if place is None else f"{place[1]} has no platforms/"
        remedy = "sdkmanager 'platforms;android-34' 'build-tools;34.0.0', of Android's command line tools\nexport ANDROID_HOME=/path/to/it"
        missing.append(Missing("Android's SDK", why, remedy))
    if (version := _java()) < JAVA:
        why = f"the one that is here is {version}" if version else "neither JAVA_HOME nor PATH has a Java"
        missing.append(
            Missing(f"Java {JAVA} or newer", f"Gradle needs it; {why}", "apt install openjdk-17-jdk-headless")
        )
    return Tools(place[1] if place else Path(), tuple(missing))


def _java() -> int:
    """Return the version of the Java that Gradle would use, 0 without one."""
    home = environment.variable("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else find("java")
    if not program or not Path(program).is_file():
        return 0
    output = run([program, "-version"]).stderr.decode("utf-8", "replace")
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else 0
