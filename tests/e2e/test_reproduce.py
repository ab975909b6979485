"""kz reproduce: the sample comes out the same; an upstream that does not is found out, and the right cause named."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kz_build.build.byte_diff import differences
from kz_build.core.process_group import RUNNING, members
from tests.conftest import ROOT, SAMPLE, Kz, snapshot
from tests.deadline import patient, until

pytestmark = pytest.mark.reproduce
GIT = {**{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
PINS = """
version: 1
default: t
sources:
  tiny: {git: upstream}
  ziglang: {wheel: ziglang, tag: "py3-none-manylinux*x86_64*", only: [ziglang/]}
  cmake: {wheel: cmake, tag: "py3-none-manylinux*x86_64*", only: [cmake/data/]}
  ninja: {wheel: ninja, tag: "py3-none-manylinux*x86_64*"}
lines:
  t: {tiny: v1, ziglang: 0.14.1, cmake: 4.1.2, ninja: 1.13.0}
targets:
  lib:
    platform: linux
    abi: arm64
    sources: [tiny, ziglang, cmake, ninja]
    tools:
      cmake: ["{cmake}/cmake/data/bin/cmake"]
      ninja: ["{ninja}/ninja-1.13.0.data/scripts/ninja"]
      objcopy: ["{ziglang}/ziglang/zig", objcopy]
    environment:
      ZIG: "{ziglang}/ziglang/zig"
      WRAPPER: "{project}/cc" # in no checkout: ccache knows a compiler by its time
      ZIG_GLOBAL_CACHE_DIR: "SHARED" # zig compiles its objcopy at first use, for eight seconds
      ZIG_LOCAL_CACHE_DIR: "{build.library}/zig-cache"
    cmake:
      library: {source: tiny, defines: {ZIG: "{ziglang}/ziglang/zig"}}
    outputs:
      libtiny.so: {path: "{build.library}/libtiny.so"}
    audit: {required: [elf]}
"""
# A compiler and a linker without any library: a build takes a second. All texts take the same room, so that none moves another.
CMAKE = """
cmake_minimum_required(VERSION 3.24)
project(tiny LANGUAGES NONE)
# A function, so that no segment is empty: `zig objcopy` moves the note where a program header is left over.
set(texts "int answer(void) { return 42; }\\n")
macro(embed name)
  string(APPEND texts "__attribute__((section(\\"kz.${name}\\"))) const char ${name}_text[200] = \\"${ARGN}\\";\\n")
endmacro()
macro(embed_output name)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\\n" " " text "${text}")
  embed(${name} ${text})
endmacro()
include(case.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/texts.c "${texts}")
separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
add_custom_command(OUTPUT texts.o DEPENDS texts.c
  COMMAND ${ZIG} cc -target aarch64-linux-gnu.2.28 -g -fPIC ${flags} -c texts.c -o texts.o)
add_custom_command(OUTPUT libtiny.so DEPENDS texts.o
  COMMAND ${ZIG} ld.lld -shared --build-id=sha1 -soname libtiny.so -o libtiny.so texts.o)
add_custom_target(library ALL DEPENDS libtiny.so)
"""
COMPILED = """
cmake_minimum_required(VERSION 3.24)
set(CMAKE_C_COMPILER $ENV{WRAPPER})
set(CMAKE_C_COMPILER_FORCED 1)
set(CMAKE_ASM_COMPILER $ENV{WRAPPER})
project(tiny LANGUAGES C ASM)
# An option that clang takes where it assembles, and refuses where it preprocesses alone.
set(CMAKE_ASM_FLAGS "${CMAKE_ASM_FLAGS} -mmark-bti-property")
file(WRITE ${CMAKE_BINARY_DIR}/more.S ".text\\n")
add_library(objects OBJECT case.cmake ${CMAKE_BINARY_DIR}/more.S)
set_source_files_properties(case.cmake PROPERTIES LANGUAGE C COMPILE_OPTIONS "-xc;-g;-fPIC")
add_custom_command(OUTPUT libtiny.so DEPENDS objects $<TARGET_OBJECTS:objects> COMMAND_EXPAND_LISTS
  COMMAND ${ZIG} ld.lld -shared --build-id=sha1 -soname libtiny.so -o libtiny.so $<TARGET_OBJECTS:objects>)
