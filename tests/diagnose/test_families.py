"""Families: the first real error of a log wins, what is more exact goes before, and logs of work that went well raise no alarm."""

from __future__ import annotations

import pytest

from kz_build.diagnose.diagnose import shipped
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.sentence import sentence
from kz_build.diagnose.signature import Finding


def causes(log: str) -> list[Finding]:
    return [one for one in answers(log) if not one.possible]


def answers(log: str) -> list[Finding]:
    first, second = Scanner(shipped()), Scanner(shipped())
    head, tail = log[: log.find("\n") + 1], log[log.find("\n") + 1 :]
    first.feed(head.encode())
    second.feed(tail.encode())
    first.add(second)  # as a log that is searched in parts
    return [one for one in first.found() if not one.follows and not one.harmless]


PIP = """\
Building wheels for collected packages: executorch
  CMake Error at CMakeLists.txt:44 (target_link_libraries):
    Target "my_app" links to:

      executorch::frob

    but the target was not found.  Possible reasons include:

  -- Configuring incomplete, errors occurred!
  Traceback (most recent call last):
    File "/usr/lib/python3.12/subprocess.py", line 526, in run
      raise CalledProcessError(retcode, process.args,
  subprocess.CalledProcessError: Command '['cmake', '-S', '.']' returned non-zero exit status 1.
  error: subprocess-exited-with-error
ERROR: Failed building wheel for executorch
"""
NINJA = """\
* What went wrong:
Execution failed for task ':app:buildCMakeDebug[arm64-v8a]'.
> Build command failed.
  ninja: Entering directory `/home/me/app/.cxx/Debug/arm64-v8a'
  FAILED: CMakeFiles/app.dir/app.cpp.o
  /home/me/app/app.cpp:82:41: error: use of undeclared identifier 'FROB_WILLNEED'
  1 error generated.
  ninja: build stopped: subcommand failed.
"""
PYTHON = """\
Loading model
Traceback (most recent call last):
  File "/x/export.py", line 9, in <module>
    prepare(model)
  File "/x/torchao/prepare.py", line 500, in prepare
    named_modules[node.target]
KeyError: '_guards_fn'
"""
CRASH = """\
F DEBUG   : Cmdline: com.example
F DEBUG   : backtrace:
F DEBUG   :   #00 pc 000000000008a4c8  /apex/com.android.runtime/lib64/bionic/libc.so (abort+164)
F DEBUG   :   #01 pc 00000000009c2fd4  /data/app/x==/base.apk!libours.so (offset 0x1b5c000) (ours::init(int)+760) (BuildId: f7ab)
"""


@pytest.mark.parametrize(
    ("log", "id", "line", "title"),
    [
        (PIP, "cmake-target", 3, "CMake has no target executorch::frob"),
        (NINJA, "compiler-undeclared", 6, "FROB_WILLNEED is not declared where it is used"),
        (PYTHON, "python-key", 7, "the key '_guards_fn' is looked up and not there"),
        (CRASH, "crash-frame", 4, "a native crash in libours.so: ours::init(int)"),
    ],
    ids=["pip", "ninja", "python", "crash"],
)
def test_the_first_real_error_names_itself(log: str, id: str, line: int, title: str) -> None:
    (one,) = answers(log)
    assert (one.id, one.line, one.title) == (id, line, title)


CUDA = """\
/usr/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc versions later than 8 are not supported!
CMake Error at cuda_extra.cu.o.Release.cmake:220 (message):
  Error generating
  /x/build/cuda_extra.cu.o
"""
WARNED = """\
CMake Warning at CMakeLists.txt:101 (find_package):
  By not providing "Findx86_energy.cmake" in CMAKE_MODULE_PATH this project
  has asked CMake to find a package configuration file provided by
  "x86_energy", but CMake did not find one.

  Could not find a package configuration file provided by "x86_energy" with
-- Configuring done
/x/main.cpp:12:10: fatal error: ace/config.h: No such file or directory
"""
OFFLINE = """\
WARNING: Retrying after connection broken by 'NewConnectionError(': [Errno -3] Temporary failure in name resolution')': /simple/torch/
ERROR: No matching distribution found for torch==2.9.0
"""
NO_GPU = """\
W tensorflow/stream_executor/dso_loader.cc:60] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory
Traceback (most recent call last):
  File "/x/convert.py", line 9, in <module>
    from torch import nn
ModuleNotFoundError: No module named 'torch'
"""


