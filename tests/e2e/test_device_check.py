"""kz device check and run with the real adb: what was built is pushed to an emulated device, loaded, called and timed there.

Every check has a way to fail here; nothing of kz is replaced for it, only what the device or a file is.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kz_build.core.files import sha256_file
from kz_build.device import adb as adapter
from kz_build.device import conditions
from kz_build.device.metrics import PROBE, lines_of
from kz_build.emulator.device import EmulatedDevice
from kz_build.emulator.shell import ARM64_LIBC, QEMU
from tests.conftest import ROOT, Kz
from tests.deadline import patient, until
from tests.emulator.emulated import emulated
from tests.formats.apps import QNN, Lib, Linker

pytestmark = pytest.mark.skipif(
    not shutil.which(QEMU) or not Path(ARM64_LIBC).is_dir(), reason="needs qemu-user-static and libc6-arm64-cross"
)
RECIPE = """about: The sample's program, with files of its own
line: sample-0.1
command:
  - {{name: export, inside: minirt, run: [make-it]}}
{run}needs:
  memory: {{gb: [0, 0], source: nothing}}
  disk: {{"{{out}}": {{gb: [0, 0], source: nothing}}}}
weights: {{}}
device: {device}
output: {output}
contract: {contract}
"""
Try = Callable[..., dict[str, Any]]


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """The sample, built, with an empty folder `files` for what a test gives to its device; without what its build alone reads."""
    (tmp_path / "files").mkdir()
    unused = shutil.ignore_patterns("device", "tree", "CMakeFiles", "zig-cache", "THIRD-PARTY-NOTICES")
    return Path(shutil.copytree(built, tmp_path / "sample", ignore=unused))


@pytest.fixture
def tried(project: Path, device: EmulatedDevice, server: adapter.Server, kz: Kz, tmp_path: Path) -> Try:
    """`kz device check` (or another verb); gives the device's report, with the exit code and what was said beside it."""

    def run(*argv: str | Path, verb: str = "check", code: int | None = None) -> dict[str, Any]:
        words = [*argv, "--from", f"out={tmp_path / 'files'}"] if "--recipe" in argv else argv
        done = kz(
            "-C", project, "device", verb, "--serial", device.serial, "--json", *words,
            ANDROID_ADB_SERVER_PORT=str(server.port),
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        (report,) = json.loads(done.stdout) if done.stdout else ({},)
        return {**report, "code": done.returncode, "stderr": done.stderr}

    return run


def recipe(
    project: Path,
    *files: str,
    run: tuple[str, ...] = (),
    contract: str = "{}",
    output: str = "tiny3.minirt",
    program: bytes | None = b"const get_kv_io_bit_width 8\nmul 5\nadd 7\n",
) -> None:
    """A recipe `r` whose model is there, and which gives `files` of the folder `files` to the device."""
    device = json.dumps({f"{{out}}/{name}": name for name in files})
    stage = f"  - {{name: run, where: device, inside: minirt, run: {json.dumps(list(run))}}}\n" if run else ""
    (project / "recipes").mkdir(exist_ok=True)
    text = RECIPE.format(device=device, run=stage, contract=contract, output=output)
    (project / "recipes/r.yaml").write_text(text)
    if program is not None:
        (project / "dist/sample-0.1" / output).write_bytes(program)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def prop(device: EmulatedDevice, name: str, value: str | None) -> None:
    """Let the device say something else of itself; None: nothing."""
    props = device.root.folder / "system/emulated/props"
    lines = [line for line in props.read_text().splitlines() if not line.startswith(f"{name}=")]
    props.write_text("\n".join([*lines, *([] if value is None else [f"{name}={value}"]), ""]))


def answer(report: dict[str, Any], check: str) -> tuple[str, str]:
    found = {one["check"]: one for one in report["checks"]}
    assert check in found, (sorted(found), report["stderr"])
    return found[check]["status"], found[check]["evidence"]


def test_the_sample_is_pushed_loaded_called_and_judged(tried: Try, project: Path, kz: Kz) -> None:
    report = tried(code=0)
    assert {one["check"]: one["status"] for one in report["checks"]} == dict.fromkeys(
        ("abi", "page-size", "needed", "no-su", "process", "dlopen", "runner", "reply", "log"), "PASS"
    )
    assert "tokens: 12 67 86 181 144 215" in answer(report, "runner")[1], "8-bit KV: only the patched JNI gives these"
    assert "libminirt.so in" in answer(report, "dlopen")[1]
    assert (report["emulated"], report["process"], report["arch"]) == (True, "shell", "v79")
    assert "not forked by Zygote" in answer(report, "process")[1]
    assert report["pushed"]["folder"] == "/data/local/tmp/kz/sample-0.1/linux-arm64/tiny3.minirt"
    (path,) = (project / "out/device/sample-0.1").glob("*/manifest.json")
    record = json.loads(path.read_text())
    assert record["report"]["checks"] == report["checks"] and record["key"]
    assert set(record["files"]) == {"kz_probe", "libminirt.so", "minirt_probe", "minirt_runner", "tiny3.minirt"}
    assert "PyTorchObserver" in (project / report["log"]).read_text()
    again = tried(code=0)
    assert (again["pushed"]["sent"], again["pushed"]["kept"]) == ([], 5)
    said = kz("-C", project, "report").stdout
    assert f"device {report['serial']} (kz EMULATED SM8750) linux-arm64 tiny3.minirt: 9 PASS" in said


def test_as_text_it_says_emulated_and_fits_a_terminal(
    project: Path, device: EmulatedDevice, server: adapter.Server, kz: Kz
) -> None:
    done = kz(
        "-C", project, "device", "run", "--serial", device.serial, "--runs", "2",
        ANDROID_ADB_SERVER_PORT=str(server.port),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "EMULATED: no figure of it stands for a device" in done.stdout
    assert "its timings are not compared" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80, done.stdout


def test_a_model_may_be_called_anything(tried: Try, project: Path, tmp_path: Path) -> None:
    model = Path(shutil.copy(project / "tiny3.minirt", tmp_path / 'it\'s a "$(model)";\n*.minirt'))
    report = tried("--pte", model, code=0)
    assert report["subject"] == model.name and "12 67 86" in answer(report, "runner")[1]


def test_another_processor_or_one_that_it_does_not_say(tried: Try, device: EmulatedDevice) -> None:
    prop(device, "ro.product.cpu.abi", "x86_64")
    report = tried(code=8)
    assert answer(report, "abi") == ("FAIL", "the device is x86_64, linux-arm64 is built for arm64-v8a")
    prop(device, "ro.product.cpu.abi", None)
    assert answer(tried(code=8), "abi")[0] == "ERROR"


def test_a_library_for_another_machine(tried: Try, project: Path, tmp_path: Path, linker: Linker) -> None:
    (tmp_path / "files/libother.so").write_bytes(linker.bytes(Lib("libother.so", "x86_64")))
    recipe(project, "libother.so")
    status, said = answer(tried("--recipe", "r", code=8), "abi")
    assert status == "FAIL" and "libother.so (EM_X86_64)" in said


def test_pages_larger_than_the_files_are_made_for(tried: Try, device: EmulatedDevice) -> None:
    script(device.root.folder / "system/bin/getconf", "echo 65536")
    report = tried(code=8)
    status, said = answer(report, "page-size")
    assert status == "FAIL" and "libminirt.so (16,384)" in said
    script(device.root.folder / "system/bin/getconf", "exit 1")
    assert answer(tried(code=8), "page-size")[0] == "ERROR"


def test_a_device_that_answers_in_no_utf8_is_judged_all_the_same(tried: Try, device: EmulatedDevice) -> None:
    script(device.root.folder / "system/bin/date", r"printf '\377\n'")
    assert answer(tried(code=0), "runner")[0] == "PASS"


def test_a_needed_library_that_nobody_has(tried: Try, project: Path, tmp_path: Path, linker: Linker) -> None:
    """Its name is libminirt.so here, and in the place of ours: neither resolvable nor loadable."""
    (tmp_path / "files/libminirt.so").write_bytes(linker.bytes(Lib("libminirt.so", needed=("libnowhere.so",))))
    recipe(project, "libminirt.so")
    report = tried("--recipe", "r", code=8)
    status, said = answer(report, "needed")
    assert status == "FAIL" and "libnowhere.so (of libminirt.so)" in said
    status, said = answer(report, "dlopen")
    assert status == "FAIL" and "libnowhere.so: cannot open shared object" in said
    assert report["code"] == 8 and "needed, dlopen, runner" in report["stderr"]


def test_a_device_where_adbd_is_root(tried: Try, device: EmulatedDevice) -> None:
    script(device.root.folder / "system/bin/su", ": >/data/local/tmp/called")
    assert "su is there and was not used" in answer(tried("--runs", "1", verb="run", code=0), "no-su")[1]
    assert not (device.root.folder / "data/local/tmp/called").exists()
    script(device.root.folder / "system/bin/id", "echo 0")
    status, said = answer(tried(code=8), "no-su")
    assert status == "FAIL" and "adb unroot" in said


def test_the_kind_of_process_is_what_the_device_says(tried: Try, project: Path, tmp_path: Path) -> None:
    who = {"uid": 10234, "pid": 3, "context": "u:r:untrusted_app:s0:c1", "ancestors": ["zygote64", "init"]}
    script(tmp_path / "files/kz_probe", f"echo 'KzProbe {json.dumps(who)}'")
    recipe(project, "kz_probe")
    report = tried("--recipe", "r", code=8)
    assert report["process"] == "app" and answer(report, "process")[1].startswith(
        "an app's process: kz_probe <- zygote64"
    )
    script(tmp_path / "files/kz_probe", "echo Exec format error; exit 126")
    status, said = answer(tried("--recipe", "r", code=8), "process")
    assert status == "ERROR" and "Exec format error" in said


def test_a_library_whose_loading_ends_the_process(tried: Try, project: Path, tmp_path: Path) -> None:
    script(tmp_path / "files/kz_probe", "[ $1 = load ] && kill -9 $$; echo 'KzProbe {\"context\": \"\", \"ancestors\": [], \"uid\": 2000}'")  # fmt: skip
    recipe(project, "kz_probe")
    status, said = answer(tried("--recipe", "r", code=8), "dlopen")
    assert status == "FAIL" and "the process ended while it opened libminirt.so" in said


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (("./minirt_runner", "nothing-there"), "ended with 2: minirt_runner: cannot read nothing-there"),
        (
            ("/bin/sleep", "60"),
            "/bin/sleep still ran after 1 s and was stopped (--timeout gives it more minutes); it printed nothing",
        ),
        (("/bin/sh", "-c", "kill -11 $$"), "was ended by signal 11"),
        (("/bin/echo", "hello"), "printed no statistics: hello"),
        (("./not-there",), "ended with 127"),
    ],
)
def test_a_runner_that_does_not_generate(
    tried: Try, project: Path, tmp_path: Path, run: tuple[str, ...], said: str
) -> None:
    shutil.copy(project / "dist/sample-0.1/linux-arm64/bin/minirt_runner", tmp_path / "files")
    recipe(project, "minirt_runner", run=run)
    report = tried("--recipe", "r", "--timeout", "0.01", code=8)
    status, evidence = answer(report, "runner")
    assert status == "FAIL" and said in evidence, evidence
    assert answer(report, "dlopen") == ("SKIP", "the recipe has its own runner")