add_custom_target(library ALL DEPENDS libtiny.so)
"""
Tiny = Callable[..., Path]


@pytest.fixture
def tiny(tmp_path: Path, store: Path) -> Tiny:
    """A project whose upstream makes a library that holds what `case.cmake` embeds."""

    def make(case: str, cmake: str = CMAKE) -> Path:
        root = tmp_path / "tiny"
        upstream = root / "upstream"
        upstream.mkdir(parents=True)
        (upstream / "CMakeLists.txt").write_text(cmake)
        (root / "cc").write_text('#!/bin/sh\nexec "$ZIG" cc -target aarch64-linux-gnu.2.28 "$@"\n')
        (root / "cc").chmod(0o755)
        (upstream / "case.cmake").write_text(case)
        for name in ("alpha", "beta", "gamma"):
            (upstream / "folder" / name).mkdir(parents=True)
            (upstream / "folder" / name / "x").write_text(name)

        def git(*words: str) -> str:
            env = {**os.environ, **GIT}
            done = subprocess.run(["git", *words], cwd=upstream, env=env, check=True, capture_output=True, text=True)
            return done.stdout.strip()

        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "tiny")
        git("tag", "v1")
        (root / "pins.yaml").write_text(PINS.replace("SHARED", str(store / "zig")))
        entries = json.loads((SAMPLE / "pins.lock").read_text())["lines"]["sample-0.1"]
        del entries["minirt"]
        said = {"commit": git("rev-parse", "HEAD"), "tree": git("rev-parse", "HEAD^{tree}"), "url": "upstream"}
        entries["tiny"] = {"kind": "git", "version": "v1", "submodules": {}, **said}
        (root / "pins.lock").write_text(json.dumps({"lines": {"t": entries}, "unknown": 0, "version": 1}))
        return root

    return make


def usable(name: str, found: dict[str, object]) -> bool:
    """Whether this machine can vary it; what it cannot must say why."""
    way = next(v for v in found["variations"] if v["name"] == name)  # type: ignore[attr-defined]
    assert way["absent"] or way["second"], way
    return not way["absent"]


def test_the_sample_reproduces_with_everything_varied(sample: Path, kz: Kz) -> None:
    done = kz("-C", sample, "reproduce", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    names = {v["name"] for v in found["variations"]}
    assert names == {"path", "hostname", "uid", "umask", "locale", "timezone", "cpus", "order", "clock"}
    # What needs nothing of the machine or its kernel is varied wherever tests run; what is not says why.
    assert all(usable(name, found) or name not in ("path", "umask", "locale", "timezone") for name in names)
    assert found["same"] is True and found["differences"] == [] and found["dist"] == "absent"
    assert {"lib/libminirt.so", "unstripped/libminirt.so", "bin/minirt_probe"} <= set(found["files"])
    assert not (sample / "dist").exists(), "it is no build"
    assert [p.name for p in (sample / "out/reproduce/sample-0.1/linux-arm64").iterdir()] == ["manifest.json"]
    assert "reproduce linux-arm64: the same bytes" in kz("-C", sample, "report").stdout


EVERYTHING = """
embed(path "${CMAKE_CURRENT_BINARY_DIR}")
cmake_host_system_information(RESULT host QUERY HOSTNAME)
embed(hostname "${host}")
embed_output(uid id -u)
embed_output(umask sh -c umask)
embed(locale "$ENV{LC_ALL}")
embed_output(timezone date +%Z)
embed_output(cpus nproc)
embed_output(order ls -U "${CMAKE_CURRENT_SOURCE_DIR}/folder")
embed_output(clock date +%Y)
embed_output(seconds date "+%s %N")
embed_output(nothing od -An -N8 -tx8 /dev/urandom)
"""


def test_each_way_not_to_reproduce_is_blamed_on_what_brings_it(tiny: Tiny, kz: Kz) -> None:
    project = tiny(EVERYTHING)
    done = kz("-C", project, "reproduce", "--json")
    assert done.returncode == 7, done.stdout + done.stderr
    assert "does not reproduce" in done.stderr and done.stderr.endswith("kz: exit 7 (audit)\n")
    found = json.loads(done.stdout)
    library = {d["where"]: d for d in found["differences"] if d["file"] == "lib/libtiny.so"}
    wanted = {v["name"]: [v["name"]] for v in found["variations"] if usable(v["name"], found)}
    wanted |= {"seconds": ["clock"], "nothing": ["nothing"]}
    assert len(wanted) >= 6
    assert {where: d["causes"] for where, d in library.items()} == {
        ".note.gnu.build-id": [],
        **{f"kz.{name}": causes for name, causes in wanted.items()},
    }
    assert str(project)[:40] in library["kz.path"]["second"]
    assert library["kz.timezone"]["second"] == "XST"
    # The unstripped file says the same, and where it starts.
    assert {d["where"] for d in found["differences"] if d["file"] == "unstripped/libtiny.so"} >= set(library)
    assert found["objects"] == ["library/texts.o"]
    folder = project / "out/reproduce/t/lib"
    left = {p.name for p in folder.iterdir()}
    assert {"first", "second", "manifest.json"} <= left and "control" not in left
    if shutil.which("diffoscope"):
        assert "XST" in (folder / "libtiny.so.diffoscope.txt").read_text()
    assert "reproduce lib: DIFFERS" in kz("-C", project, "report").stdout


def test_two_causes_in_one_place_are_both_named(tiny: Tiny, kz: Kz) -> None:
    found = kz("-C", tiny('embed(both "$ENV{TZ} $ENV{LC_ALL}")\n'), "reproduce")
    assert found.returncode == 7
    at = found.stdout.index("DIFFERS lib/libtiny.so: kz.both")
    assert found.stdout[at:].splitlines()[1].startswith("  locale: the locale"), found.stdout
    assert found.stdout[at:].splitlines()[2].startswith("  timezone: a local time")
    assert "  second: XST-13:45 " in found.stdout


def test_a_build_that_left_other_bytes_in_dist_is_named(tiny: Tiny, kz: Kz, tmp_path: Path) -> None:
    """Twice the same, but not what was built with a compile cache: the cache was in the bytes."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ccache").write_text('#!/bin/sh\nexec "$@"\n')
    (tools / "ccache").chmod(0o755)
    project, path = tiny('embed(cache "cache: $ENV{CCACHE_DISABLE}")\n'), f"{tools}:{os.environ['PATH']}"
    assert kz("-C", project, "build", PATH=path).returncode == 0
    before = snapshot(project / "dist")
    done = kz("-C", project, "reproduce", PATH=path)
    assert done.returncode == 7 and "left it, differs" in done.stdout, done.stdout + done.stderr
    assert kz("-C", project, "build", KZ_CCACHE="0", PATH=path).returncode == 0
    assert snapshot(project / "dist") == before, "a cache is no input: the build is up to date"
    shutil.rmtree(project / "out/build")
    assert kz("-C", project, "build", KZ_CCACHE="0", PATH=path).returncode == 0
    done = kz("-C", project, "reproduce", PATH=path)
    assert done.returncode == 0 and "left it, has the same bytes" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