@pytest.mark.parametrize(
    ("log", "id"),
    [
        (CUDA, "cuda-host-compiler"),
        (WARNED, "header-missing"),
        (OFFLINE, "name-resolution"),
        (NO_GPU, "module-missing"),
    ],
    ids=["cuda", "warned", "offline", "no-gpu"],
)
def test_a_warning_and_what_only_follows_are_not_taken_for_the_cause(log: str, id: str) -> None:
    assert [one.id for one in causes(log)] == [id]


def test_what_is_more_exact_goes_before_a_family() -> None:
    assert [one.id for one in causes(PYTHON + "Backend XnnpackBackend is not registered.\n")] == ["backend-missing"]


def test_an_error_that_is_of_no_family_is_not_taken_for_the_next_one() -> None:
    assert not causes("x\nfrobnicate: error: handle 7 is odd\nmake: *** No rule to make target 'all'.  Stop.\n")


@pytest.mark.parametrize(
    ("passage", "who", "place", "words"),
    [
        (
            'CMake Error at a.cmake:7 (message):\n  The frobnicator of this tree\n  is too old.\n\n  It reports "1",\n  but "2" is needed.\nCall Stack (most recent call first):\n  x',
            "CMake",
            "a.cmake:7",
            'The frobnicator of this tree is too old. It reports "1", but "2" is needed.',
        ),
        (
            "* What went wrong:\nThe Android Gradle plugin supports only Kotlin 1.5.20 and higher.\nThese do not:\nproject ':a'\n* Try:\n> Run with --info",
            "Gradle",
            "",
            "The Android Gradle plugin supports only Kotlin 1.5.20 and higher.",
        ),
        ("sccache: error: Server startup failed: Address in use", "sccache", "", "Address in use"),
        ("/x/cdefs.h:807:2: error:\n      Unsupported architecture", "the program", "/x/cdefs.h:807:2", "Unsupported architecture"),
        ("torch.x.SomeError: Unknown target: f\nraised in File \"/x/a.py\", line 3, in f", "the program", "/x/a.py:3", "Unknown target: f"),
        ("Gradle sync failed: Cause: Minimum version is 6.1.1", "the program", "", "Minimum version is 6.1.1"),
        ("E loader: these are not there:\n  a\n  b\n\nnext step", "loader", "", "these are not there: a b"),
        ("* What went wrong:\nA problem occurred configuring project ':a'.\n> These are not there:\n    a\n* Try:\n> --info", "Gradle", "", "These are not there: a"),
        ("/x/a.c:1:2: error: bad\nraised in File \"/x/a.py\", line 3, in f", "the program", "/x/a.c:1:2", "bad"),
        ("error: " + "ab " * 99, "the program", "", ("ab " * 99)[:240]),
        ("CMake Error at a:1 (x):\n" + "  ab\n" * 99, "CMake", "a:1", ("ab " * 99)[:240]),
    ],
    ids=["cmake", "gradle", "tool", "next-line", "python", "studio", "tag", "gradle-list", "place", "long", "long-cmake"],
)  # fmt: skip
def test_an_error_is_read_without_its_marks(passage: str, who: str, place: str, words: str) -> None:
    assert sentence(passage) == (who, place, words)


def test_a_reason_beside_an_error_is_its_reason_only_if_it_names_no_other_thing() -> None:
    failed = "ERROR: Failed to execute: [/home/me/adb], [push]\n"
    assert [one.id for one in causes("INFO: scrcpy 1.10\nexec: Permission denied\n" + failed)] == ["says-denied"]
    assert not causes("INFO: 1.10\nstatvfs('/x/ram.img') failed: No such file or directory\n" + failed)


