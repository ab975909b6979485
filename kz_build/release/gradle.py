"""A package as pieces of Gradle's build files to paste."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kz_build.release.maven import FOLDER

if TYPE_CHECKING:
    from kz_build.release.aar_folder import Package

_APPS = f"libs/{FOLDER}"
"""Where the repository lies in the app's project."""


def snippet(package: Package) -> str:
    """Return Kotlin DSL for an app: the AAR with its digest, and other settings an AAR cannot contain. Its dependencies are in its POM."""
    own = package.maven
    what = "targets" if len(package.targets) > 1 else "target"
    rows = [
        f"// {own}",
        f"// line {package.line}, {what} {', '.join(package.targets)}, tree {package.tree}",
        *(f"// needs {at}" for at in package.dependencies),
        *_qnn(package),
        "",
        f"// settings.gradle.kts, with the folder {FOLDER} beside this file as {_APPS}:",
        "dependencyResolutionManagement {",
        "    repositories {",
        "        exclusiveContent {",
        f'            forRepository {{ maven {{ url = uri("{_APPS}") }} }}',
        f'            filter {{ includeModule("{own.group}", "{own.name}") }}',
        "        }",
        "    }",
        "}",
        "",
        "// build.gradle.kts of the app:",
        f'val executorchAar = rootProject.file("{_APPS}/{own.place("aar")}")',
        f'val executorchSha256 = "{package.sha256}"',
        "check(",
        '    java.security.MessageDigest.getInstance("SHA-256").digest(executorchAar.readBytes())',
        '        .joinToString("") { "%02x".format(it) } == executorchSha256',
        ') { "$executorchAar is not the file that was built and checked" }',
        "",
        "android {",
        f"    defaultConfig {{ ndk {{ abiFilters += listOf({', '.join(json.dumps(abi) for abi in package.abis)}) }} }}",
    ]
    if package.hexagon:
        rows.append("    // The DSP opens its library as a file: the app's must be unpacked when it is installed.")
        rows.append("    packaging { jniLibs { useLegacyPackaging = true } }")
    rows += [
        "}",
        "",
        "dependencies {",
        "    // strictly: Gradle takes upstream's own for newer",
        f'    implementation("{own.group}:{own.name}") {{ version {{ strictly("{own.version}") }} }}',
        "}",
    ]
    if package.hexagon:
        rows += [
            "",
            "// AndroidManifest.xml, in <application>:",
            '//   <uses-native-library android:name="libcdsprpc.so" android:required="false"/>',
            "// and before the first model is loaded:",
            '//   android.system.Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true)',
        ]
    return "\n".join(rows) + "\n"


def _qnn(package: Package) -> list[str]:
    """Say which QNN the libraries need, and where it is."""
    if not package.qnn:
        return []
    maven = package.qnn_runtime or "not on Maven, as far as kz knows"
    if package.qnn_runtime in package.dependencies:
        return [f"// QNN {package.qnn} is not in the AAR: it comes with {maven}"]
    rows = [f"// QNN {package.qnn}, on Maven: {maven}"]
    if package.has_qnn:
        rows.append(
            "// Its libraries are in the AAR: an app that has another AAR with them needs the same version there."
        )
    else:
        rows.append("// Its libraries are not in the AAR: kz build --soc SOC adds them.")
    return rows