def test_what_the_log_says_is_diagnosed_and_kept(tried: Try, device: EmulatedDevice, project: Path) -> None:
    device.log('11-21 10:00:00.000  4242  4242 E other   : dlopen failed: library "libQnnHtpV79Stub.so" not found\n')
    assert answer(tried(code=0), "log")[0] == "PASS", "another process's trouble"
    device.log("11-21 10:00:00.000  1000  1000 E adsprpc : QnnDsp <E> DspTransport.openSession qnn_open failed, 0x80000416, prio 100\n")  # fmt: skip
    report = tried(code=8)
    status, said = answer(report, "log")
    assert status == "FAIL" and "ADSP_LIBRARY_PATH" in said
    assert "0x80000416" in (project / report["log"]).read_text()
    script(device.root.folder / "system/bin/logcat", "echo permission denied >&2; exit 1")
    report = tried(code=8)
    assert answer(report, "log") == ("ERROR", "logcat cannot be read: permission denied")
    log = (project / report["log"]).read_text()
    assert PROBE in log and "0x80000416" not in log, "it is of this run"


def test_what_is_missing_is_told_before_anything_is_pushed(tried: Try, project: Path, device: EmulatedDevice) -> None:
    recipe(project, "a.so", "b.so", program=None)
    report = tried("--recipe", "r", code=6)
    for part in ("missing on this machine: 3", "tiny3.minirt", "kz export r", "a.so", "b.so"):
        assert part in report["error"], report
    assert not list((device.root.folder / "data/local/tmp").iterdir())
    shutil.rmtree(project / "out/build")
    said = tried("--recipe", "r", code=6)["stderr"]
    assert "missing on this machine: 4" in said and "kz build --line sample-0.1 --target linux-arm64" in said