def test_words_of_executorchs_own_log_are_the_cause() -> None:
    for head in ("E 00:00:00.001234 tokenizers:a.cpp:90] ", "E 00:00:00.001234 [Qnn ExecuTorch]: "):
        (denied,) = causes(head + "Cannot open x: Permission denied\nx\n")
        assert denied.title.endswith(" may not do this: Cannot open x: Permission denied"), denied


def test_the_first_command_that_fails_decides() -> None:
    first = "docker: Error response from daemon: mkdir /host_mnt/home/user: permission denied.\n"
    later = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
    assert [one.id for one in causes(first + later)] == ["docker-daemon"]
    assert [one.id for one in causes(f"{first}$ docker run x\n{later}")][0] == "says-denied"
    asked = (
        "me@box:~/executorch$ python export.py\nRuntimeError: the frobnicator is not installed\n(et) me@box:~$ cat {}\n"
    )
    assert [(one.id, one.line) for one in causes(asked + "ModuleNotFoundError: No module named 'yaml'\n")] == [
        ("python-needs", 2)
    ]
    java = "C:\\x\\Foo.java:7: error: package a<List<String>>x does not exist\n"
    assert [one.id for one in answers(java)] == [one.id for one in answers(java.replace("C:\\x\\", ""))] != []
    assert not answers("$ grep -r 'ERROR: frob is not set' .\nPS C:\\x> echo 'Error: frob is not installed'\n")


def test_the_reason_of_a_gradle_log_that_is_cut_off_is_found() -> None:
    log = "* What went wrong:\nExecution failed for task ':a'.\n> The file x is locked by another program"
    assert [one.id for one in causes(log)] == ["says-locked"]


def test_what_happened_without_why_is_offered_and_not_claimed() -> None:
    log = (
        "Loading\nRuntimeError: no tokenizer was found at /x/tokenizer.model\nclang: error: unknown argument: '-frob'\n"
    )
    assert [(one.id, one.line, one.possible) for one in answers(log)] == [
        ("says-missing", 2, True),
        ("compiler-option", 3, True),  # it tells why, but of a line that is not the likeliest error
    ]
    assert [one.id for one in causes(log.replace("RuntimeError: no", "No"))] == ["compiler-option"]


JAVA = """\
E AndroidRuntime: FATAL EXCEPTION: main
E AndroidRuntime: java.lang.RuntimeException: Unable to create service a.B: java.lang.IllegalStateException: no frob
E AndroidRuntime: \tat android.app.ActivityThread.handleCreateService(ActivityThread.java:3)
E AndroidRuntime: Caused by: java.lang.IllegalStateException: no frob
E AndroidRuntime: \tat a.B.onCreate(B.java:7)
E AndroidRuntime: \t... 9 more
E AndroidRuntime: Caused by: java.io.FileNotFoundException: /sdcard/a.pte: open failed: EACCES (Permission denied)
E AndroidRuntime: \tat a.B.load(B.java:9)
"""


def test_the_last_cause_of_a_chain_of_java_exceptions_is_the_error() -> None:
    assert [(one.id, one.line) for one in causes(JAVA)] == [("app-file", 7)]


def test_words_of_androids_services_are_not_the_cause() -> None:
    assert not causes("06-24 18:43:18.800  1104  1700 E AdrenoGLES-0: Unknown option -22, unsupported\nx\n")


