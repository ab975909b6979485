"""Two C++ runtimes in one app: what goes wrong between a library and its bridge to Java, and the audit that sees it first.

`bridge` does what libfbjni.so does: the wrappers in its headers catch every exception in the other library, and it asks its own runtime
what was caught. This machine's compiler shows it in both ways; only the comparison of types depends on the runtime (GNU's compares names,
LLVM's addresses).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kz_build.checks.audit import Audited, Rules, audit_files
from kz_build.core.check import Check, Status
from kz_build.formats.elf_types import JavaSide

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

BRIDGE = """
#include <exception>
#include <string>
std::string caught() {
  std::exception_ptr now = std::current_exception();
  if (!now) return "nothing";
  try { std::rethrow_exception(now); } catch (const std::exception& error) { return error.what(); }
}
std::string twice(std::string text) { return text + text; }
"""
ENGINE = """
#include <cstdio>
#include <stdexcept>
#include <string>
std::string caught();
std::string twice(std::string);
extern "C" void JNI_OnLoad() {
  try { throw std::runtime_error("no such method"); } catch (...) { printf("caught: %s\\n", caught().c_str()); }
  printf("a string: %s\\n", twice(std::string(40, 'x')) == std::string(80, 'x') ? "whole" : "damaged");
}
"""
MAIN = """
#include <dlfcn.h>
int main() {
  void* engine = dlopen("libengine.so", RTLD_NOW);
  return engine ? ((void (*)(void))dlsym(engine, "JNI_OnLoad"))(), 0 : 1;
}
"""
VERSION_SCRIPT = "{ global: JNI_OnLoad; local: *; };"  # as upstream's: the runtime inside is hidden


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bridge")
    texts = {"bridge.cpp": BRIDGE, "engine.cpp": ENGINE, "main.c": MAIN, "engine.map": VERSION_SCRIPT}
    for name, text in texts.items():
        (folder / name).write_text(text)
    compiled(folder, "-shared", "-o", "libbridge.so", "-Wl,-soname,libbridge.so", "bridge.cpp")
    compiled(folder, "-x", "c", "main.c", "-o", "main", "-ldl")
    return folder


def compiled(folder: Path, *arguments: str) -> None:
    subprocess.run(["g++", "-O1", "-fPIC", *arguments], cwd=folder, check=True)


def engine(folder: Path, *runtime: str, platform: str = "linux") -> tuple[str, dict[tuple[str, str], Check]]:
    """What the engine prints, and what the audit of both libraries says."""
    linking = ("-Wl,-soname,libengine.so", "-Wl,--version-script=engine.map", "-L.", "-lbridge", *runtime)
    compiled(folder, "-shared", "-o", "libengine.so", "engine.cpp", *linking)
    environment = {"LD_LIBRARY_PATH": str(folder)}
    said = subprocess.run(["./main"], cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    rules = Rules(
        platform,
        "x86_64",
        frozenset(),
        frozenset(),
        0,
        (),
        JavaSide((), frozenset({"engine"})),
        exports={"libbridge.so": ()},
    )
    files = (Audited(folder / "libengine.so", "ours"), Audited(folder / "libbridge.so", "vendor"))
    return said, {(c.subject, c.name): c for c in audit_files(files, rules)}


def test_with_one_runtime_the_bridge_knows_what_was_caught(bridge: Path) -> None:
    said, audit = engine(bridge)
    assert said == "caught: no such method\na string: whole\n"
    runtime = audit["libengine.so", "runtime"]
    assert (runtime.status, runtime.evidence) == (Status.PASS, "libstdc++.so.6")
    assert audit["libengine.so", "exports"].evidence == "1 symbols"


def test_with_two_the_exception_is_gone_and_the_audit_names_both(bridge: Path) -> None:
    said, audit = engine(bridge, "-static-libstdc++")
    assert said == "caught: nothing\na string: whole\n"
    runtime = audit["libengine.so", "runtime"]
    assert (runtime.status, runtime.evidence) == (
        Status.FAIL,
        "a C++ runtime inside; libbridge.so needs libstdc++.so.6",
    )
    assert audit["libengine.so", "exports"].status is Status.PASS  # hidden, and there all the same


def test_for_android_the_audit_says_how_to_build_it_with_one(bridge: Path) -> None:
    _, audit = engine(bridge, "-static-libstdc++", platform="android")
    assert audit["libengine.so", "runtime"].evidence.endswith("; build it with ANDROID_STL: c++_shared")
    _, audit = engine(bridge, platform="android")
    assert audit["libengine.so", "runtime"].evidence == "libstdc++.so.6"


def test_a_runtime_inside_is_right_where_it_is_the_only_one(bridge: Path) -> None:
    compiled(bridge, "-shared", "-o", "libalone.so", "bridge.cpp", "-static-libstdc++")
    shutil.copy(bridge / "libalone.so", bridge / "libother.so")
    rules = Rules("linux", "x86_64", frozenset(), frozenset(), 0, (), JavaSide((), frozenset()))

    def answers(*files: Audited) -> list[str]:
        return [c.evidence for c in audit_files(files, rules) if c.name == "runtime"]

    alone, other = bridge / "libalone.so", bridge / "libother.so"
    assert answers(Audited(alone, "ours"), Audited(other, "vendor")) == [
        "a C++ runtime inside"
    ]  # a vendor's has a C interface
    assert answers(Audited(alone, "ours"), Audited(other, "ours")) == [
        "a C++ runtime inside; libother.so has another",
        "a C++ runtime inside; libalone.so has another",
    ]
