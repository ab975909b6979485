"""A package as a piece of build.gradle.kts that one can paste."""

from __future__ import annotations

from typing import Any


def snippet(made: Any, file: str) -> str:
    """Kotlin DSL for the app's module: the AAR with its digest, what an AAR file does not name itself, and what it needs."""
    rows = [
        f"// {file}",
        f"// line {made.line}, target {made.target}, tree {made.tree}",
        f'val executorchAar = file("libs/{file}")',
        f'val executorchSha256 = "{made.sha256}"',
        "check(",
        '    java.security.MessageDigest.getInstance("SHA-256").digest(executorchAar.readBytes())',
        '        .joinToString("") { "%02x".format(it) } == executorchSha256',
        ') { "$executorchAar is not the file that was built and checked" }',
        "",
        "android {",
        f'    defaultConfig {{ ndk {{ abiFilters += "{made.abi}" }} }}',
    ]
    if made.hexagon:
        rows.append("    // The DSP opens its library as a file: the app's must be unpacked when it is installed.")
        rows.append("    packaging { jniLibs { useLegacyPackaging = true } }")
    rows += ["}", "", "dependencies {", "    implementation(files(executorchAar))"]
    rows += [f'    implementation("{at}")' for at in made.dependencies]
    rows.append("}")
    if made.hexagon:
        rows += [
            "",
            "// AndroidManifest.xml, in <application>:",
            '//   <uses-native-library android:name="libcdsprpc.so" android:required="false"/>',
            "// and before the first model is loaded:",
            '//   android.system.Os.setenv("ADSP_LIBRARY_PATH", applicationInfo.nativeLibraryDir, true)',
        ]
    return "\n".join(rows) + "\n"