def test_a_file_that_is_not_what_was_built(tried: Try, project: Path) -> None:
    with (project / "dist/sample-0.1/linux-arm64/lib/libminirt.so").open("ab") as file:
        file.write(b"x")
    assert "is not what was built" in tried(code=3)["stderr"]


def runs(project: Path, *words: str) -> None:
    """The target's runner is another one on this machine."""
    device = {"run": list(words), "template": "kz", "model": "tiny3.minirt"}
    (project / "pins.local.yaml").write_text(json.dumps({"targets": {"linux-arm64": {"device": device}}}))


def test_the_prompt_goes_to_the_runner_in_the_models_chat_template(tried: Try, project: Path) -> None:
    runs(project, "/usr/bin/printf", "%s", "{prompt}")
    said = answer(tried("--chat", "llama3", "--prompt", "it's $(me)", code=8), "runner")[1]
    assert "it's $(me)<|eot_id|><|start_header_id|>assistant<|end_header_id|>" in said
    assert "USER: hello ASSISTANT:" in answer(tried("--chat", "llava", "--prompt", "hello", code=8), "runner")[1]
    assert answer(tried("--prompt", "plain", code=8), "runner")[1].endswith("printed no statistics: plain")


def test_a_prompt_that_the_runner_says_again_is_no_answer(tried: Try, project: Path, device: EmulatedDevice) -> None:
    """As upstream's llama_main does; what is complained of is none either."""
    echo = 'printf %s "$1"; echo a warning >&2; '
    script(device.root.folder / "system/bin/llama", echo + stats(0, 1, "$2"))
    words = ("--prompt", "two\nlines", "--chat", "qwen3")
    runs(project, "/system/bin/llama", "{prompt}", " Paris")
    assert answer(tried(*words, code=0), "runner") == ("PASS", "50 tokens after 10 of the prompt: Paris")
    runs(project, "/system/bin/llama", "{prompt}")
    assert answer(tried(*words, code=8), "runner") == ("FAIL", "50 tokens, and no text")


