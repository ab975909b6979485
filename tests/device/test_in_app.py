"""A model in an app: kz's probe on this machine's Java; building, installing, starting, waiting and reading with the real adb.

No app runs here: on an emulated device scripts of these tests say what `pm`, `am`, `run-as`, `pidof` and `ps` would.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kz_build.core.errors import ConfigError
from kz_build.core.files import sha256_file
from kz_build.device import adb as adapter
from kz_build.device import in_app_types as types
from kz_build.device.in_app import App, app_of, in_app
from kz_build.device.in_app_types import BENCHMARK, EMULATED, PACKAGE, PROBE, ZYGOTE, AppRequest
from kz_build.device.metrics import ENOUGH, Memory
from kz_build.device.push_set import InputFile
from kz_build.device.trial import Report, RunPolicy, Timing, TrialPlan
from kz_build.emulator.device import EmulatedDevice
from kz_build.formats.pte_types import Delegate, Method, Pte
from kz_build.pins.project import Project
from tests.device import probes
from tests.emulator.emulated import emulated
from tests.formats.apps import AAPT2, Linker, apk, good

FOLDER = "/data/local/tmp/kz/et-1.2/android/a model.pte"
PROMPT = "say 'hi'\n"
LONG = "word " * 500
needs_java = pytest.mark.skipif(not shutil.which("javac"), reason="needs javac (default-jdk-headless)")

ONCE = RunPolicy()


def metric(name: str, value: float) -> dict[str, object]:
    """As Gson writes upstream's BenchmarkMetric."""
    return {
        "benchmarkModel": {"name": "llama3", "backend": "xnnpack", "quantization": "q8"},
        "metric": name,
        "actualValue": value,
        "targetValue": 0.0,
        "deviceInfo": {"device": "OnePlus", "arch": "OPD2415", "os": "Android 16", "totalMem": 0, "availMem": 0},
    }


FORWARD = [
    metric("avg_inference_latency(ms)", 8.5), metric("trimmean_inference_latency(ms)", 8.0), metric("model_load_time(ms)", 900.0),
    metric("load_status", 0.0), metric("ram_pss_usage(mb)", 300.0),
]  # fmt: skip
LLM = [
    metric("load_status", 0.0), metric("llm_model_load_time(ms)", 1234.5), metric("generate_time(ms)", 2500.0),
    metric("token_per_sec", 21.5),
]  # fmt: skip


@pytest.mark.apps
@needs_java
@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_the_probe_compiles_with_upstreams_classes_and_says_what_it_saw(version: str, tmp_path: Path) -> None:
    classes = probes.compiled(tmp_path, version)
    extras = {
        "run": "r1",
        "model": "m.pte",
        "tokenizer": "t.json",
        "prompt": 'a "b"\n$(c)',
        "model_type": "4",
        "seq_len": "64",
    }
    said = json.loads(probes.ran(classes, tmp_path / "files", extras))
    assert (said["run"], said["pid"], said["uid"]) == ("r1", 7, 10007)
    found = types.parse_result(PROBE, said, "r1")
    assert found.text == '<a "b"\n$(c)> 4 m.pte t.json 0.0 64 false'
    told = found.sample
    assert (found.load_status, told.prompt_tokens, told.generated_tokens, found.error) == (0, 20, 30, "")
    assert (told.ttft_ms, told.prefill_tps, told.decode_tps) == (113, round(20 / 0.113, 2), 20.0)
    assert told.load_s is not None and 0 < told.load_s < 10 and told.total_s is not None and told.total_s > told.load_s
    assert told.peak_mb is not None and 10 < told.peak_mb < 10_000 and found.memory is None
    held = types.parse_result(
        PROBE, json.loads(probes.ran(classes, tmp_path / "files", {**extras, "memory": "1"})), "r1"
    )
    assert held.memory and held.memory.pss_loaded_mb and held.memory.pss_released_mb
    assert held.memory.pss_peak_mb >= held.memory.pss_loaded_mb > 10, held.memory
    with pytest.raises(ValueError, match="another run"):
        types.parse_result(PROBE, said, "r2")
    for properties, expected in (
        ({"status": "32"}, (32, 0)) if version == "1.2" else ({"status": "32"}, (None, 0)),
        ({"unlinked": "true"}, (None, 0)),
        ({"fails": "true"}, (0, 0)),
    ):
        bad = types.parse_result(PROBE, json.loads(probes.ran(classes, tmp_path / "files", extras, **properties)), "r1")
        assert (bad.load_status, bad.sample.generated_tokens) == expected
        if expected[0] is None:
            assert "Failed to load model" in bad.error or "libcdsprpc.so not found" in bad.error


