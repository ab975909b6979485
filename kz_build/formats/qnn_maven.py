"""The version of com.qualcomm.qti:qnn-runtime on Maven Central for a version of QAIRT: they are not always the same."""

from __future__ import annotations

ARTIFACT = "com.qualcomm.qti:qnn-runtime"
# QAIRT -> Maven, '' for what is not there. Only pairs that somebody published.
_MAVEN = {
    "2.34.0": "2.34.0",  # build.gradle files of several owners
    "2.36.1": "",  # https://github.com/microsoft/onnxruntime/pull/25426: Could not find com.qualcomm.qti:qnn-runtime:2.36.1
    "2.37.0": "2.37.0",  # upstream's .github/workflows/android-release-artifacts.yml at v1.2.0 and v1.4.1: -DqnnVersion=2.37.0
    "2.42.0": "2.42.0",  # the POM of com.microsoft.onnxruntime:onnxruntime-android-qnn 1.24.1
    "2.45.0": "2.45.0",  # onnxruntime-qnn, java/src/test/android/app/build.gradle
    "2.46.0": "2.46.0",  # build.gradle files of several owners
    "2.48.0": "2.48.0",  # https://github.com/pytorch/executorch/issues/21586
    "2.49.0": "2.49.0",  # https://github.com/onnxruntime/onnxruntime-qnn/pull/783
    "2.49.40": "2.49.0",  # the same: 2.49.40 is not on Maven Central
    "2.50.0": "2.50.0",  # maven-metadata.xml of 2026-09-07, as quoted in public notes
}


def maven_version(qnn: str) -> str | None:
    """Return the version on Maven of a QNN such as 2.42.0.251225: '' if it is not there, None if that is unknown."""
    return _MAVEN.get(".".join(qnn.removeprefix("v").split(".")[:3]))