def test_upstreams_qnn_runner_is_told_what_the_file_is(tried: Try, project: Path, tmp_path: Path) -> None:
    from tests.formats.ptes import Qnn, decoder

    runs(project, "/bin/echo", "{decoder}", "{eval_mode}", "{shared_buffer}", "{tokenizer}", "{model}", "{tokens}")
    (tmp_path / "tok.model").touch()
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    for name in (
        "libQnnHtp.so",
        "libQnnHtpPrepare.so",
        "libQnnSystem.so",
        "libQnnHtpV79Stub.so",
        "libQnnHtpV79Skel.so",
    ):
        (sdk / name).touch()
    words = ("--pte", tmp_path / "m.pte", "--tokenizer", tmp_path / "tok.model", "--qnn", sdk, "--tokens", "64")
    for mode, number, shared in (("hybrid", "1", True), ("kv", "0", False)):
        (tmp_path / "m.pte").write_bytes(decoder(mode, qnn=(Qnn(shared_buffer=shared),)))
        said = answer(tried(*words, "--chat", "qwen3", code=8), "runner")[1]
        assert said.endswith(f"qwen3 {number} {str(shared).lower()} tokenizer.model m.pte 64"), said
    status, said = answer(tried(*words, "--chat", "qwen3", code=8), "abi")
    assert status == "FAIL" and "libQnnHtp.so is not an ELF file (0 bytes)" in said
    assert "--chat llama3 or qwen3" in tried(*words, code=2)["stderr"]
    assert "--tokenizer FILE" in tried("--pte", tmp_path / "m.pte", "--chat", "qwen3", code=2)["stderr"]


def test_a_target_without_a_runner_fails_where_a_model_was_named(tried: Try, project: Path) -> None:
    runs(project)
    assert "builds no runner" in answer(tried(code=0), "runner")[1]
    report = tried("--pte", project / "tiny3.minirt", code=8)
    status, said = answer(report, "runner")
    assert status == "SKIP" and "--in-app" in said and report["stderr"].count("runner") == 1
    assert "runner" in tried(verb="run", code=8)["stderr"], "there is nothing to time"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--pte", "/nowhere.pte"], "/nowhere.pte is not there"),
        (["--recipe", "none"], "there is no recipe 'none'"),
        (["--target", "nope"], "no target named 'nope'"),
        (["--chat", "gemma"], "known: llama3, llava, qwen3"),
        (["--from", "x"], "must be NAME=FOLDER"),
        (["--tokens", "0"], "--tokens is 1 or more"),
        (["--timeout", "nan"], "--timeout more than 0"),
        (["--timeout", "1e9"], "--timeout more than 0"),
        (["--qnn", "/nowhere.aar"], "--qnn /nowhere.aar is not there"),
    ],
)
def test_wrong_words_are_said(tried: Try, argv: list[str], said: str) -> None:
    assert said in tried(*argv, code=2)["stderr"]


def test_a_tolerance_that_no_figure_exceeds_is_refused(tried: Try) -> None:
    for percent in ("nan", "inf", "-1"):
        assert "--tolerance is a percentage" in tried("--tolerance", percent, verb="run", code=2)["stderr"]


def test_two_devices_at_once_each_with_its_own_report(
    project: Path, device: EmulatedDevice, server: adapter.Server, kz: Kz, tmp_path: Path
) -> None:
    with emulated(server, tmp_path / "second", "SM8650") as second:
        prop(second, "ro.product.cpu.abi", "x86_64")
        words = ["--serial", device.serial, "--serial", second.serial]
        done = kz("-C", project, "device", "check", *words, "--json", ANDROID_ADB_SERVER_PORT=str(server.port))
        assert done.returncode == 8 and f"{second.serial}: abi" in done.stderr and device.serial not in done.stderr
        reports = json.loads(done.stdout)
        assert [(one["serial"], one["arch"]) for one in reports] == [(device.serial, "v79"), (second.serial, "v75")]
        assert len(list((project / "out/device/sample-0.1").glob("*/manifest.json"))) == 2
        second.listener.shut()
        done = kz("-C", project, "device", "check", *words, "--json", ANDROID_ADB_SERVER_PORT=str(server.port))
        assert done.returncode == 8
        reports = json.loads(done.stdout)
        assert "checks" in reports[0] and reports[1]["serial"] == second.serial and reports[1]["error"]


def test_emulated_timings_are_compared_with_nothing(tried: Try, project: Path, tmp_path: Path) -> None:
    recipe(project, "runner", run=("./runner",))
    two_megabytes = "held=$(head -c 2000000 /dev/zero | tr '\\0' x); "
    script(tmp_path / "files/runner", two_megabytes + stats(300, 5))  # the sample's own may end before the first sample
    for _ in range(2):
        report = tried("--recipe", "r", "--runs", "2", "--warmup", "0", verb="run", code=0)
        assert report["run"]["compared"] == [] and "EMULATED" in report["run"]["notes"][0]
        assert len(report["run"]["samples"]) == 2
        assert report["run"]["memory"] and report["run"]["memory"]["pss_peak_mb"] > 1, report["run"]["notes"]
        assert set(report["run"]["spreads"]) == {"load_s", "ttft_ms", "prefill_tps", "decode_tps", "total_s", "peak_mb"}


@pytest.fixture
def tablet(device: EmulatedDevice) -> EmulatedDevice:
    """The device, passing for a real one: what says that it is emulated is gone, and it has libraries where Android has them."""
    prop(device, "ro.kz.emulated", None)
    prop(device, "ro.product.model", "OPD2415")
    (device.root.folder / "system/lib64").mkdir()
    for name in ("libc.so.6", "libdl.so.2", "libpthread.so.0"):
        (device.root.folder / "system/lib64" / name).touch()
    return device