ORDINARY = [
    "checking for gcc... gcc\nchecking for execinfo.h... not found\nconfigure: WARNING: libunwind not found, backtraces are not supported\nconfig.status: creating Makefile",
    "#5 2.34 debconf: unable to initialize frontend: Dialog\n#5 2.34 debconf: (TERM is not set, so the dialog frontend is not usable.)\n#5 DONE 4s",
    "> Task :app:stripDebugDebugSymbols\nUnable to strip the following libraries, packaging them as they are: libexecutorch.so.\nwarning: [options] source value 8 is obsolete; version 11 required\n> Task :app:packageDebug",
    "npm warn EBADENGINE Unsupported engine { package: 'x@1', required: { node: '>=20' } }\nadded 120 packages in 4s",
    "WARNING:coremltools:scikit-learn version 1.7.1 is not supported. Minimum required version: 0.17.\nCould not find libfrob, using the one that is included\nSaved model.pte",
    "rm: /data/local/tmp/old: No such file or directory\nI 00:00:00.003 executorch:main.cpp:90] Model executed successfully 1 time(s) in 3 ms.",
    "-- Could NOT find Vulkan (missing: Vulkan_LIBRARY)\n-- Performing Test HAS_BF16 - Failed\n-- Configuring done\n-- Build files have been written to: /x",
    "CMake Warning at a.cmake:7 (message):\n  Failed to resolve buck2.\n\n-- Configuring done (1.5s)\n-- Generating done",
    "CMake Deprecation Warning at third-party/CMakeLists.txt:1 (CMAKE_MINIMUM_REQUIRED):\n  Compatibility with CMake < 3.10 will be removed\n-- Configuring done",
    "[1/2] Building CXX object error_handling.cpp.o\n/x/a.cpp:3:7: warning: unused variable 'error' [-Wunused-variable]\n1 warning generated.\n[2/2] Linking CXX static library liberror.a",
    "[100%] Building CXX object failed_test.cpp.o\nld: warning: duplicate symbol x\n[100%] Built target executor_runner",
    "tests/test_error.py::test_failed_download PASSED\ntests/test_error.py::test_KeyError_is_told PASSED\n=== 41 passed, 2 xfailed, 1 warning in 3.2s ===",
    "ERROR root:a.py:3 cannot open cache, starts empty\nTraceback (most recent call last):\n  File \"/x/a.py\", line 3, in f\n    d['x']\nKeyError: 'x'\n=== 5 passed in 0.1s ===",
    "[ RUN      ] Loader.FailsOnMissingFile\nE 00:00:00.000071 executorch:file_data_loader.cpp:7] Bad file, errno not set\n[       OK ] Loader.FailsOnMissingFile (0 ms)\n[  PASSED  ] 12 tests.",
    "Collecting torch\n  error: none of the mirrors has an older one, taking 2.9\nSuccessfully installed torch-2.9.0",
    "> Task :app:compileDebugKotlin\nw: file:///x/A.kt:3:5 Unresolved reference in documentation: error\n> Task :app:lintReportErrors NO-SOURCE\n\nBUILD SUCCESSFUL in 3s",
    "11-21 08:00:01.000  1234  5678 E libc    : Access denied finding property \"ro.vendor.x\"\n11-21 08:00:01.100  1234  5678 W System.err: java.io.FileNotFoundException: /data/x: open failed: ENOENT (No such file or directory)\n11-21 08:00:01.100  1234  5678 W System.err: \tat a.B.c(B.java:1)\n11-21 08:00:02.000  1234  5678 I app: ready",
    "11-21 08:00:01.000  1234  5678 W ActivityThread: handleBindApplication failed to load a library, java.lang.IllegalStateException: x\n11-21 08:00:02.000  1234  5678 E GnssHAL : error: 3 of 12 almanacs failed",
    "11-21 08:00:01.000  1234  5678 E FileUtils: chmod /data/misc: Permission denied\n11-21 08:00:01.100  1234  5678 E SELinux : avc:  denied  { read } for name=\"x\"\n11-21 08:00:02.000  1234  5678 I ExecuTorch: loaded",
    "I 00:00:00.000271 executorch:cpuinfo_utils.cpp:62] Failed to open midr file /sys/x\nI 00:00:00.002535 executorch:main.cpp:90] Model executed successfully 1 time(s) in 3 ms.",
    "[ERROR] [Qnn ExecuTorch]:  <E> [4294967295] has incorrect Rank 6.\n[WARNING] [Qnn ExecuTorch]: Qnn Backend op validation failed with error: 3110\n[INFO] [Qnn ExecuTorch]: Destroy Qnn context",
    "remote: Counting objects: 100% (65/65), done.\nSubmodule path 'error': checked out '90f9df9'\nHEAD is now at 3f2 Tell an error: git's own words, not ours",
    "+ grep -c error log\n0\n+ echo 'failed: no'\nfailed: no\n+ exit 0",
    "#7 [3/4] RUN apt-get install -y cmake\n#7 12.3 debconf: delaying package configuration, since apt-utils is not installed\n#7 DONE 14.1s\nnaming to docker.io/library/x done",
    "INFO:root:The shape is dynamic: error bound 1e-3, failed=0\nWARNING:root:Replacing KVCache with CustomKVCache\nINFO:root:Saved model.pte",
    "-- ANDROID_PLATFORM not set. Defaulting to minimum supported version\n   24.\nQNN_SDK_ROOT is not set, the tests of QNN are left out\n-- Generating done",
    "patching file runtime/method.cpp\nHunk #1 succeeded at 1312 (offset 3 lines).\nHunk #2 succeeded at 1400 with fuzz 1.\nApplying: Tell an error: failed loads",
    "sccache: Starting the server...\nsccache: Listening on address 127.0.0.1:4226\nCache hits 12, cache errors 0\nFailed distributed compilations 0",
    "[!] The `App [Debug]` target overrides the `HEADER_SEARCH_PATHS` build setting\n[!] Your project does not explicitly specify the CocoaPods master specs repo.\nPod installation complete! There are 71 pods installed.",
    "INFO    | Android emulator version 35.1.4.0\nWARNING | Failed to process .ini file quickbootChoice.ini for reading.\nINFO    | Boot completed in 31000 ms",
    "W vulkan  : VK_ERROR_EXTENSION_NOT_PRESENT for VK_EXT_x, goes without\nI ExecuTorch: Vulkan: 1 adapter, 0 errors",
    "warning: unused import: `std::error::Error`\nwarning: `tokenizers` (lib) generated 3 warnings\n    Finished dev profile in 12s",
    "##[group]Run ./build.sh\n##[warning]Node.js 16 actions are deprecated.\n##[endgroup]\nCleaning up orphan processes",
    "Downloading model.safetensors: 100%\nSkipping import of cpp extensions due to incompatible torch version\nW1122 08:00:00.1 99 site-packages/torch/distributed/elastic/redirects.py:29] NOTE: Redirects are currently not supported in Windows or MacOs.\nSaved exported program to model.pte",
    "llama_model_loader: - kv 3: general.error str = none\nllama_perf_context_print: total time = 12 ms, 0 errors",
]  # fmt: skip