def test_upstreams_own_results_are_read() -> None:
    found = types.parse_result(BENCHMARK, FORWARD + LLM, "")
    assert (found.load_status, found.sample.load_s, found.sample.decode_tps) == (0, 1.2345, 21.5)
    assert found.sample.total_s == 3.7345
    found = types.parse_result(BENCHMARK, FORWARD, "")
    assert (found.sample.load_s, found.sample.decode_tps) == (0.9, None)
    wrongs: tuple[Any, ...] = ({}, [], [{"metric": "load_status"}], "x", 3, None)
    for wrong in wrongs:
        with pytest.raises(ValueError, match="no result of"):
            types.parse_result(BENCHMARK, wrong, "")
        with pytest.raises(ValueError, match="no result of|another run"):
            types.parse_result(PROBE, wrong, "r")


@pytest.mark.parametrize(
    "stats", [{"prompt_tokens": math.inf}, {"prompt_tokens": 10**400, "inference_start_ms": 0, "prompt_eval_end_ms": 1}]
)
def test_numbers_that_no_app_measures_are_no_result(stats: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no result of kz.ProbeActivity"):
        types.parse_result(PROBE, {"run": "r", "stats": stats}, "r")
    with pytest.raises(ValueError, match="no result of"):
        types.parse_result(BENCHMARK, [{"metric": "load_status", "actualValue": math.inf}], "")
    found = types.parse_result(PROBE, {"run": "r", "load_ms": math.nan, "load_status": 0}, "r")
    assert found.sample.load_s is None, "NaN is worse than nothing, and would pass"
    assert types.parse_state("[" * 100_000 + f"\n@@\n{'9' * 5000}\n") == (None, 0, "")


def test_the_kind_of_process_is_named_by_what_was_seen() -> None:
    assert types.process_kind("zygote64", "", False) == ZYGOTE
    assert types.process_kind("", "u:r:untrusted_app_32:s0:c1,c2", False) == ZYGOTE
    assert types.process_kind("sh", "u:r:untrusted_app_32:s0", False) == "process of sh"
    assert "not seen" in types.process_kind("", "u:r:shell:s0", False)
    assert types.process_kind("zygote64", "u:r:untrusted_app_32:s0", True) == EMULATED


class Player:
    """The part of Android that an emulated device has not: scripts that say what its programs would."""

    def __init__(self, device: EmulatedDevice) -> None:
        self.device = device
        self.at = device.root.folder / "data/played"
        self.at.mkdir(parents=True)
        self.program(
            "pm",
            """
case "$1" in
  path) [ -e /data/played/base.apk ] && echo package:/data/played/base.apk ;;
  install) for last; do :; done; [ -e /data/played/pm-says ] && { cat /data/played/pm-says; exit 1; }
    cp "$last" /data/played/base.apk; echo Performing Streamed Install; echo Success; echo x >>/data/played/installs ;;
esac""",
        )
        self.program(
            "am",
            """
printf '%s\\0' "$@" >/data/played/started; printf x >>/data/played/starts
[ -e /data/played/am-says ] && { cat /data/played/am-says; exit 0; }
echo Starting: Intent; echo Status: ok; : >/data/played/alive; echo 0 >/data/played/polls""",
        )
        self.program(
            "run-as",
            """
[ "$1" = org.pytorch.minibench ] || exit 1
[ "$2" = rm ] && exit 0
n=$(($(cat /data/played/polls) + 1)); echo $n >/data/played/polls
[ $n -ge $(cat /data/played/dies) ] && rm -f /data/played/alive
[ $n -ge $(cat /data/played/after) ] && { run=$(tr '\\0' '\\n' </data/played/started | sed -n '/^run$/{n;p}')
  sed "s/RUN/$run/" /data/played/"${3#files/}"; }
exit 0""",
        )
        self.program("pidof", "[ -e /data/played/alive ] && echo 4242")
        self.program("ps", 'case "$2" in PPID=) echo 1000 ;; NAME=) echo zygote64 ;; esac')
        self.plays()

    def program(self, name: str, text: str) -> None:
        path = self.device.root.folder / "system/bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def plays(self, *, after: int = 1, dies: int = 1000, load_ms: float = 4200.0, **says: str) -> None:
        """The result is there at that poll; the process is gone from that one on; `am` or `pm` say something else."""
        for name, text in {"after": str(after), "dies": str(dies), **{f"{k}-says": v for k, v in says.items()}}.items():
            (self.at / name).write_text(text)
        said = {
            "run": "RUN", "pid": 4242, "ppid": 1000, "context": "u:r:untrusted_app_32:s0:c1", "load_ms": load_ms, "load_status": 0,
            "first_token_ms": 113.4, "total_ms": 1700.0, "text": "Hello\n", "stats": probes.STATS, "peak_rss_kb": 1_000_000,
            "pss_loaded_kb": 500_000, "pss_peak_kb": 600_000, "pss_released_kb": 100_000,
        }  # fmt: skip
        self.leaves(PROBE, said)
        self.leaves(BENCHMARK, FORWARD + LLM)

    def leaves(self, activity: types.Activity, said: object) -> None:
        (self.at / activity.result.rpartition("/")[2]).write_text(said if isinstance(said, str) else json.dumps(said))

    def is_no_emulation(self) -> None:
        """Say nothing of being one: what is asked so is what a real device is asked."""
        props = self.device.root.folder / "system/emulated/props"
        props.write_text(props.read_text().replace("ro.kz.emulated=1\n", ""))

    def started(self) -> list[str]:
        """The words that `am` got."""
        return (self.at / "started").read_bytes().decode().split("\0")[:-1]


@pytest.fixture
def player(tmp_path: Path, server: adapter.Server) -> Iterator[Player]:
    with emulated(server, tmp_path / "device") as made:
        server.device(made.serial)
        yield Player(made)


Run = Callable[..., Report]


@pytest.fixture
def run(player: Player, server: adapter.Server, tmp_path: Path) -> Run:
    """The stage, with an app, a model and a tokenizer of some bytes."""
    path = tmp_path / "mini bench.apk"
    for file, data in ((path, b"an app"), (tmp_path / "a model.pte", b"pte"), (tmp_path / "t.json", b"{}")):
        file.write_bytes(data)
    project = Project(tmp_path / "project", tmp_path / "store", None, None)  # type: ignore[arg-type]

    def go(
        activity: types.Activity = PROBE, policy: RunPolicy = ONCE, *, qnn: bool = False, seconds: int = 20
    ) -> Report:
        model = tmp_path / "a model.pte"
        inputs = (InputFile(model, model.name, True, ""), InputFile(tmp_path / "t.json", "tokenizer.json", True, ""))
        trial = TrialPlan(
            "et-1.2", "android", "arm64-v8a", tmp_path, {}, {}, inputs, (), model=model, full_prompt=PROMPT, tokens=64, seconds=seconds,
            pte=of_qnn() if qnn else None, timed=(Timing((), PROMPT, tokens=64), Timing((), LONG, 500, 1064)),
        )  # fmt: skip
        return in_app(
            project, server.device(player.device.serial), trial, App(path, sha256_file(path), activity), policy
        )

    return go


def of_qnn() -> Pte:
    """A program that only upstream's QNN runner takes."""
    method = Method("kv_forward", (), (), (), (Delegate("QnnBackend", 1, 0, 1, ()),), ())
    return Pte("a model.pte", 3, 0, 3, (), (method,), (), 0, 0)


def rows(found: Report) -> dict[str, tuple[str, str]]:
    return {c.name: (c.status.value, c.evidence) for c in found.checks}


def test_an_app_is_installed_once_started_and_its_result_read(run: Run, player: Player) -> None:
    found = run(qnn=True)
    assert {name: status for name, (status, _) in rows(found).items()} == {
        "install": "PASS", "process": "SKIP", "load": "PASS", "generate": "PASS", "reply": "PASS", "log": "PASS",
    }  # fmt: skip
    assert rows(found)["process"][1] == EMULATED == found.process, "nobody may take this for a run in an app"
    assert rows(found)["load"][1] == "in 4.20 s, timed around it"
    assert rows(found)["generate"][1] == '30 tokens, 20 tokens/s, "Hello\\n"'
    assert found.run is None, "a check times nothing"
    words = player.started()
    assert words[:5] == ["start", "-W", "-S", "-n", f"{PACKAGE}/kz.ProbeActivity"]
    extras = {words[at + 1]: words[at + 2] for at, word in enumerate(words) if word.startswith("--e")}
    assert (extras["model"], extras["prompt"], extras["model_type"]) == (f"{FOLDER}/a model.pte", PROMPT, "4")
    assert (player.device.root.folder / extras["tokenizer"][1:]).read_bytes() == b"{}"
    again = run()
    assert "was installed" in rows(again)["install"][1] and (player.at / "installs").read_text() == "x\n"
    (player.at / "base.apk").write_text("somebody else's")
    assert rows(run())["install"][1].endswith(" installed") and (player.at / "installs").read_text() == "x\nx\n"


def test_a_result_that_takes_its_time_is_waited_for(run: Run, player: Player) -> None:
    player.plays(after=4)
    assert not run().failed and (player.at / "polls").read_text() == "4\n"


def test_runs_are_fresh_processes_and_compared_where_it_is_a_device(run: Run, player: Player, tmp_path: Path) -> None:
    """In the same file as a shell's, by the same rules: each length of prompt, memory, and what is left after a while."""
    found = run(policy=RunPolicy(runs=2, warmup=1, compare=True))
    assert found.run and (len(found.run.samples), found.run.warmup, found.run.samples[0].peak_mb) == (2, 1, 1024)
    assert found.run.memory == Memory(512, 614.4, 102.4) and found.run.notes == (
        "EMULATED: its timings are not compared",
    )
    assert [(one.words, len(one.samples), one.memory) for one in found.lengths] == [(500, 2, None)]
    assert (player.at / "starts").read_text() == "x" * (1 + 3 + 1 + 3), (
        "a check, two series, and one run for the memory"
    )
    words = player.started()
    assert words[words.index("prompt") + 1] == LONG and words[words.index("seq_len") + 1] == "1064"
    lines = (tmp_path / "project/out/device/et-1.2" / player.device.serial.replace(":", "_") / "runs.jsonl").read_text()
    assert lines.count('"process": "app"') == 4 and lines.count('"pss_released_mb": 102.4') == 1
    player.is_no_emulation()
    policy = RunPolicy(runs=ENOUGH, compare=True)
    assert run(policy=policy).process == ZYGOTE
    player.plays(load_ms=8400.0)
    found = run(policy=policy)
    assert [c.metric for c in found.run.compared if c.worse] == ["load_s", "total_s"] if found.run else False
    assert {"load_s against 5 earlier runs", "load_s against 5 earlier runs (500 words)"} < set(found.failed)
    found = run(policy=RunPolicy(runs=1, compare=True, sustain=1))
    assert (
        found.run and len(found.run.samples) > 1 and "how a device throttles" in found.run.refused and not found.lengths
    )


def test_an_app_that_stops_within_a_series_is_said_and_the_series_goes_on_later(run: Run, player: Player) -> None:
    am = (player.device.root.folder / "system/bin/am").read_text()
    player.program("am", f'[ "$(wc -c </data/played/starts)" -ge 3 ] && {{ echo Error: too hot; exit 0; }}\n{am}')
    found = run(policy=RunPolicy(runs=4, compare=True))
    assert rows(found)["runs"] == ("FAIL", f"{player.device.serial} in-app: am: Error: too hot") and found.run is None
    assert rows(found)["log"][0] == "PASS"
    player.program("am", am)
    found = run(policy=RunPolicy(runs=4, compare=True))
    assert found.run and len(found.run.samples) == 4
    assert (player.at / "starts").read_text() == "x" * (3 + 1 + 2 + 1 + 4), "two of four runs were made before"


def test_a_process_of_another_parent_is_no_app(run: Run, player: Player) -> None:
    player.is_no_emulation()
    assert rows(run())["process"] == ("PASS", f"{ZYGOTE}, u:r:untrusted_app_32:s0:c1")
    player.program("ps", 'case "$2" in PPID=) echo 1 ;; NAME=) echo sh ;; esac')
    assert rows(run())["process"][0] == "FAIL"


def test_upstreams_own_activity_can_be_driven_but_not_with_qnn(run: Run, player: Player) -> None:
    assert rows(run(BENCHMARK))["generate"] == ("PASS", "21.5 tokens/s")
    words = player.started()
    assert words[words.index("model_dir") + 1] == FOLDER
    assert words[words.index("prompt") + 1] == PROMPT
    assert words[words.index("num_iter") + 1] == "2"
    status, evidence = rows(run(BENCHMARK, qnn=True))["start"]
    assert status == "FAIL" and "kz.ProbeActivity" in evidence


def test_an_app_that_dies_is_told_from_one_that_is_slow(run: Run, player: Player) -> None:
    player.device.log(
        "11-21 11:00:00.000  4242  4250 F libc    : Fatal signal 6 (SIGABRT), code -1 (SI_QUEUE) in tid 4250, pid 4242\n"
        "11-21 11:00:00.000  4242  4250 E ExecuTorch: Failed to create context from binary with err 0x138d\n"
        "11-21 11:00:00.000   999   999 E somebody: else\n"
    )
    player.plays(after=1000, dies=2)
    found = run()
    assert rows(found)["load"] == ("FAIL", "the app died before it left a result")
    log = (player.device.root.folder.parent / "project" / found.log).read_text()
    assert "Fatal signal 6" in log and "somebody" not in log
    player.plays(after=1000)
    status, evidence = rows(run(seconds=1))["load"]
    assert status == "FAIL" and "no result within 1 s" in evidence


def test_what_android_says_is_shown(run: Run, player: Player) -> None:
    missing = f"Error: Activity class {{{PACKAGE}/kz.ProbeActivity}} does not exist."
    player.plays(am=f"Starting: Intent\nError type 3\n{missing}\n")
    found = run()
    assert rows(found)["load"] == ("FAIL", f"am: {missing}")
    assert "process" not in rows(found) and found.process == "no app ran"
    (player.at / "am-says").unlink()
    (player.at / "base.apk").unlink()
    player.plays(pm="Failure [INSTALL_FAILED_UPDATE_INCOMPATIBLE: signatures do not match]\n")
    status, evidence = rows(run())["install"]
    assert status == "FAIL" and evidence.endswith(f"adb uninstall {PACKAGE}")


@pytest.mark.parametrize(
    ("said", "check", "evidence"),
    [
        ({"load_status": 32, "load_ms": 3.0}, "load", "load gave 32"),
        ({"error": "java.lang.X: a\n\tat b\nCaused by: java.lang.UnsatisfiedLinkError: libcdsprpc.so\n"}, "load", "Caused by: java.lang.UnsatisfiedLinkError: libcdsprpc.so"),
        ({"load_status": 0, "load_ms": 3.0, "text": "x"}, "generate", "no statistics"),
        ({"load_status": 0, "load_ms": 3.0, "stats": probes.STATS, "error": "error 32: x"}, "generate", "error 32: x"),
        ({"load_status": "?", "load_ms": []}, "load", "no result of kz.ProbeActivity"),
    ],
)  # fmt: skip
def test_a_result_that_is_none_fails(
    run: Run, player: Player, said: dict[str, object], check: str, evidence: str
) -> None:
    player.leaves(PROBE, {"run": "RUN", **said})
    found = rows(run())[check]
    assert found[0] == "FAIL" and found[1].startswith(evidence)


def test_half_a_result_is_waited_for(run: Run, player: Player) -> None:
    player.leaves(BENCHMARK, json.dumps(FORWARD + LLM)[:-20])
    assert "no result within" in rows(run(BENCHMARK, seconds=1))["load"][1]


def test_an_emulated_device_runs_no_app(run: Run, player: Player) -> None:
    (player.device.root.folder / "system/bin/am").unlink()
    found = run()
    assert rows(found) == {"start": ("SKIP", "an EMULATED device has no Zygote and runs no app")}
    player.is_no_emulation()
    assert rows(run())["start"][0] == "FAIL"


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60)


