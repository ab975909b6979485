"""kz verify --build: a patch that applies, on code that it no longer compiles or links with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kz_build.build.touched_units import outputs, touched
from kz_build.core.errors import CommandError
from kz_build.pipeline.pruned_manifest import pruned
from kz_build.pipeline.trial_build import _failure, _text
from tests.conftest import Kz, snapshot
from tests.stack.test_git_tools import sh

DEFINITION = "int64_t Program::constant("


def test_what_includes_a_changed_header_is_touched_also_through_others() -> None:
    files = {
        "src/a.h": b"",
        "src/b.h": b'#pragma once\n  #  include "../src/a.h"\n',
        "src/one.cpp": b"#include <src/b.h>\n",
        "src/two.cpp": b'#include "other/a.h"\n',
        "src/three.cpp": b'// #include "a.h"\n',
        "src/four.c": b'#include "b.h"\n#include "a.h"\n',
        "loop.h": b'#include "loop.h"\n',
    }
    assert touched(["src/a.h", "README.md"], files) == {"src/a.h", "src/b.h", "src/one.cpp", "src/four.c", "README.md"}
    assert touched(["loop.h"], files) == {"loop.h"}


def test_the_objects_of_a_file_are_those_of_every_program_it_is_in() -> None:
    rows = [
        ("/b", "../s/a.cpp", "x/a.o"),
        ("/b", "/s/a.cpp", "y/a.o"),
        ("/b", "/s/b.cpp", "b.o"),
        ("/b", "x/a.o", "libx.a"),
    ]
    compdb = json.dumps([{"directory": d, "file": f, "output": o, "command": "c"} for d, f, o in rows])
    assert outputs(compdb, ["/s/a.cpp"]) == ("y/a.o",)
    for bad in ("", "[1]", '{"a": 1}', '[{"directory": 1, "file": 2}]'):
        with pytest.raises(CommandError, match="cannot be read"):
            outputs(bad, ["/s/a.cpp"])


def test_what_generates_files_waits_for_no_library_but_for_its_own_program_and_inputs() -> None:
    """As CMake 3.31 writes it: one object of ExecuTorch waited for 1,468 steps."""
    rows = [
        "build a.o: CXX_COMPILER__a_Release a.cpp || order_a",
        "build a$ b.a: CXX_STATIC_LIBRARY_LINKER__a_Release a.o",
        "build tool: CXX_EXECUTABLE_LINKER__tool_Release t.o",
        "build objects: phony a.o",
        "build all_of_a: phony a$ b.a objects",
        "build schema: phony CMakeFiles/schema",
        "build x.h | y.h: CUSTOM_COMMAND in.fbs a.o || a$ b.a all_of_a tool schema",
        "build z.h: CUSTOM_COMMAND in.fbs || objects",
        "  COMMAND = cd /b || exit 1",
        "build w.o: CXX_COMPILER__w_Release w.cpp || a$ b.a",
    ]
    left = pruned("\n".join(rows)).split("\n")
    assert left[6:8] == [
        "build x.h | y.h: CUSTOM_COMMAND in.fbs a.o || tool schema", "build z.h: CUSTOM_COMMAND in.fbs",
    ]  # fmt: skip
    assert left[:6] + left[8:] == rows[:6] + rows[8:]


@pytest.mark.reproduce
def test_a_patch_that_applies_is_compiled_and_linked_at_each_version(sample: Path, tmp_path: Path, kz: Kz) -> None:
    """One version where a function has another name, one where it belongs to a program only, one that needs something else."""
    upstream = tmp_path / "upstream"
    sh("git", "clone", "-q", str(sample / "upstream.bundle"), str(upstream), cwd=tmp_path)
    program, runner, header = (
        upstream / name for name in ("runtime/program.cpp", "tools/runner.cpp", "runtime/program.h")
    )

    sh("git", "checkout", "-q", "-b", "renamed", "v0.1.0", cwd=upstream)
    for path in (program, runner, header):
        path.write_text(path.read_text().replace("constant(", "constant_or("))
    sh("git", "commit", "-qam", "A better name", cwd=upstream)

    sh("git", "checkout", "-q", "-b", "moved", "v0.1.0", cwd=upstream)
    before, name, rest = program.read_text().partition(DEFINITION)
    body, end, after = rest.partition("\n}\n")
    program.write_text(before + after.lstrip("\n"))
    text = runner.read_text()
    runner.write_text(f"{text}\n#include <string.h>\nnamespace minirt {{\n{name}{body}{end}}} // namespace minirt\n")
    sh("git", "commit", "-qam", "Only the runner needs it", cwd=upstream)

    sh("git", "checkout", "-q", "-b", "newer", "v0.1.0", cwd=upstream)
    runner.write_text('#include "newer_than_the_pin.h"\n' + runner.read_text())
    sh("git", "commit", "-qam", "Use what another source has since", cwd=upstream)
    sh("git", "bundle", "create", "-q", str(sample / "upstream.bundle"), "--all", cwd=upstream)

    # As Android's NDK links: what is not defined anywhere is an error.
    (sample / "pins.local.yaml").write_text(
        'targets: {linux-arm64: {cmake: {library: {defines: {CMAKE_SHARED_LINKER_FLAGS: "-Wl,-z,defs"}}}}}\n'
    )
    project = snapshot(sample)
    done = kz("-C", sample, "verify", "--build", "--fetch", "--onto", "v0.1.0", "renamed", "moved", "newer", "--json")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "library-build 1/" in done.stderr, "a counter, in the link as elsewhere"
    assert "does not build at renamed (compile), moved (link), newer (compile)" in done.stderr
    assert "change the patch" in done.stderr
    builds = json.loads(done.stdout)[0]["builds"]
    assert [build["outcome"] for build in builds] == ["builds", "compile", "link", "compile"]
    assert [build["outside_stack"] for build in builds] == [False, False, False, True]
    assert builds[1]["failed"].endswith("jni_layer.cpp.o") and builds[2]["failed"] == "libminirt_jni.so"
    assert builds[1]["errors"][0].startswith("extension/jni/jni_layer.cpp:51:")
    assert "no member named 'constant' in 'minirt::Program'" in builds[1]["errors"][0]
    assert "minirt::Program::constant(char const*, long" in builds[2]["errors"][0]
    assert all(Path(build["log"]).is_file() for build in builds[1:])
    done = kz("-C", sample, "verify", "--build", "--onto", "newer")
    assert done.returncode == 5 and "the stack does not touch it" in done.stdout, done.stdout + done.stderr
    assert "change the patch" not in done.stderr and "pins.local.yaml" in done.stderr
    after_it = {path: content for path, content in snapshot(sample).items() if not path.startswith("out/")}
    assert after_it == {path: content for path, content in project.items() if not path.startswith("out/")}
    assert not list((sample / "out/trial").glob("sample-0.1/*"))


@pytest.mark.parametrize("lines", [30_000, 600_000])
def test_the_error_stands_below_megabytes_of_warnings(tmp_path: Path, lines: int) -> None:
    log = tmp_path / "log"
    warning = "a.h:1:1: warning: this is not used here, and nobody will ever need it\n"
    log.write_text(
        warning * lines + "FAILED: [code=1] lib/a.o\n/t/a.c:3:1: error: no such thing\nninja: build stopped\n"
    )
    assert _failure("x-build", _text(log)) == ("compile", "lib/a.o", ("/t/a.c:3:1: error: no such thing",))


@pytest.mark.reproduce
@pytest.mark.parametrize("killed", ["$PPID", "$$"])
def test_a_build_that_somebody_killed_is_no_verdict(sample: Path, kz: Kz, tmp_path: Path, killed: str) -> None:
    """As by the kernel, out of memory: the patches were said not to build there. $PPID is ninja, $$ a compiler."""
    (tmp_path / "kill").write_text(f'#!/bin/sh\ncase "$*" in *program.cpp*) kill -9 {killed};; esac\nexec "$@"\n')
    (tmp_path / "kill").chmod(0o755)
    (sample / "pins.local.yaml").write_text(
        f"targets: {{linux-arm64: {{environment: {{CMAKE_CXX_COMPILER_LAUNCHER: '{tmp_path / 'kill'}'}}}}}}\n"
    )
    other = sample / "out/trial/sample-0.1/other/tree"
    other.mkdir(parents=True)
    done = kz("-C", sample, "verify", "--build", "--json", KZ_CCACHE="0")
    assert done.returncode == 5 and "does not build" not in done.stderr, done.stderr
    assert not done.stdout and "ended with" in done.stderr
    assert other.is_dir(), "another target is tried at the same time"
