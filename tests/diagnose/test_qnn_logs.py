"""Pieces of logs as users posted them: one cause, what follows from it below it, and ordinary lines without one."""

from __future__ import annotations

import pytest

from kz_build.diagnose.diagnose import shipped
from kz_build.diagnose.scanner import Scanner
from kz_build.diagnose.signature import Diagnosis

NO_SKEL = """\
[ERROR] [Qnn ExecuTorch]:  <E> DspTransport.openSession qnn_open failed, 0x80000406
[ERROR] [Qnn ExecuTorch]:  <E> IDspTransport: Unable to load lib 0x80000406
[ERROR] [Qnn ExecuTorch]:  <E> Unable to load Skel Library. transportStatus: 9
[ERROR] [Qnn ExecuTorch]:  <E> Failed to retrieve skel build id: err: 1008
[ERROR] [Qnn ExecuTorch]:  <E> Failed to create transport for device, error: 1008
[ERROR] [Qnn ExecuTorch]:  <E> Transport layer setup failed: 1008
[ERROR] [Qnn ExecuTorch]: Failed to create device_handle for Backend ID 6, error=1008
"""
TWO_VERSIONS = """\
[ERROR] [Qnn ExecuTorch]:  <E> Stub lib id mismatch: expected (v2.28.0.241029232508_102474), detected (v2.25.17.241017130936_18858)
[ERROR] [Qnn ExecuTorch]:  <E> Unable to load Remote symbols 1008
"""
TRANSPORT = """\
E [Qnn ExecuTorch]: QnnDsp <E> Failed to create transport for device, error: 4000
E [Qnn ExecuTorch]: QnnDsp <E> Failed to load skel, error: 4000
E [Qnn ExecuTorch]: QnnDsp <E> Transport layer setup failed: 14001
E [Qnn ExecuTorch]: QnnDsp <E> Failed to parse default platform info: 14001
"""
OTHER_SOC = """\
W [Qnn ExecuTorch]:  <W> HTP arch will be deprecated, please set SoC id instead.
E [Qnn ExecuTorch]:  <E> Unsupported HTP arch 69 from device custom config
E [Qnn ExecuTorch]:  <E> Failed to parse custom config: 14001
E [Qnn ExecuTorch]:  <E> Failed to parse platform config: 14001
"""
SECOND_PROCESS = """\
[ERROR] [Qnn ExecuTorch]:  <E> fastrpc memory map for fd: 80 with length: 482344960 failed with error: 0x1
[ERROR] [Qnn ExecuTorch]:  <E> Failed to map weights buffer to device!
[ERROR] [Qnn ExecuTorch]:  <E> createUnsignedPD unsigned PD or DSPRPC_GET_DSP_INFO not supported by HTP
[ERROR] [Qnn ExecuTorch]:  <E> DspTransport.createUnsignedPD failed, 0x00000003
"""
NO_ROOM = """\
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Failed to find available PD for contextId 37 on deviceId 0 coreId 0with context size estimate 486802688
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Fail to create context from binary with err 1002
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Failed to create context from binary with err 0x3ea
[ERROR] [Qnn ExecuTorch]: Can't create context from binary. Error 1002.
"""
TOO_MUCH_VTCM = """\
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Request feature vtcm size with value 8388608 unsupported
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Failed to create context from binary with err 0x138d
[ERROR] [Qnn ExecuTorch]: Can't create context from binary. Error 5005.
"""
DENIED = """\
E llama-cli: fastrpc_apps_user.c:3844: Error 0xd: open_shell failed for domain 3 search paths used are /usr/lib/dsp/, /vendor/dsp/ (errno Permission denied)
E llama-cli: fastrpc_apps_user.c:4498: Error 0xffffffff: apps_dev_init failed for domain 3, errno Permission denied, ioErr -1
E QnnDsp  :  <E> DspTransport.openSession qnn_open failed, 0xffffffff
"""
TOO_LARGE = """\
[ERROR] [Qnn ExecuTorch]: fa_alloc.cc:2462::ERROR:graph requires estimated allocation of 2309576 KB, limit is 2097152 KB
[ERROR] [Qnn ExecuTorch]: graph_prepare.cc:845::ERROR:error during serialize: memory usage too large
[ERROR] [Qnn ExecuTorch]:  <E> Failed to finalize graph (id: 1) with err 1002
[ERROR] [Qnn ExecuTorch]: Failed to finalize Qnn Graph with error: 1002
AssertionError: Failed to generate Qnn context binary.
"""
NOT_WRITTEN = """\
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Context binary size calculation failed
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Failed to get context binary size with err 0x7532
[ERROR] [Qnn ExecuTorch]: Can't determine the size of graph binary to be saved to cache. Error 30002
AssertionError: Failed to generate Qnn context binary.
"""
OLD_HTP = """\
[ERROR] [Qnn ExecuTorch]:  <E> [4294967295] has incorrect Value 68, expected >= 73.
[ERROR] [Qnn ExecuTorch]:  <E> QnnBackend_validateOpConfig failed 3110
[ERROR] [Qnn ExecuTorch]:  <E> Failed to validate op aten_native_layer_norm_default_24 with error 0xc26
Exception: An error occurred when running the 'InsertIOQDQ' pass after the following passes: ['FoldQDQ', 'InsertRequantize']
"""
OLD_SDK = """\
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> Dynamic tensor is not supported
[ERROR] [Qnn ExecuTorch]: QnnDsp <E> op config sanitization failed
[ERROR] [Qnn ExecuTorch]: Failed to add node to Qnn Graph with error: 6005
"""
CRASH = """\
V adsprpc : b8033d:b86: CDSP0:[R]: ############# Process on cDSP0 CRASHED!!!!!!! ##########
[ERROR] [Qnn ExecuTorch]: qnn_graph_execute failed. Error 6001
"""
THE_END = """\
E 00:00:06.622847 executorch:method.cpp:114] Init failed for backend QnnBackend: 0x1
F 00:00:06.714608 executorch:result.h:170] In function CheckOk(), assert failed
F libc    : Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 17202 (qnn_executor_ru), pid 17202 (qnn_executor_ru)
"""
EXPORTS = """\
[QNN Partitioner Op Support]: aten.permute_copy.default | False
[ERROR] [Qnn ExecuTorch]:  <E> [4294967295] has incorrect Rank 6.
[ERROR] [Qnn ExecuTorch]:  <E> QnnBackend_validateOpConfig failed 3110
[ERROR] [Qnn ExecuTorch]:  <E> Failed to validate op aten_view_copy_default_17 with error 0xc26
[WARNING] [Qnn ExecuTorch]: Qnn Backend op validation failed with error: 3110
[INFO] [Qnn ExecuTorch]: Destroy Qnn context
"""
WORKS = """\
06-24 18:43:18.773 12104 12700 I [Qnn ExecuTorch]: QnnContextCustomProtocol expected magic number: 0x5678abcd but get: 0x2000000
W [Qnn ExecuTorch]: QnnDsp <W> Function not called, PrepareLib isn't loaded!
[WARNING] [Qnn ExecuTorch]: QnnDsp <W> Arch 68 set by custom config is different from arch associated with SoC 57, will overwrite it to 75
W libc    : Access denied finding property "persist.vendor.fastrpc.process.attrs"
E qnn_llama_runner: fastrpc_apps_user.c:3592: Error 0xd: open_shell failed for domain 3 search paths used are /dsp/, /vendor/dsp/ (errno Permission denied)
E qnn_llama_runner: log_config.c:605:Error : Unable to add watcher for folder /odm/lib/rfsa/adsp : errno is Permission denied
W type=1400 audit(0.0:1658): avc:  denied  { read } for  name="adsprpc-smd-secure" dev="tmpfs" ino=1536 tclass=chr_file permissive=0
I fastrpc_apps_user.c:3218: Created user PD on domain 3 (attrs 0x8, debug_trace 0x0)
[INFO] [Qnn ExecuTorch]: Running level=3 optimization.
I lowmemorykiller: Kill 'com.android.vending' (9921), uid 10120, oom_score_adj 905 to free 91528kB rss, 17404kB swap; reason: low watermark
"""