@settings(max_examples=max(10, settings().max_examples // 100))
@given(TEXTS, TEXTS, TEXTS)
@example("$(reboot) `id` \"'", "a b\nc", "--es x y")
@example("", "\\", ";exit 3;#")
def test_any_prompt_arrives_as_it_is(
    player: Player, server: adapter.Server, prompt: str, model: str, tokenizer: str
) -> None:
    device = server.device(player.device.serial)
    request = AppRequest(f"/data/{model}.pte", tokenizer, prompt, types.TEXT)
    for activity in (PROBE, BENCHMARK):
        assert device.shell(types.start_command(activity, request, "r")).code == 0
        words = player.started()
        assert words[words.index("prompt") + 1] == prompt
        assert (tokenizer in words) and (activity is BENCHMARK or f"/data/{model}.pte" in words)


@pytest.mark.apps
@pytest.mark.skipif(not AAPT2, reason="needs aapt and android-framework-res for real manifests")
def test_an_app_is_known_by_its_manifest(linker: Linker, tmp_path: Path) -> None:
    plain = replace(good(), package=PACKAGE, activities=(".BenchmarkActivity",))
    assert app_of(apk(plain, linker, tmp_path / "a.apk")).activity is BENCHMARK
    ours = replace(plain, activities=(".BenchmarkActivity", "kz.ProbeActivity"))
    assert app_of(apk(ours, linker, tmp_path / "b.apk")).activity is PROBE
    with pytest.raises(ConfigError, match="org.example.app, not upstream's"):
        app_of(apk(good(), linker, tmp_path / "c.apk"))