@pytest.mark.parametrize("log", ORDINARY)
def test_ordinary_logs_raise_no_alarm(log: str) -> None:
    assert not answers(log + "\n")


IGNORED = """\
Loading model
Exception ignored in: <function Foo.__del__ at 0x7f>
Traceback (most recent call last):
  File "/x/a.py", line 9, in __del__
    self.x.close()
AttributeError: 'Foo' object has no attribute 'x'
Traceback (most recent call last):
  File "/x/main.py", line 3, in <module>
    import frob
ModuleNotFoundError: No module named 'frob'
"""


def test_an_exception_that_python_ignores_is_not_the_error() -> None:
    assert all(one.line > 6 for one in answers(IGNORED))
    assert not answers("".join(IGNORED.splitlines(keepends=True)[:6]))


def test_of_two_errors_of_the_compiler_the_first_is_named() -> None:
    log = "/x/a.h:3:2: error: expected ';' after class\n/x/a.h:9:2: error: unknown type name 'u8'\n"
    assert [one.id for one in causes(log)] == ["compiler-syntax"]


@pytest.mark.parametrize(
    "log",
    [
        "loading\n/x/CMakeFiles/CMakeTmp/CheckSymbolExists.c:8:19: error: 'gettid' undeclared (first use in this function)\n",
        "config.log\nconftest.c:10:10: fatal error: frob.h: No such file or directory\n",
        'hints\nIf you see "error: Permission denied", run chmod +x.\n',
        "log\n11-21 08:00:02.124  1234  5678 E GmsClient: java.lang.SecurityException: Unknown calling package name 'com.google.android.gms'.\n",
    ],
    ids=["try-compile", "configure", "hint", "service"],
)
def test_lines_of_checks_hints_and_services_are_not_the_cause(log: str) -> None:
    assert not causes(log)


