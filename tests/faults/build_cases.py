"""Verbs on what is built: the sample with a toolchain that replays its real build, wheels, environments, a device."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import adbutils

from kz_build.device import adb as adapter
from tests.conftest import SAMPLE, copy_of_sample
from tests.export.toys import Toy, toy
from tests.export.toys import wheel as toy_wheel
from tests.faults.stack_cases import served
from tests.faults.world import Prepared, World, environment, remove
from tests.kz import ROOT, kz_process
from tests.stack.test_git_tools import sh

_CMAKE = """#!/bin/sh
here=$(dirname "$(dirname "$0")")
build= ; way=
while [ $# -gt 0 ]; do case "$1" in
    -B) build=$2; mkdir -p "$build";;
    --build) build=$2; way=made;;
esac; shift; done
[ -z "$way" ] || cp "$here/replay/$(basename "$build")"/* "$build/"
"""
_OBJCOPY = """#!/bin/sh
here=$(dirname "$(dirname "$0")")
case "$1" in --only-keep-debug) cp "$here/replay/debug" "$3";; *) cp "$here/replay/stripped" "$3";; esac
"""
PINS = """\
  tools: {git: 'https://example.org/tools'}
"""


def sample(root: Path) -> tuple[World, Callable[..., None]]:
    """The sample, whose toolchain is a source that copies what the real one has built."""
    env = environment(root)
    env |= {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_1": f"url.file://{root / 'tools'}.insteadOf",
        "GIT_CONFIG_VALUE_1": "https://example.org/tools",
    }
    world = World(root, env)
    world.project.rmdir()
    copy_of_sample(world.project)
    _toolchain(root / "tools")
    pins = (world.project / "pins.yaml").read_text()
    head, _, rest = pins.partition("  # 0.14.1 is")
    rest = rest[rest.index("# v0.2.0 and") :]
    pins = f"{head}{PINS}\n{rest}"
    pins = pins.replace("ziglang: 0.14.1, cmake: 4.1.2, ninja: 1.13.0", "tools: v1").replace(
        "minirt, ziglang, cmake, ninja]", "minirt, tools]"
    )
    pins = pins.replace('["{cmake}/cmake/data/bin/cmake"]', '["{tools}/bin/cmake"]').replace(
        '["{ninja}/ninja-1.13.0.data/scripts/ninja"]', '["{tools}/bin/ninja"]'
    )
    pins = pins.replace('["{ziglang}/ziglang/zig", objcopy]', '["{tools}/bin/objcopy"]').replace(
        "{ziglang}/ziglang/zig", "{tools}/bin/cmake"
    )
    (world.project / "pins.yaml").write_text(pins)
    kz = kz_process(env)

    def run(*words: str) -> None:
        done = kz("-C", world.project, *words)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")

    run("lock", "--write")
    return world, run


def _toolchain(folder: Path) -> None:
    """Build the sample once with its real toolchain, in the tests' store, and put what it made behind scripts, in git."""
    (folder / "bin").mkdir(parents=True)
    for name, text in (("cmake", _CMAKE), ("ninja", "#!/bin/sh\n"), ("objcopy", _OBJCOPY)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    store = Path(os.environ.get("KZ_TEST_CACHE", ROOT / "out" / "test-cache")).absolute()
    replay = store / "test-replay"
    if not replay.is_dir():
        real = folder.parent / "real"
        copy_of_sample(real)
        env = {**environment(folder.parent), "KZ_CACHE": str(store), "HOME": os.environ["HOME"]}
        kz_process(env)("-C", real, "build")
        build, dist = (real / place / "sample-0.1" / "linux-arm64" for place in ("out/build", "dist"))
        part = folder.parent / "replay"
        for name, files in (("library", ("libminirt_jni.so", "minirt_runner", "minirt_probe")), ("kz", ("kz_probe",))):
            (part / name).mkdir(parents=True)
            for file in files:
                shutil.copy(build / name / file, part / name)
        shutil.copy(dist / "lib" / "libminirt.so", part / "stripped")
        shutil.copy(next((dist / "symbols").rglob("*.debug")), part / "debug")
        shutil.copytree(part, replay)
    shutil.copytree(replay, folder / "replay")
    date = "2026-01-01T12:00:00Z"
    for words in (
        ("init", "-q", "-b", "main"),
        ("config", "uploadpack.allowFilter", "true"),
        ("config", "uploadpack.allowAnySHA1InWant", "true"),
        ("add", "-A"),
        ("commit", "-q", "-m", "Tools"),
        ("tag", "v1"),
    ):
        sh("git", *words, cwd=folder, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)


@contextlib.contextmanager
def build(root: Path) -> Iterator[Prepared]:
    """The first build."""
    world, run = sample(root)
    run("fetch")
    yield world, ["build"], str


@contextlib.contextmanager
def build_again(root: Path) -> Iterator[Prepared]:
    """A build of other inputs, over an old one."""
    world, run = sample(root)
    run("build")
    pins = world.project / "pins.yaml"
    pins.write_text(pins.read_text().replace("CMAKE_BUILD_TYPE: Release", "CMAKE_BUILD_TYPE: Debug"))
    yield world, ["build"], str


@contextlib.contextmanager
def report(root: Path) -> Iterator[Prepared]:
    """What was built."""
    world, run = sample(root)
    run("build")
    yield world, ["report"], str


@contextlib.contextmanager
def package(root: Path) -> Iterator[Prepared]:
    """The sample's library in an AAR as upstream would publish it; needs javac and aapt2."""
    from tests.e2e.test_package import aar, compiled

    world, run = sample(root)
    with served(root / "www") as address:
        aar(root / "www" / "minirt-android-0.1.0.aar", compiled(root / "jar"))
        pins = (world.project / "pins.yaml").read_text()
        pins = pins.replace(
            "sources:\n", "sources:\n  minirt-aar: {archive: '" + address + "/minirt-android-{version}.aar'}\n", 1
        )
        pins = (
            pins.replace("tools: v1}", "tools: v1, minirt-aar: 0.1.0}")
            + "    package: {aar: minirt-aar, module: 'org.minirt:minirt-android'}\n"
        )
        (world.project / "pins.yaml").write_text(pins)
        run("lock", "--write", "--trust", "minirt-aar")
        run("build")
        yield world, ["package"], str


@contextlib.contextmanager
def wheel(root: Path) -> Iterator[Prepared]:
    """A wheel from a web server, with a patch on it."""
    world = World(root, environment(root))
    with served(root / "www") as address:
        (root / "www" / "pack").mkdir()
        file = toy_wheel(root / "www" / "pack", "pack", "1.0", {"pack/__init__.py": "one = 1\n"})
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        (file.parent / "index.html").write_text(f'<a href="{file.name}#sha256={digest}">{file.name}</a>')
        stack = world.project / "patches" / "l" / "pack"
        stack.mkdir(parents=True)
        (stack / "series").write_text("0001-two.patch\n")
        (stack / "0001-two.patch").write_text(
            "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: Me <me@example.org>\nDate: Thu, 1 Jan 2026 12:00:00 +0000\nSubject: [PATCH] two\n\n---\n"
            "diff --git a/pack/__init__.py b/pack/__init__.py\n--- a/pack/__init__.py\n+++ b/pack/__init__.py\n@@ -1 +1,2 @@\n one = 1\n+two = 2\n"
        )
        (world.project / "pins.yaml").write_text(
            f"version: 1\ndefault: l\nsources:\n  pack: {{wheel: pack, index: '{address}'}}\nlines:\n  l: {{pack: '1.0'}}\ntargets: {{}}\n"
        )
        done = kz_process(world.env)("-C", world.project, "lock", "--write", "--trust", "pack")
        if done.returncode:
            raise RuntimeError(done.stderr)
        yield world, ["wheel", "pack"], str


_PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] && shift 2 && set -- -m venv --without-pip "$@"
exec {program} "$@"
"""


@contextlib.contextmanager
def toys(root: Path) -> Iterator[tuple[World, Toy]]:
    """A recipe whose exporter is a wheel of ours. Python makes environments without pip, which takes it seconds: uv installs."""
    made = toy(root / "made")
    world = World(root, environment(root))
    world.project.rmdir()
    shutil.move(made.root, world.project)
    made.root, made.store = world.project, world.state / "store"
    made.recipe(
        "ok", needs={"memory": {"gb": [0.01, 0.02], "source": "a guess"}, "disk": {}}
    )  # TMPDIR may be in memory
    world.env |= made.env | {"UV_FIND_LINKS": str(made.wheels), "PIP_FIND_LINKS": made.wheels.as_uri()}
    world.env["PATH"] = f"{Path(sys.executable).parent}:{world.env['PATH']}"  # where uv is
    program, python = sys.executable, root / "python"
    python.write_text(_PYTHON.format(program=program))
    python.chmod(0o755)
    sys.executable = str(python)
    try:
        yield world, made
    finally:
        sys.executable = program


@contextlib.contextmanager
def env(root: Path) -> Iterator[Prepared]:
    """An environment of one wheel."""
    with toys(root) as (world, _):
        yield world, ["env", "toy"], str


@contextlib.contextmanager
def export(root: Path) -> Iterator[Prepared]:
    """An export whose environment is there."""
    with toys(root) as (world, _):
        done = kz_process(world.env)("-C", world.project, "env", "toy")
        if done.returncode:
            raise RuntimeError(done.stderr)
        yield world, ["export", "toy"], str


@contextlib.contextmanager
def device_push(root: Path) -> Iterator[Prepared]:
    """A folder to an emulated device; the device is outside of what is put back, and is emptied."""
    world = World(root, environment(root))
    shutil.copy(SAMPLE / "pins.yaml", world.project)
    (world.project / "files" / "deep").mkdir(parents=True)
    for number in range(4):
        (world.project / "files" / "deep" / str(number)).write_bytes(bytes([number]) * 100_000)
    program = str(Path(adbutils.__file__).parent / "binaries" / "adb")
    os.environ["ADBUTILS_ADB_PATH"] = world.env["ADBUTILS_ADB_PATH"] = program
    emulated = [sys.executable, "-m", "kz_build", "device", "emulate", "--json", "--root", str(root / "device")]
    with (
        adapter.private(root / "adb-home") as server,
        subprocess.Popen(
            emulated, stdout=subprocess.PIPE, env={**os.environ, **world.env, "HOME": str(server.home)}, cwd=root
        ) as device,
    ):
        try:
            assert device.stdout
            text = ""
            while not text.rstrip().endswith("]"):
                text += device.stdout.readline().decode()
            serial = json.loads(text)[0]["serial"]
            server.device(serial)
            world.env["ANDROID_ADB_SERVER_PORT"] = str(server.port)
            place = root / "device" / "data" / "local" / "tmp"
            yield world, ["device", "push", "--serial", serial, "files"], lambda: _taken(place)
        finally:
            device.terminate()


def _taken(folder: Path) -> str:
    """What a device has, as a digest; it is emptied for the next point."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    for path in folder.iterdir():
        remove(path) if path.is_dir() else path.unlink()
    return digest.hexdigest()