def stats(load: int, first: int | str, reply: str = "text", decode: str = "1000") -> str:
    """A runner, as a script, that loads for so many milliseconds, gives its first token after so many more, and decodes for `decode` of them."""
    return f"""now=$(date +%s%3N); sleep {load / 1000}; start=$(date +%s%3N); echo "{reply}"
printf 'PyTorchObserver {{"prompt_tokens":10,"generated_tokens":50,"inference_start_ms":%d,"first_token_ms":%d,"prompt_eval_end_ms":%d,"inference_end_ms":%d}}\\n' $start $((start+{first})) $((start+{first})) $((start+{first}+{decode}))"""


SERIES = ("--recipe", "r", "--runs", "5", "--warmup", "0")
ONE = ("--recipe", "r", "--runs", "1", "--warmup", "0")
WIDE = ("--tolerance", "60")
"""What a busy machine does to a sleep is not asked here."""


def lines(project: Path) -> list[dict[str, Any]]:
    """What is kept of the runs on the one device."""
    (path,) = (project / "out/device/sample-0.1").glob("*/runs.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_that_became_worse_fails_until_it_is_accepted(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path, kz: Kz
) -> None:
    recipe(project, "runner", run=("./runner",))

    def go(first: int, *more: str, code: int) -> dict[str, Any]:
        script(tmp_path / "files/runner", stats(20, first))
        return tried(*SERIES, *more, verb="run", code=code)

    report = go(100, code=0)
    assert not report["emulated"] and report["run"]["spreads"]["ttft_ms"]["median"] == 100
    assert "no earlier run of this on the device" in report["run"]["notes"]
    worse = go(300, *WIDE, code=8)
    assert "ttft_ms against 5 earlier runs" in worse["stderr"]
    (row,) = [row for row in worse["run"]["compared"] if row["metric"] == "ttft_ms"]
    assert (row["before"], row["now"], row["change"], row["noise"], row["worse"]) == (100, 300, 200, 0, True)
    accepted = go(300, "--tolerance", "500", code=0)
    assert {row["against"] for row in accepted["run"]["compared"]} == {"5 earlier runs"}
    (device,) = json.loads(kz("-C", project, "report", "--json").stdout)["device"].values()
    (figures,) = device["runs"].values()
    assert (figures["target"], figures["spreads"]["ttft_ms"]["median"]) == (accepted["target"], 300)
    ends = [(row["end"], row["why"], row["fresh"]) for row in lines(project) if "end" in row]
    assert ends == [("kept", "", False), ("refused", "it was worse", True), ("kept", "", True)]


def test_a_series_that_throttles_is_refused_as_a_baseline(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path
) -> None:
    """A device that loses speed from run to run, 1.4-fold in all; the next series is compared with none of it."""
    recipe(project, "runner", run=("./runner",))
    count = "n=$(cat /data/local/tmp/n 2>/dev/null || echo 0); echo $((n+1)) >/data/local/tmp/n; "
    script(tmp_path / "files/runner", count + stats(1, 100, decode="1000+100*(n>0?n-1:0)"))
    report = tried(*SERIES, verb="run", code=0)
    assert "decode fell 1.29-fold within the series" in report["run"]["refused"], report["run"]
    assert "so it is no baseline" in report["run"]["refused"] and report["run"]["compared"] == []
    assert [(row["end"], row["why"]) for row in lines(project)[5:]] == [("refused", report["run"]["refused"])]
    script(tmp_path / "files/runner", stats(1, 100))
    steady = tried(*SERIES, verb="run", code=0)["run"]
    assert steady["refused"] == "" and steady["compared"] == []
    assert "no earlier run of this on the device" in steady["notes"]


def test_a_series_that_was_killed_goes_on(tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path) -> None:
    recipe(project, "runner", run=("./runner",))
    count = "n=$(cat /data/local/tmp/n 2>/dev/null || echo 0); echo $((n+1)) >/data/local/tmp/n; "
    script(tmp_path / "files/runner", f"{count}[ $n -lt 3 ] || [ -e /data/local/tmp/on ] || exit 9; {stats(1, 100)}")
    assert "ended with 9" in tried(*ONE, "--runs", "3", verb="run", code=8)["error"]
    assert [row["run"] for row in lines(project)] == [1, 2]
    (tablet.root.folder / "data/local/tmp/on").touch()
    report = tried(*ONE, "--runs", "3", verb="run", code=0)
    assert [row.get("run") for row in lines(project)] == [1, 2, 3, None]
    assert len(report["run"]["samples"]) == 3 and "2 runs were made before kz was stopped" in report["stderr"]


def test_a_hot_device_is_waited_for_or_its_runs_are_marked(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "POLL_SECONDS", 0.01)
    recipe(project, "runner", run=("./runner",))
    script(tmp_path / "files/runner", stats(1, 100))
    battery = "n=$(cat /data/local/tmp/c 2>/dev/null || echo 412); echo $((n-40)) >/data/local/tmp/c; echo '  temperature:' $n"
    script(tablet.root.folder / "system/bin/dumpsys", f"[ $1 = battery ] && {{ {battery}; }}")
    report = tried(*ONE, verb="run", code=0)
    assert "37.2 °C: waiting up to 30 min for 35 °C" in report["stderr"]
    assert report["run"]["celsius"][0] == 33.2 and report["run"]["refused"] == ""
    assert [row["battery_celsius"] for row in lines(project)[:1]] == [33.2]

    script(tablet.root.folder / "system/bin/dumpsys", "[ $1 = battery ] && echo '  temperature: 412'")
    path = project / "recipes/r.yaml"
    path.write_text(path.read_text() + "run: {minutes: 0}\n")
    report = tried(*ONE, verb="run", code=0)
    assert report["run"]["refused"] == "the battery had 41.2 °C at the start, more than 35, so it is no baseline"
    assert "so its runs are marked as hot" in report["stderr"] and report["run"]["compared"] == []


