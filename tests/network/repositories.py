"""Stand-ins of upstream's repositories: each at its own address, with the submodules that the real one links."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.stack.test_git_tools import ENV, sh

Files = Mapping[str, str]
Links = dict[str, tuple[str, int]]
"""Path of a submodule -> its address, and the mark of its commit."""
NESTED = {
    "extension/llm/tokenizers": {
        "third-party/abseil-cpp": "https://github.com/abseil/abseil-cpp.git",
        "third-party/json": "https://github.com/nlohmann/json.git",
        "third-party/pcre2": "https://github.com/PCRE2Project/pcre2.git",
        "third-party/re2": "https://github.com/google/re2.git",
        "third-party/sentencepiece": "https://github.com/google/sentencepiece.git",
    },
    "extension/llm/tokenizers/third-party/pcre2": {"deps/sljit": "https://github.com/zherczeg/sljit.git"},
    "third-party/ao": {"third_party/cutlass": "https://github.com/NVIDIA/cutlass"},
}
"""The submodules of submodules: path -> address. pins.yaml excludes those of ao."""
SOURCE = "extension/android/jni/jni_layer.c"
BEFORE = """#include <stddef.h>

__attribute__((used, retain)) static const char* const registered[] = {"Lorg/pytorch/executorch/extension/llm/LlmModule;", "generate"};

int JNI_OnLoad(void* machine, void* reserved) {
  (void)machine;
  (void)reserved;
  return registered[0] == NULL ? 0 : 0x10006;
}
"""
ADDED = """
void Java_org_pytorch_executorch_extension_llm_LlmModule_stop(void* environment, void* self) {
  (void)environment;
  (void)self;
}
"""
"""What our stack adds: without it the audit finds no native method `stop`."""
_JAVA = "extension/android/executorch_android/src/main/java/org/pytorch/executorch/extension/llm/LlmModule.java"
EXECUTORCH: Files = {
    "LICENSE": "BSD\n",
    "CMakePresets.json": json.dumps(
        {
            "version": 3,
            "configurePresets": [{"name": "android-arm64-v8a", "generator": "Ninja", "binaryDir": "cmake-out"}],
        }
    ),
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.24)
project(executorch LANGUAGES C)
file(STRINGS needed.txt needed)
foreach(path IN LISTS needed ITEMS "${KLEIDIAI_SOURCE_DIR}/README")
  if(NOT EXISTS "${path}" AND NOT EXISTS "${CMAKE_SOURCE_DIR}/${path}/README")
    message(FATAL_ERROR "${path} is not there")
  endif()
endforeach()
execute_process(COMMAND "${PYTHON_EXECUTABLE}" -c "import torchgen, yaml, typing_extensions" COMMAND_ERROR_IS_FATAL ANY)
add_subdirectory(extension/android)
if(EXECUTORCH_BUILD_QNN)
  add_subdirectory(backends/qualcomm)
endif()
install(FILES LICENSE DESTINATION lib/cmake/ExecuTorch)
""",
    "extension/android/CMakeLists.txt": """if(NOT EXISTS "${CMAKE_CURRENT_BINARY_DIR}/third-party/fbjni/fbjni.aar")
  message(FATAL_ERROR "fbjni would be downloaded")
endif()
add_library(executorch_jni SHARED jni/jni_layer.c)
""",
    SOURCE: BEFORE,
    _JAVA: """package org.pytorch.executorch.extension.llm;

public class LlmModule {
  static {
    System.loadLibrary("executorch");
  }

  public native int generate(String prompt);

  public native void stop();
}
""",
    "backends/qualcomm/CMakeLists.txt": """add_library(qnn_executorch_backend SHARED backend.c)
target_include_directories(qnn_executorch_backend PRIVATE "${QNN_SDK_ROOT}/include/QNN")
""",
    "backends/qualcomm/backend.c": "#include <QnnInterface.h>\n\nint QnnExecuTorchAllocCustomMem(void) { return QNN_API_VERSION_MAJOR; }\n",
    "examples/qualcomm/CMakeLists.txt": """cmake_minimum_required(VERSION 3.24)
project(qualcomm LANGUAGES C)
list(GET CMAKE_PREFIX_PATH 0 installed)
if(NOT EXISTS "${installed}/lib/cmake/ExecuTorch/LICENSE")
  message(FATAL_ERROR "the library is not installed")
endif()
add_subdirectory(oss_scripts/llama)
""",
    "examples/qualcomm/oss_scripts/llama/CMakeLists.txt": "add_executable(qnn_llama_runner main.c)\n",
    "examples/qualcomm/oss_scripts/llama/main.c": "int main(void) { return 0; }\n",
}


class Repository:
    """The commits of all stand-ins, in one bare repository; every address of git is answered from it. A commit is known by
    its mark until `write`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses: set[str] = set()
        self.rows: list[str] = []
        self.marks = 0

    def commit(self, url: str, files: Files, links: Links | None = None, tag: str = "", parent: int = 0) -> int:
        """Commit these files and submodules; give the commit's mark."""
        self.addresses.add(url.removesuffix(".git"))
        self.marks += 1
        sections = "".join(
            f'[submodule "{path}"]\n\tpath = {path}\n\turl = {at}\n' for path, (at, _) in (links or {}).items()
        )
        who, text = "Upstream <up@stream> Thu, 01 Jan 2026 12:00:00 +0000", "Stand-in"
        self.rows.append(
            f"commit refs/heads/{self.marks}\nmark :{self.marks}\ncommitter {who}\ndata {len(text)}\n{text}\n"
        )
        self.rows += [f"from :{parent}\n"] if parent else []
        for path, content in {**files, **({".gitmodules": sections} if links else {})}.items():
            self.rows.append(f"M 100644 inline {path}\ndata {len(content.encode())}\n{content}\n")
        self.rows += [f"M 160000 :{mark} {path}\n" for path, (_, mark) in (links or {}).items()]
        self.rows += [f"reset refs/tags/{tag}\nfrom :{self.marks}\n\n"] if tag else []
        return self.marks

    def of_submodules(self, submodules: Mapping[str, str], below: str = "") -> Links:
        """Commit a stand-in of each submodule (path -> address), and of those nested in it; give what links them."""
        links = {}
        for path, url in submodules.items():
            full = f"{below}{path}"
            nested = self.of_submodules(NESTED.get(full, {}), f"{full}/")
            links[path] = (url, self.commit(url, {"README": f"In the place of {full}.\n"}, nested))
        return links

    def write(self) -> list[tuple[str, str]]:
        """Write all commits; give (commit, tree) of each, by its mark."""
        sh("git", "init", "-q", "--bare", "--template=", self.folder, cwd=self.folder.parent)
        for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            sh("git", "config", key, "true", cwd=self.folder)
        fed = ("git", "fast-import", "--quiet", "--date-format=rfc2822")
        subprocess.run(fed, cwd=self.folder, env=ENV, input="".join(self.rows), text=True, check=True)
        marks = range(1, self.marks + 1)
        names = (f"refs/heads/{mark}{kind}" for mark in marks for kind in ("", "^{tree}"))
        ids = sh("git", "rev-parse", *names, cwd=self.folder).split()
        return [("", ""), *zip(ids[::2], ids[1::2], strict=True)]