def test_a_compile_cache_spares_the_compiler_and_changes_no_byte(tiny: Tiny, kz: Kz) -> None:
    project = tiny("const char *file(void) { return __FILE__; }\n", COMPILED)

    def built(**env: str) -> dict[str, bytes | str]:
        shutil.rmtree(project / "out", ignore_errors=True)
        shutil.rmtree(project / "dist", ignore_errors=True)
        done = kz("-C", project, "build", **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return snapshot(project / "dist")

    def counted() -> dict[str, int] | None:
        (record,) = project.glob("out/build/*/*/manifest.json")
        counts: dict[str, int] | None = json.loads(record.read_text()).get("ccache")
        return counts

    without = built(KZ_CCACHE="0")
    assert counted() is None
    first = built()
    again = built()
    assert counted() == {"hits": 2, "misses": 0}, "C and assembler"
    assert without == first == again


def test_a_build_without_a_root_of_its_own_does_not_ask_the_projects_git(tiny: Tiny, kz: Kz, tmp_path: Path) -> None:
    """As on Ubuntu 24.04: an upstream that writes down `git rev-parse HEAD` wrote the project's commit."""
    project = tiny(
        "foreach(folder ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})\n"
        "  execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE text ERROR_QUIET)\n"
        '  string(STRIP "commit ${text}" text)\n'
        "  get_filename_component(name ${folder} NAME)\n"
        "  embed(${name} ${text})\n"
        "endforeach()\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/unshare").chmod(0o755)
    env = {**os.environ, **GIT}
    for words in (["init", "-q"], ["add", "pins.yaml"], ["commit", "-qm", "own"]):
        subprocess.run(["git", *words], cwd=project, env=env, check=True)
    own = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True).stdout.strip()
    done = kz("-C", project, "build", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr
    library = (project / "dist/t/lib/lib/libtiny.so").read_bytes()
    assert b"commit" in library and own not in library


def test_a_library_that_is_a_link_to_its_version_is_compared_with_its_debug_information(tiny: Tiny, kz: Kz) -> None:
    link = "-o libtiny.so.1 texts.o\n  COMMAND ln -sf libtiny.so.1 libtiny.so)"
    project = tiny("embed(x x)\n", CMAKE.replace("-o libtiny.so texts.o)", link))
    done = kz("-C", project, "reproduce", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unstripped/libtiny.so" in json.loads(done.stdout)["files"]


def test_a_project_and_a_store_reached_by_other_names_give_the_same_bytes(
    tiny: Tiny, kz: Kz, store: Path, tmp_path: Path
) -> None:
    """Compilers write down real names, by which alone a prefix map keeps them out."""
    project = tiny("const char *file(void) { return __FILE__; }\n", COMPILED)
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "store").symlink_to(store)
    found = []
    for root, cache in ((project, store), (f"{project}/../tiny", store), (tmp_path / "link", tmp_path / "store")):
        shutil.rmtree(project / "out", ignore_errors=True)
        done = kz("-C", root, "build", KZ_CACHE=str(cache))
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(snapshot(project / "dist"))
    assert found[0] == found[1] == found[2]
    assert not [name for name, data in found[0].items() if str(tmp_path).encode() in data]


def test_a_build_that_breaks_elsewhere_says_what_was_varied(tiny: Tiny, kz: Kz) -> None:
    case = "cmake_host_system_information(RESULT h QUERY HOSTNAME)\nif(h STREQUAL kz-elsewhere)\n message(FATAL_ERROR no)\nendif()\n"
    done = kz("-C", tiny(case), "reproduce")
    assert done.returncode == 5
    assert "the build does not work with path, hostname, umask" in done.stderr and "the whole log: " in done.stderr


def test_a_stopped_run_is_no_obstacle_to_the_next(
    tiny: Tiny, kz: Kz, clean_env: dict[str, str], tmp_path: Path
) -> None:
    """Stopped in the second build, under disorderfs where there is one."""
    marker = tmp_path / "started"
    wait = f"file(TOUCH {marker})\n execute_process(COMMAND sleep 30)"
    project = tiny(f'if("$ENV{{TZ}}" MATCHES XST AND NOT EXISTS {marker})\n {wait}\nendif()\n')

    def stopped(sign: signal.Signals) -> int:
        marker.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "kz_build", "-C", str(project), "reproduce"]
        process = subprocess.Popen(argv, cwd=ROOT, env=clean_env, stderr=subprocess.DEVNULL)
        until(marker.exists, 60)
        process.send_signal(sign)
        return process.wait(patient(20))

    assert stopped(signal.SIGINT) == 130
    assert str(project) not in Path("/proc/mounts").read_text()
    assert stopped(signal.SIGKILL) == -9
    (noted,) = project.rglob(f"*.{RUNNING}")
    session = int(json.loads(noted.read_bytes())["session"])
    assert list(members(session)), "nobody could end the build's program"
    done = kz("-C", project, "reproduce")
    assert done.returncode == 0, done.stderr
    assert not list(members(session)) and not list(project.rglob(f"*.{RUNNING}"))
    assert str(project) not in Path("/proc/mounts").read_text()