def test_clocks_are_fixed_while_it_runs_and_freed_after_a_failure_too(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path
) -> None:
    recipe(project, "runner", run=("./runner",))
    mode = tablet.root.folder / "system/emulated/fixed-performance"
    seen = "cat /system/emulated/fixed-performance >>/data/local/tmp/seen 2>/dev/null; "
    script(tmp_path / "files/runner", seen + stats(1, 100))
    assert tried(*ONE, verb="run", code=0)["run"]["fixed_performance"]
    assert (tablet.root.folder / "data/local/tmp/seen").read_text().split() == ["true"] * 2  # one for the memory
    assert mode.read_text() == "false\n"
    mode.unlink()
    script(tmp_path / "files/runner", f"[ ! -e /system/emulated/fixed-performance ] || exit 9; {stats(1, 100)}")
    assert "ended with 9" in tried(*ONE, verb="run", code=8)["error"]
    assert mode.read_text() == "false\n"

    script(tablet.root.folder / "system/bin/cmd", "echo Failed to set FIXED_PERFORMANCE mode; exit 255")
    script(tmp_path / "files/runner", stats(1, 100))
    report = tried(*ONE, verb="run", code=0)["run"]
    assert not report["fixed_performance"] and any("no fixed-performance mode" in note for note in report["notes"])
    assert "not compared with the last series: another performance mode" in report["notes"]


def test_ctrl_c_frees_the_clocks_of_every_device(
    project: Path, device: EmulatedDevice, server: adapter.Server, clean_env: dict[str, str], tmp_path: Path
) -> None:
    """Several devices run in threads, which an interrupt just ends."""
    recipe(project, "runner", run=("./runner",))
    script(tmp_path / "files/runner", f"{stats(1, 100)}; [ ! -e /system/emulated/fixed-performance ] || sleep 60")
    with emulated(server, tmp_path / "second", "SM8650") as second:
        modes = [one.root.folder / "system/emulated/fixed-performance" for one in (device, second)]
        serials = ["--serial", device.serial, "--serial", second.serial]
        argv = ["-C", str(project), "device", "run", *serials, *SERIES, "--from", f"out={tmp_path / 'files'}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "kz_build", *argv],
            cwd=ROOT,
            env={**clean_env, "ANDROID_ADB_SERVER_PORT": str(server.port)},
            stderr=subprocess.DEVNULL,
        )
        until(lambda: process.poll() is not None or all(mode.exists() for mode in modes), 60)
        process.send_signal(signal.SIGINT)
        assert process.wait(patient(30)) == 130
        assert [mode.read_text() for mode in modes] == ["false\n"] * 2


def test_longer_prompts_are_series_of_their_own(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path
) -> None:
    runs(project, "/system/bin/llama", "{prompt}", "{total}")
    counts = "set -- $1; "
    script(
        tablet.root.folder / "system/bin/llama",
        counts + stats(0, "$#").replace('"prompt_tokens":10', '"prompt_tokens":%d').replace("' $start", "' $# $start"),
    )
    recipe(project)
    path = project / "recipes/r.yaml"
    path.write_text(path.read_text() + "run: {prompt: one two three, words: [32]}\n")
    (project / "baselines").mkdir()
    (project / "baselines/t.yaml").write_text(
        "device: A tablet\nmatch: {models: [OPD2415]}\n"
        "figures: [{recipe: r, process: shell, date: null, source: a test, ttft_ms: 3}]\n"
    )
    report = tried(*ONE, verb="run", code=0)
    series = [report["run"], *report["lengths"]]
    assert [[row["metric"] for row in one["compared"]] for one in series] == [["ttft_ms"], []], (
        "a baseline is of the recipe's own prompt"
    )
    assert [(one["words"], one["samples"][0]["prompt_tokens"]) for one in series] == [(0, 3), (32, 32)]


def test_sustained_runs_are_made_for_a_time_and_are_no_baseline(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path
) -> None:
    recipe(project, "runner", run=("./runner",))
    script(tmp_path / "files/runner", stats(1, 100))
    report = tried(*ONE, "--sustain", "2s", verb="run", code=0)["run"]
    assert report["samples"] and report["retention"] in (None, 1)
    assert report["refused"] == "sustained runs show how a device throttles, so they are no baseline"
    assert report["compared"] == []
    assert "5 is no time such as 5m or 90s" in tried("--sustain", "5", verb="run", code=2)["stderr"]