def test_a_warning_in_a_log_that_ends_well_is_not_claimed() -> None:
    retried = "WARNING: Retrying (Retry(total=4)) after connection broken by 'ProxyError('Cannot connect to proxy.')': /simple/pip/\n"
    assert [one.id for one in causes(retried + "ERROR: No matching distribution found for pip\n")] == ["proxy"]
    assert not causes(retried + "Collecting pip\nSuccessfully installed pip-24.0\n")


def test_a_conflict_that_pip_tells_above_its_success_is_the_cause() -> None:
    log = (
        "Installing collected packages: numpy\nERROR: pip's dependency resolver does not currently take into account all the packages that are installed. "
        "This behaviour is the source of the following dependency conflicts.\n"
        "lunapi 0.1.2 requires numpy>=2, but you have numpy 1.26.4 which is incompatible.\nSuccessfully installed numpy-1.26.4\n"
    )
    assert [one.id for one in causes(log)] == ["pip-installed-conflict"]
    assert not causes(log + "".join(f"line {n}\n" for n in range(40)) + "=== 41 passed in 3.2s ===\n")


def test_an_error_behind_words_of_success_is_still_read() -> None:
    log = 'Successfully installed numpy-2.1\nCMake Error at CMakeLists.txt:3 (frobnicate):\n  Unknown CMake command "frobnicate".\n'
    assert [one.id for one in causes(log)] == ["cmake-command"]


def test_what_a_command_quotes_is_no_finding() -> None:
    assert not causes("user@host:~/x$ dmesg | grep 'Out of memory: Killed process 12 (python)'\nnothing\n")


def test_an_error_counts_more_than_a_warning_before_it() -> None:
    retried = "WARNING: Retrying (Retry(total=4)) after connection broken by 'ProxyError('Cannot connect to proxy.')': /simple/pip/\n"
    log = retried + "Collecting pip\n/x/a.cpp:3:5: error: use of undeclared identifier 'frob'\n"
    assert [(one.id, one.possible) for one in answers(log)] == [("compiler-undeclared", False), ("proxy", True)]


def test_a_list_that_apt_did_not_get_counts_more_than_a_key_that_it_warns_of() -> None:
    key = "W: GPG error: https://dl.example.com stable InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 23E7166788B63E1E\n"
    gone = "W: Failed to fetch http://deb.example.org/debian/dists/jessie-updates/main/binary-amd64/Packages  404  Not Found [IP: 151.101.248.204 80]\n"
    assert [(one.id, one.possible) for one in answers(key + gone)] == [("apt-release-gone", False), ("apt-key", True)]


SURE = "error: externally-managed-environment\n"


@pytest.mark.parametrize(
    ("log", "id"),
    [
        ("fatal: No names found, cannot describe anything.\nchecking\n" + SURE, "pip-externally-managed"),
        (
            "W: GPG error: http://x InRelease: At least one invalid signature was encountered.\nGet:1 x\n" + SURE,
            "pip-externally-managed",
        ),
        (
            "curl: (28) Failed to connect to x port 443 after 9 ms: Connection timed out\nWarning: Problem : timeout. Will retry in 1 seconds. 3 retries left.\n100  500M\n"
            + SURE,
            "pip-externally-managed",
        ),
        (
            "E 00:00:00.000 executorch:method.cpp:100] Missing operator: [0] aten::foo.out\n[       OK ] MethodTest.Missing (0 ms)\n[ RUN      ] X.y\n"
            + SURE,
            "pip-externally-managed",
        ),
        (
            'Traceback (most recent call last):\n  File "/w/a.py", line 9, in f\n    import flash_attn\nImportError: /x/flash.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n'
            "2024-11-20 10:00:00 INFO falling back to sdpa\n" + SURE,
            "pip-externally-managed",
        ),
        (
            "Traceback (most recent call last):\n  File \"/w/o.py\", line 4, in probe\n    import tensorflow\nModuleNotFoundError: No module named 'tensorflow'\n"
            "WARNING:root:tensorflow not available, TF conversion disabled\nINFO: loading\n"
            'Traceback (most recent call last):\n  File "/w/x.py", line 8, in <module>\nRuntimeError: Numpy is not available\n',
            "python-numpy",
        ),
        (
            "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.\n"
            "numba 0.58 requires numpy<1.27, but you have numpy 2.1.0 which is incompatible.\nSuccessfully installed numpy-2.1.0\n+ python x.py\n"
            'Traceback (most recent call last):\n  File "/w/x.py", line 8, in <module>\nRuntimeError: Numpy is not available\n',
            "python-numpy",
        ),
        (
            "E       TypeError: prepare() got an unexpected keyword argument 'dtype'\n"
            "=================== 1 failed, 38 passed, 1 skipped in 3.12s ====================\n",
            "python-argument",
        ),
    ],
    ids=["describe", "apt", "curl", "gtest", "handled", "probe", "resolver", "pytest"],
)
def test_what_a_program_goes_on_after_is_not_claimed_beside_the_cause(log: str, id: str) -> None:
    assert [one.id for one in answers("start\n" + log) if not (one.possible or one.follows)] == [id]


