"""A package as a snippet of build.gradle.kts to paste."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kz_build.release.aar_folder import Package


def snippet(package: Package, file: str) -> str:
    """Return Kotlin DSL for the app's module: the AAR with its digest, its dependencies and other settings an AAR cannot contain."""
    rows = [
        f"// {file}",
        f"// line {package.line}, {'targets' if len(package.targets) > 1 else 'target'} {', '.join(package.targets)}, tree {package.tree}",
        f'val executorchAar = file("libs/{file}")',
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
    rows += ["}", "", "dependencies {", "    implementation(files(executorchAar))"]
    rows += [f'    implementation("{at}")' for at in package.dependencies]
    rows.append("}")
    if package.hexagon:
        rows += [
            "",
            "// AndroidManifest.xml, in <application>:",
            '//   <uses-native-library android:name="libcdsprpc.so" android:required="false"/>',
            "// and before the first model is loaded:",
            '//   android.system.Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true)',
        ]
    return "\n".join(rows) + "\n"