def test_the_reply_must_be_one(tried: Try, project: Path, tmp_path: Path) -> None:
    recipe(project, "runner", run=("./runner",))
    script(tmp_path / "files/runner", stats(1, 5, "!" * 64))
    report = tried("--recipe", "r", code=8)
    assert answer(report, "runner")[0] == "PASS" and "reply" in report["stderr"]
    assert answer(report, "reply") == ("FAIL", f"it repeats '!' 64 times: {'!' * 60}…")
    path = project / "recipes/r.yaml"
    path.write_text(path.read_text() + "run: {prompt: A capital, expect: paris}\n")
    script(tmp_path / "files/runner", stats(1, 5, "It is Lyon."))
    assert answer(tried("--recipe", "r", code=8), "reply") == ("FAIL", "the recipe expects 'paris' in it: It is Lyon.")
    assert answer(tried("--recipe", "r", "--prompt", "another", code=0), "reply")[0] == "PASS"
    script(tmp_path / "files/runner", stats(1, 5, "It is Paris."))
    assert "it has 'paris'" in answer(tried("--recipe", "r", code=0), "reply")[1]


def test_the_device_says_what_the_hosts_rehearsal_of_the_same_file_said(
    tried: Try, project: Path, tmp_path: Path
) -> None:
    recipe(project, "runner", run=("./runner",))
    model = project / "dist/sample-0.1/tiny3.minirt"
    said = {"prompt": "1", "tokens": [12, 67, 86], "pieces": ["It", " is", " Paris"]}
    record = {"key": "k", "sha256": sha256_file(model), "decode": {"steps": [], "greedy": said}}
    (model.parent / f"{model.name}.json").write_text(json.dumps(record))
    script(tmp_path / "files/runner", stats(1, 5, "It is Paris."))
    assert (
        "the device says what the host's rehearsal said, 3 tokens" in answer(tried("--recipe", "r", code=0), "reply")[1]
    )
    script(tmp_path / "files/runner", stats(1, 5, "It is Lyon."))
    status, why = answer(tried("--recipe", "r", code=8), "reply")
    assert (status, why) == ("FAIL", "token 3 of 3: the host said 86 ' Paris', the device ' Lyon.'")
    model.write_bytes(model.read_bytes() + b"\n")
    assert "rehearsal" not in answer(tried("--recipe", "r", code=0), "reply")[1], "another file"


def test_a_baseline_judges_the_same_recipe_in_the_same_kind_of_process(
    tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path
) -> None:
    (project / "baselines").mkdir()
    figures = "{{recipe: {}, process: {}, date: null, source: a test, ttft_ms: 100}}"

    def held(name: str, process: str) -> None:
        text = (
            f"device: Tablet\nmatch: {{models: [OPD2415]}}\ntolerance: 20\nfigures: [{figures.format(name, process)}]\n"
        )
        (project / "baselines/tablet.yaml").write_text(text)
        shutil.rmtree(project / "out/device", ignore_errors=True)

    recipe(project, "runner", run=("./runner",))
    script(tmp_path / "files/runner", stats(20, 130))
    words = ("--recipe", "r", "--runs", "1", "--warmup", "0")
    held("r", "shell")
    report = tried(*words, verb="run", code=8)
    assert "ttft_ms against baseline Tablet" in report["stderr"]
    held("r", "app")
    report = tried(*words, verb="run", code=0)
    assert "baseline Tablet: measured in app, this ran in shell" in report["run"]["notes"]
    held("other", "shell")
    assert tried(*words, verb="run", code=0)["run"]["compared"] == []
    (project / "baselines/tablet.yaml").write_text("device: x\n")
    assert "baselines are wrong" in tried(*words, verb="run", code=8)["error"]


def test_heat_is_noted(tried: Try, tablet: EmulatedDevice, project: Path, tmp_path: Path) -> None:
    hot = 'case "$1" in thermalservice) [ -e /data/local/tmp/hot ] && echo "Thermal Status: 3" || echo "Thermal Status: 0";; esac'
    script(tablet.root.folder / "system/bin/dumpsys", hot)
    recipe(project, "runner", run=("./runner",))
    script(
        tmp_path / "files/runner",
        stats(1, 5) + "; [ ! -e /system/emulated/fixed-performance ] || : >/data/local/tmp/hot",
    )
    report = tried("--recipe", "r", "--runs", "1", "--warmup", "0", verb="run", code=0)
    assert (report["run"]["thermal"], report["run"]["throttled"]) == (["none", "severe"], True)
    assert report["run"]["refused"] == "Android says severe heat after it, so it is no baseline"


