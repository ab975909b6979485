"""Sentences of builds that people post alone, without the head, place or program before them, fit the same family; ordinary lines of builds fit none."""

from __future__ import annotations

import re

import pytest

from kz_build.diagnose.diagnose import shipped
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.signature import Finding

SIGNATURES = {one.id: one for one in shipped()}
ALONE = [
    ("link-library", "unable to find library -lfoo"),
    ("link-library", "framework not found Pods_Runner"),
    ("link-library-form", "cannot find -lG:/x/bin/libfoo.arm64v8.a"),
    ("link-library-form", "unable to find library -llibfoo.so"),
    ("link-mac-architecture", "symbol(s) not found for architecture arm64"),
    ("header-missing", "'foo/bar.h' file not found"),
    ("header-missing", "foo/bar.h: No such file or directory"),
    ("compiler-undeclared", "use of undeclared identifier 'foo'"),
    ("compiler-undeclared", "‘foo’ was not declared in this scope"),
    ("compiler-option", "unrecognized command line option '-std=c++20'"),
    ("build-no-rule", "No rule to make target 'foo', needed by 'bar'"),
    ("cmake-package", 'Could not find a package configuration file provided by "fmt" with any of the following names:'),
    ("cmake-not-found", "Could NOT find OpenSSL, try to set the path to it (missing: OPENSSL_CRYPTO_LIBRARY)"),
    ("cmake-target", 'Target "foo" links to target "bar::bar" but the target was not found.'),
    ("cmake-command", 'Unknown CMake command "pkg_check_modules"'),
    ("cmake-none", "No CMAKE_CXX_COMPILER could be found."),
    ("cmake-visual-studio", "could not find any instance of Visual Studio"),
    ("configure-package", "Package requirements (glib-2.0 >= 2.40) were not met"),
    ("configure-package", 'Dependency "glib-2.0" not found, tried pkgconfig and cmake'),
    ("autoconf-macro", "possibly undefined macro: AC_PROG_LIBTOOL"),
    ("conan-not-found", "Package 'zlib/1.2.13' not resolved"),
    ("rust-linker", "linker `cc` not found"),
    ("proto-import", 'Import "bar.proto" was not found or had errors.'),
    ("msvc-unresolved", "LNK2019: unresolved external symbol foo referenced in function main"),
    ("msvc-library", "LNK1104 cannot open file 'python39.lib'"),
]  # fmt: skip
ORDINARY = """\
-- Could NOT find Vulkan (missing: glslc)
-- Checking for module 'libfoo'
--   No package 'libfoo' found
CMake Warning at CMakeLists.txt:10 (find_package):
  By not providing "FindFoo.cmake" in CMAKE_MODULE_PATH this project has asked
  CMake to find a package configuration file provided by "Foo", but CMake did
  not find one.
-- Build files have been written to: /x/build
Android NDK: APP_PLATFORM not set. Defaulting to minimum supported version android-16.
ld: warning: directory not found for option '-L/opt/homebrew/lib'
make: warning:  Clock skew detected.  Your build may be incomplete.
nvcc warning : The 'compute_35' architectures are deprecated
a.cpp(12): warning C4996: 'strcpy': This function or variable may be unsafe.
Detecting compiler hash for triplet x64-linux...
   Compiling libz-sys v1.1.17
[34/34] Linking CXX executable app
"""
WINDOWS = """\
CMake Error at C:/Program Files (x86)/CMake/share/cmake-3.26/Modules/FindPackageHandleStandardArgs.cmake:230 (message):
  Could NOT find OpenSSL, try to set the path to OpenSSL root folder in the
  system variable OPENSSL_ROOT_DIR (missing: OPENSSL_CRYPTO_LIBRARY
  OPENSSL_INCLUDE_DIR)
"""


def findings(log: str) -> tuple[Finding, ...]:
    scanner = Scanner(SIGNATURES.values())
    scanner.feed(log.encode())
    return scanner.found()


def certain(log: str) -> list[str]:
    return [one.id for one in findings(log) if not one.possible]


def found(log: str) -> list[str]:
    return [one.id for one in findings(log) if not one.harmless]


@pytest.mark.parametrize(("id", "line"), ALONE, ids=[line for _, line in ALONE])
def test_a_sentence_alone_fits_its_family(id: str, line: str) -> None:
    assert re.compile(SIGNATURES[id].match, re.M).match(line)


def test_ordinary_lines_of_builds_have_no_cause() -> None:
    assert found(ORDINARY) == []


def test_a_path_with_spaces_does_not_hide_what_cmake_says() -> None:
    assert found(WINDOWS) == ["cmake-not-found"]


def test_a_note_of_ndk_build_is_not_taken_for_the_error_below_it() -> None:
    note = "Android NDK: APP_PLATFORM not set. Defaulting to minimum supported version android-16.\n"
    assert found(note + "/x/x.c:3:10: fatal error: 'frob/frob.h' file not found\n") == ["header-missing"]


@pytest.mark.parametrize(
    "log",
    [
        "Deprecated Gradle features were used in this build, making it incompatible with Gradle 9.0.\n",
        "Resolving dependencies...\nGot dependencies!\n12 packages have newer versions incompatible with dependency constraints.\n",
        "Rebooting                                          FAILED (Status read failed (Too many links))\n",
        "ggml_opencl: drop unsupported device 'llvmpipe'.\nggml_opencl: selecting device: 'QUALCOMM Adreno(TM) 750'\n",
        "[!] Android toolchain - develop for Android devices\n    ✗ cmdline-tools component is missing\n",
    ],
)
def test_ordinary_short_outputs_of_android_tools_have_no_cause(log: str) -> None:
    assert [one.id for one in findings(log) if not (one.harmless or one.possible)] == []


