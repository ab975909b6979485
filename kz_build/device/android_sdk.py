"""Android's SDK and a Java for Gradle on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kz_build.core import env as environment
from kz_build.core.errors import Missing
from kz_build.core.process import find, run
from kz_build.sources.installed_sdk import installed_folder

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
        remedy = "Android Studio or its command line tools: sdkmanager 'platforms;android-34' 'build-tools;34.0.0'; then export ANDROID_HOME=/path/to/it"
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