@pytest.fixture(scope="module")
def probe(built: Path, server: adapter.Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[adapter.Device]:
    """A device with kz_probe in /data/local/tmp."""
    with emulated(server, tmp_path_factory.mktemp("probe")) as made:
        client = server.device(made.serial)
        with client.files() as files:
            source = built / "dist/sample-0.1/linux-arm64/bin/kz_probe"
            files.send(source, "/data/local/tmp/kz_probe", mode=0o755, mtime=1)
        yield client


@settings(max_examples=max(25, settings().max_examples // 100))
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60))
@example('it\'s "quoted" $(id) `id` \\ %s\n\ttwo lines;  $HOME *')
@example("--prompt\n")
@example("")
def test_a_prompt_arrives_as_it_is(probe: adapter.Device, text: str) -> None:
    done = probe.shell(f"cd /data/local/tmp && ./kz_probe run 20 /usr/bin/printf '<%s>' {quote(text)}")
    said = done.stdout.decode("utf-8")
    assert said.startswith(f"<{text}>\n{PROBE}"), (text, said)


def test_the_probe_says_what_a_program_took(probe: adapter.Device) -> None:
    done = probe.shell("cd /data/local/tmp && ./kz_probe run 20 /bin/sh -c 'sleep 0.3; exit 9'")
    (ran,) = lines_of(done.stdout.decode(), PROBE)
    assert ran["exit"] == 9 and 300 <= ran["end_ms"] - ran["start_ms"] < 5000 and ran["max_rss_kb"] > 500
    assert probe.shell("cd /data/local/tmp && ./kz_probe nonsense").code == 2


def test_the_probe_says_how_much_memory_a_program_had(probe: adapter.Device) -> None:
    grows = "sleep 1; x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 1.5"
    done = probe.shell(f"cd /data/local/tmp && ./kz_probe memory 20 /bin/sh -c {quote(grows)}")
    (ran,) = lines_of(done.stdout.decode(), PROBE)
    taken = [kilobytes for _, kilobytes in ran["pss"]]
    assert ran["exit"] == 0 and min(taken) + 29_000 < max(taken)
    done = probe.shell("cd /data/local/tmp && ./kz_probe memory 1 /bin/sleep 60")
    assert lines_of(done.stdout.decode(), PROBE)[0]["stopped"]


def test_qnn_is_checked_against_device_and_model(
    tried: Try, project: Path, tmp_path: Path, linker: Linker, device: EmulatedDevice
) -> None:
    """A QNN model of the recipe's own runner: runtime of one version for the arch, the file's contract, and what misses."""
    from tests.formats.ptes import Qnn, decoder

    names = ("libQnnHtp.so", "libQnnHtpPrepare.so", "libQnnSystem.so", "libQnnHtpV79Stub.so", "libQnnHtpV79Skel.so")
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    for name in names:
        abi = "hexagon" if "Skel" in name else "arm64-v8a"
        (sdk / name).write_bytes(linker.bytes(Lib(name, abi, says=QNN)))
    script(tmp_path / "files/runner", stats(1, 5))
    contract = "{runner: hybrid, htp_arch: v79, soc: SM8750, methods: [kv_forward, prefill_forward]}"
    recipe(project, "runner", run=("./runner",), contract=contract, output="m.pte", program=decoder())
    words = ("--recipe", "r", "--qnn", str(sdk))
    report = tried(*words)
    status, said = answer(report, "qnn-runtime")
    assert status == "PASS" and said.startswith("2.42.0.251225") and "stub and skel of V79" in said
    assert answer(report, "pte qnn")[0] == answer(report, "pte arch")[0] == answer(report, "pte methods")[0] == "PASS"

    recipe(project, "runner", run=("./runner",), contract=contract, output="m.pte", program=decoder(qnn=(Qnn(sdk="2.49.40.260810104044"),)))  # fmt: skip
    status, said = answer(tried(*words, code=8), "pte qnn")
    assert status == "FAIL" and "a context loads only on the same or newer" in said

    (sdk / "libQnnSystem.so").write_bytes(linker.bytes(Lib("libQnnSystem.so", says="v2.49.40.260810104044")))
    status, said = answer(tried(*words, code=8), "qnn-runtime")
    assert status == "FAIL" and "several versions" in said and "2.49.40.260810: libQnnSystem.so" in said

    (sdk / "libQnnHtpV79Skel.so").unlink()
    report = tried(*words, code=6)
    assert "libQnnHtpV79Skel.so" in report["error"] and "--qnn" in report["error"]
    prop(device, "ro.soc.model", "Tensor G4")
    assert "the HTP arch of the device" in tried(*words, code=6)["error"]


def test_a_runtime_aar_is_taken_too(tmp_path: Path) -> None:
    import zipfile

    from kz_build.core.errors import ConfigError
    from kz_build.formats.qnn_sdk import qnn_runtime

    aar = tmp_path / "qnn-runtime.aar"
    with zipfile.ZipFile(aar, "w", zipfile.ZIP_DEFLATED) as made:
        for name in (
            "jni/arm64-v8a/libQnnHtp.so",
            "jni/arm64-v8a/libQnnHtpV79Skel.so",
            "jni/x86_64/libQnnCpu.so",
            "classes.jar",
        ):
            made.writestr(name, name)
    for _ in range(2):
        found = qnn_runtime(aar, tmp_path / "store")
        assert set(found) == {"libQnnHtp.so", "libQnnHtpV79Skel.so"}
        assert found["libQnnHtp.so"].read_text() == "jni/arm64-v8a/libQnnHtp.so"
    sdk = tmp_path / "sdk"
    for place in (
        "lib/aarch64-android/libQnnHtp.so",
        "lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so",
        "lib/x86_64-linux-clang/libQnnHtp.so",
    ):
        (sdk / place).parent.mkdir(parents=True, exist_ok=True)
        (sdk / place).write_text(place)
    assert set(qnn_runtime(sdk, tmp_path)) == {"libQnnHtp.so", "libQnnHtpV79Skel.so"}
    assert "aarch64-android" in qnn_runtime(sdk, tmp_path)["libQnnHtp.so"].as_posix()
    with pytest.raises(ConfigError, match="has no libQnn"):
        qnn_runtime(tmp_path / "files", tmp_path)