GO_ON = [
    "debconf: delaying package configuration, since apt-utils is not installed",
    "tar: Ignoring unknown extended header keyword 'LIBARCHIVE.xattr.com.apple.provenance'",
    "Checksum verification failed for cached artifact, downloading again",
    "CMake Warning at x.cmake:1 (message):\n  Could NOT find Foo (missing: FOO_LIBRARY)",
    "PASS src/x.test.js\n  ✓ throws ECONNREFUSED error (2 ms)",
    "Please specify a name for the new project:",
    "  --all  can only be used together with --force",
    "Version 3.29 or newer is recommended",
    "fix: handle permission denied in runner",
    'Revert "Require CMake 3.29"',
    "HEAD is now at abc1234 Fix undefined reference to foo",
    "[main abc1234] Fix error when NDK is not set",
    "Applying: Fix undefined reference to foo",
    "- Fix error: cannot find symbol",
    "[BUG] Permission denied when running on Android 14",
    "ImportError when torch is not installed #123",
    "Have you installed the library that is not found?",
    "Requires Python 3.10 or later.",
    "* requires CMake >= 3.24",
    "- name: Fail if version does not match",
    "Prerequisites: the NDK has to be installed",
    "SKIPPED [1] test_x.py:8: requires torch >= 2.6",
    'echo "Error: ANDROID_NDK is not set" && exit 1',
    'command -v flatc || { echo "Error: flatc not found, please install it"; exit 1; }',
    '#error "NDK version is too old"',
    "--model M     path; error: if it is not set",
    "HF_TOKEN is not set, anonymous access",
    "apex is not installed. Fall back to native LayerNorm.",
    "missing keys: [], unexpected keys: []",
    "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 123",
    "curl: (7) Failed to connect to x port 443: Connection refused\nWarning: Problem : connection refused. Will retry in 1 seconds.\n100 12\ndone",
    "Python: not found\nVulkan: not found\nTests: OFF\nNow run make.",
    "./configure: line 123: pkg-config: command not found\nchecking for foo... no\nconfig.status: creating Makefile\nconfig.status: creating config.h",
]


@pytest.mark.parametrize("log", GO_ON)
def test_what_a_program_says_that_goes_on_is_no_error(log: str) -> None:
    assert certain(log + "\n") == []


DECORATED = [
    "> {}",
    "`{}`",
    '"{}"',
    "[ERROR] {}",
    "##[error]{}",
    "[2026-11-26 02:07:08,123] {}",
    "   12 | {}",
]


@pytest.mark.parametrize("form", DECORATED)
@pytest.mark.parametrize(
    ("id", "line"),
    [
        ("link-library", "ld: cannot find -lgcc_s"),
        ("opencv-mixed", "AttributeError: module 'cv2.dnn' has no attribute 'DictValue'"),
    ],
)
def test_what_a_person_or_a_service_puts_around_an_error_hides_it_from_no_family(id: str, line: str, form: str) -> None:
    assert id in certain(form.format(line) + "\n")


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("module-missing", "No module named 'frob'"),
        ("import-name", "cannot import name 'frob' from 'executorch.exir'"),
        ("python-object-attribute", "'Upsample' object has no attribute 'recompute_scale_factor'"),
        ("python-argument", "forward() missing 1 required positional argument: 'mask'"),
    ],
)
def test_the_words_of_an_exception_of_python_are_enough(id: str, words: str) -> None:
    assert id in [one.id for one in findings(words + "\n")]


NO_ERRORS = [
    "The FOO variable is not set. Defaulting to a blank string.",
    "FOO is not set; using /usr/local",
    "CONFIG_FOO is not set",
    "test_invalid_option_is_rejected: unknown option --foo ... ok",
    "checksum mismatch expected for the negative test ... ok",
    "checking whether the disk is full... no",
    "PASS: returns 403 Forbidden",
    'GET /x 403 Forbidden',
    '127.0.0.1 - - [26/Nov/2026] "GET /x HTTP/1.1" 401 Unauthorized',
    'throw new Error("Access is denied");',
    'log.warn("connection refused: {}", host)',
    '<string name="failed">Permission denied</string>',
    'commit 1a2b3c: fix "permission denied" on start',
    "Verified: no checksum mismatch",
]  # fmt: skip


@pytest.mark.parametrize("line", NO_ERRORS)
def test_a_quoted_line_that_reports_no_failure_has_no_cause(line: str) -> None:
    assert certain(f"{line}\n") == []


@pytest.mark.parametrize(
    ("line", "id"),
    [
        ("- open /x: permission denied", "says-denied"),
        ("the frob variable is not set", "says-unset"),
        ("Please pass a valid path: unknown option --frob", "says-unknown"),
        ("frob.bin: checksum mismatch", "says-checksum"),
    ],
)
def test_a_quoted_line_that_reports_a_failure_keeps_its_cause(line: str, id: str) -> None:
    assert certain(f"{line}\n") == [id]


def test_a_package_that_cmake_does_not_get_is_the_error_only_where_a_person_quoted_it() -> None:
    quoted = "-- Checking for module 'lz4'\n--   No package 'lz4' found\n"
    assert certain(quoted) == ["configure-package"]
    assert certain(quoted + "-- Looking for pthread.h\n-- Looking for pthread.h - found\n") == []