def test_nothing_of_a_tampered_store_is_built(sample: Path, kz: Kz, store: Path, tmp_path: Path) -> None:
    own = tmp_path / "store"
    shutil.copytree(store / "unpacked", own / "unpacked", symlinks=True, copy_function=os.link)
    shutil.copytree(store / "sha256", own / "sha256", copy_function=os.link)
    tool = next(own.glob("unpacked/*/ninja-1.13.0.data/scripts/ninja"))
    content = tool.read_bytes()
    tool.unlink()
    tool.write_bytes(content + b"x")
    tool.chmod(0o755)
    done = kz("-C", sample, "reproduce", KZ_CACHE=str(own))
    assert done.returncode == 3 and "ninja" in done.stderr, done.stdout + done.stderr


def test_members_of_a_zip_are_named(tmp_path: Path) -> None:
    def packed(name: str, content: bytes, month: int) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("same.txt", (2026, 1, 1, 0, 0, 0)), b"same")
            archive.writestr(zipfile.ZipInfo("classes.jar", (2026, month, 1, 0, 0, 0)), content)
        return tmp_path / name

    first, second = packed("a.aar", b"built in /home/a", 1), packed("b.aar", b"built in /home/b", 2)
    found = {d.where: (d.first, d.second) for d in differences("x.aar", first, second)}
    assert found["classes.jar"] == ("built in /home/a", "built in /home/b")
    assert set(found) == {"classes.jar", "order, times and modes"}
    assert not list(differences("x.aar", first, first))