def causes(log: str) -> list[str]:
    scanner = Scanner(shipped())
    scanner.feed(log.encode())
    return [one.id for one in Diagnosis("log", scanner.lines, 0, scanner.found()).causes]


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (NO_SKEL, "fastrpc-session"),
        (TWO_VERSIONS, "qnn-stub-mismatch"),
        (TRANSPORT, "qnn-transport"),
        (OTHER_SOC, "htp-arch"),
        (SECOND_PROCESS, "fastrpc-map"),
        (NO_ROOM, "context-memory"),
        (TOO_MUCH_VTCM, "context-vtcm"),
        (DENIED, "dsp-denied"),
        (TOO_LARGE, "htp-graph-size"),
        (NOT_WRITTEN, "context-serialize"),
        (OLD_HTP, "htp-arch-old"),
        (OLD_SDK, "qnn-dynamic-tensor"),
        (CRASH, "dsp-crash"),
    ],
)
def test_a_log_has_one_cause(log: str, cause: str) -> None:
    assert causes(log) == [cause]


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (NO_SKEL, "fastrpc-session"),
        (TWO_VERSIONS, "qnn-stub-mismatch"),
        (TRANSPORT, "qnn-transport"),
        (OTHER_SOC, "htp-arch"),
        (SECOND_PROCESS, "fastrpc-map"),
        (NO_ROOM, "context-memory"),
        (DENIED, "dsp-denied"),
    ],
)
def test_how_the_runner_ends_only_follows(log: str, cause: str) -> None:
    assert causes(log + THE_END) == [cause]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("ModuleNotFoundError: No module named 'torchao.dtypes.nf4tensor'", "torchtune-torchao"),
        (
            "ImportError: cannot import name 'NF4Tensor' from 'torchao.quantization' (/v/torchao/quantization/__init__.py)",
            "torchtune-torchao",
        ),
        ("   > Could not find com.qualcomm.qti:qnn-runtime:2.49.40.", "qnn-maven"),
        ("AttributeError: type object 'QcomChipset' has no attribute 'SM8735'", "soc-not-listed"),
        ("KeyError: 'SA8397'", "soc-not-listed"),
        ('[ERROR] "Failed to create device: 1008"', "qnn-versions"),
        ("I lowmemorykiller: Kill 'x.y' (25702), uid 10123, oom_score_adj 900 to free 4223760kB rss", "android-lmk"),
        ("E  QnnDsp <E> Failed to create context from binary with err 0x1392", "context-5010"),
        ("[ 73.1] Out of memory: Kill process 7899 (llama_main) score 900 or sacrifice child", "oom-killer"),
        ("Memory cgroup out of memory: Killed process 7899 (python) total-vm:26184840kB", "oom-killer"),
    ],
)
def test_other_forms_of_a_line(line: str, cause: str) -> None:
    assert causes(line + "\n") == [cause]


@pytest.mark.parametrize("log", [WORKS, EXPORTS])
def test_a_run_that_works_has_none(log: str) -> None:
    assert causes(log) == []