def test_of_a_question_that_python_answers_by_an_exception_the_next_exception_is_the_error() -> None:
    log = """\
loading
Traceback (most recent call last):
  File "/x/a.py", line 3, in load
    return self.fast
AttributeError: 'Frob' object has no attribute 'fast'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/a.py", line 5, in load
    connect()
ConnectionRefusedError: [Errno 111] Connection refused
"""
    assert [one.id for one in causes(log)] == ["says-network"]


def test_a_failure_in_a_command_that_is_started_again_is_not_the_cause_of_the_next_one() -> None:
    log = """\
me@host:~/x$ ./build.sh
ModuleNotFoundError: No module named 'yaml'
me@host:~/x$ pip install pyyaml
Successfully installed pyyaml-6.0
me@host:~/x$ ./build.sh
/x/a.cpp:3:5: error: use of undeclared identifier 'frob'
ninja: build stopped: subcommand failed.
"""
    assert [one.id for one in causes(log)] == ["compiler-undeclared"]
    again = log.replace(
        "/x/a.cpp:3:5: error: use of undeclared identifier 'frob'", "ModuleNotFoundError: No module named 'yaml'"
    )
    assert [one.id for one in causes(again)] == ["module-missing"]
    first = log.replace("ModuleNotFoundError: No module named 'yaml'", "./build.sh: line 3: cmake: command not found")
    assert [one.id for one in causes(first)] == ["compiler-undeclared"]


def test_a_line_that_is_quoted_alone_is_the_error() -> None:
    log = "no type named 'byte' in namespace 'std' [arm64-v8a]\n"
    assert [one.id for one in causes(log)] == ["compiler-std-name"]
    assert not answers("collecting\nresolving\nunpacking\n" + log)


@pytest.mark.parametrize(
    "line",
    [
        "W Frob: x requires y, but you have z which is incompatible.",
        "$ echo 'x requires y, but you have z'",
        "import frob",
        "done",
    ],
)
def test_a_quoted_line_of_less_than_an_error_is_none(line: str) -> None:
    assert not answers(f"{line}\n")


SCRIPT = """\
chown: changing ownership of '/data/lost+found': Operation not permitted
Starting server...
Traceback (most recent call last):
  File "/app/a.py", line 3, in <module>
    import foo
ModuleNotFoundError: No module named 'foo'
"""


def test_what_a_small_program_of_a_script_could_not_do_gives_way_to_the_error_behind_it() -> None:
    assert [one.id for one in causes(SCRIPT)] == ["module-missing"]
    assert [one.id for one in causes(SCRIPT.split("Starting")[0])] == ["chown-refused"]


def test_a_refused_connection_in_tests_that_pass_is_no_cause() -> None:
    log = "=== RUN TestDial\n    saw dial tcp 127.0.0.1:1: connect: connection refused\n=== RUN TestB\n=== RUN TestC\nPASS\nok  \texample.com/x\t0.012s\n"
    assert causes(log) == []
