"""A submodule with a stack of its own: the library that its parent builds shows the patch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Kz
from tests.stack.test_git_tools import sh
from tests.stack.upstreams import FORM

MARK = 'extern "C" __attribute__((used, retain, visibility("default"))) inline const char *kz_mark() { return "of the patched submodule"; }\n'


@pytest.mark.reproduce
def test_a_patched_submodule_takes_its_place_in_the_build_of_its_parent(sample: Path, kz: Kz, tmp_path: Path) -> None:
    header, parent = tmp_path / "jni", tmp_path / "minirt"
    sh("git", "clone", "-q", str(sample / "upstream.bundle"), str(parent), cwd=tmp_path)
    sh("git", "checkout", "-q", "v0.1.0", cwd=parent)
    header.mkdir()
    (parent / "third_party/jni/jni.h").rename(header / "jni.h")
    text = (header / "jni.h").read_text()
    sh("git", "rm", "-q", "--cached", "third_party/jni/jni.h", cwd=parent)
    (parent / "third_party/jni").rmdir()
    sh("git", "init", "-q", cwd=header)
    commit(header, "Start", "v1")
    (header / "jni.h").write_text(text.replace("#define JNI_VERSION_1_6", f"{MARK}#define JNI_VERSION_1_6"))
    commit(header, "Mark it")
    stack = sample / "patches/sample-0.1/jni"
    sh("git", "format-patch", "-q", *FORM, "-o", str(stack), "v1..HEAD", cwd=header)
    (stack / "series").write_text("0001-Mark-it.patch\n")
    sh("git", "reset", "-q", "--hard", "v1", cwd=header)
    sh(
        "git",
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        f"file://{header}",
        "third_party/jni",
        cwd=parent,
    )
    commit(parent, "With a submodule", "v0.1.0-split")
    pins = (sample / "pins.yaml").read_text()
    for old, new in (
        ("{git: upstream.bundle}", f"{{git: {parent}, submodules: [third_party/jni]}}\n  jni: {{git: {header}, submodule: minirt/third_party/jni}}"),
        ("{minirt: v0.1.0,", "{minirt: v0.1.0-split, jni: v1,"),
        ("build: [minirt_jni, minirt_runner, minirt_probe]", "build: [minirt_jni]"),
        ("[minirt_run, minirt_version]", "[minirt_run, minirt_version, kz_mark]"),
    ):  # fmt: skip
        assert pins.count(old) == 1
        pins = pins.replace(old, new)
    at = pins.index("      kz: #"), pins.index("    outputs:")
    pins = pins[: at[0]] + pins[at[1] :]
    pins = "".join(
        row for row in pins.splitlines(keepends=True) if not row.startswith(("      minirt_", "      kz_probe"))
    )
    (sample / "pins.yaml").write_text(pins)
    for words in (("lock", "--write"), ("build",)):
        done = kz("-C", sample, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    built = sample / "dist/sample-0.1/linux-arm64/lib/libminirt.so"
    assert b"of the patched submodule" in built.read_bytes()
    record = json.loads((sample / "out/build/sample-0.1/linux-arm64/manifest.json").read_text())
    assert (sample / "out/tree/sample-0.1/linux-arm64/minirt/third_party/jni/jni.h").read_text().count("kz_mark") == 1
    assert not (sample / "out/tree/sample-0.1/linux-arm64/jni").exists()
    locked = json.loads((sample / "pins.lock").read_text())["lines"]["sample-0.1"]["jni"]["patched"]["tree"]
    assert locked in json.dumps(record["sources"]) and '"third_party/jni"' not in json.dumps(record["sources"])


def commit(repository: Path, subject: str, tag: str = "") -> None:
    sh("git", "add", "-A", cwd=repository)
    sh("git", "commit", "-q", "-m", subject, cwd=repository)
    if tag:
        sh("git", "tag", tag, cwd=repository)
