"""A model in an app of the device: the commands that run it there, and the result. Plain data.

The app has the name of upstream's benchmark app (minibench). BenchmarkActivity is upstream's: it takes every language model for a
text model, runs `forward` first and loads the model twice. ProbeActivity is kz's (kz_build/device/probe): any runner, one load.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from shlex import quote
from typing import Any, NamedTuple

from kz_build.device.metrics import Memory, Sample
from kz_build.formats.pte_types import QNN, Pte

PACKAGE = "org.pytorch.minibench"
ZYGOTE = "Zygote-forked app"
EMULATED = "EMULATED: no app ran"
NONE = "no app ran"
TEXT, QNN_LLAMA = 1, 4
"""Model types of LlmModule (MODEL_TYPE_TEXT in LlmModule, MODEL_TYPE_QNN_LLAMA in jni_layer_llama.cpp)."""
_ITERATIONS = 2
"""The fewest of `forward` that upstream's trimmed mean survives from 1.4 on: with fewer it is NaN, which Gson refuses."""
_APP_CONTEXT = re.compile(r"u:r:(untrusted|platform|priv|isolated)?_?app")


class Activity(NamedTuple):
    """An activity that measures, and its result file in the app's folder."""

    name: str
    result: str


PROBE = Activity("kz.ProbeActivity", "files/kz_probe.json")
BENCHMARK = Activity(f"{PACKAGE}.BenchmarkActivity", "files/benchmark_results.json")


@dataclass(frozen=True)
class AppRequest:
    """What the app must do. Paths are the device's."""

    model: str
    tokenizer: str
    prompt: str
    model_type: int = TEXT
    seq_len: int = 128
    memory: bool = False
    """Measure it, in a run that is not timed."""


@dataclass(frozen=True)
class AppResult:
    """What the app reports. `load_status` is None if it did not load the model; `context` is the SELinux context of its process.

    The load is timed from outside: upstream's own statistics of it are unset after an explicit load.
    """

    load_status: int | None
    sample: Sample
    text: str = ""
    error: str = ""
    context: str = ""
    memory: Memory | None = None


def model_type(pte: Pte) -> int:
    """Return the runner that a program needs: QNN's for upstream's QNN decoders, which have no `forward`."""
    names = {method.name for method in pte.methods}
    backends = {delegate.backend for method in pte.methods for delegate in method.delegates}
    return QNN_LLAMA if QNN in backends and "kv_forward" in names else TEXT


def start_command(activity: Activity, request: AppRequest, run: str) -> str:
    """Return the command that restarts the app with a request, quoted for the device's shell."""
    texts = {"run": run, "model": request.model, "tokenizer": request.tokenizer, "prompt": request.prompt}
    numbers = {"model_type": request.model_type, "seq_len": request.seq_len, "memory": int(request.memory)}
    if activity is BENCHMARK:
        texts = {
            "model_dir": request.model.rpartition("/")[0],
            "tokenizer_path": request.tokenizer,
            "prompt": request.prompt,
        }
        numbers = {"num_iter": _ITERATIONS, "num_warm_up_iter": 0}
    words = ["am", "start", "-W", "-S", "-n", f"{PACKAGE}/{activity.name}"]
    for name, text in texts.items():
        words += ["--es", name, text]
    for name, number in numbers.items():
        words += ["--ei", name, str(number)]
    return " ".join(map(quote, [*words, "--ef", "temperature", "0"]))


def poll_command(activity: Activity) -> str:
    """Return the command that prints the result, then the app's process and its parent's name."""
    return (
        f"run-as {PACKAGE} cat {activity.result} 2>/dev/null; echo; echo @@; "
        f"p=$(pidof {PACKAGE}) && echo $p && ps -o NAME= -p $(ps -o PPID= -p $p); true"
    )


class State(NamedTuple):
    """A parsed poll: the result, None until it is complete, the process (0: it is gone), and its parent's name."""

    result: Any
    pid: int
    parent: str


def parse_state(data: str) -> State:
    """Parse the output of `poll_command`."""
    text, _, process = f"\n{data}".rpartition("\n@@\n")
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        result = None
    words = process.split()
    alive = bool(words) and re.fullmatch(r"\d{1,9}", words[0]) is not None
    return State(result, int(words[0]) if alive else 0, words[1] if alive and len(words) > 1 else "")


def process_kind(parent: str, context: str, emulated: bool) -> str:
    """Name the kind of process for reports, by its parent's name, or by its SELinux context if that is unknown."""
    if emulated:
        return EMULATED
    if parent.startswith("zygote") or (not parent and _APP_CONTEXT.match(context)):
        return ZYGOTE
    return f"process of {parent or 'a parent that was not seen'}"


def parse_result(activity: Activity, result: Any, run: str) -> AppResult:
    """Parse an activity's result. Raises ValueError for one that it cannot have written in that run."""
    try:
        if activity is PROBE and result.get("run") != run:
            raise ValueError(f"the result of another run: {result.get('run')}")
        return _benchmarked(result) if activity is BENCHMARK else _probed(result)
    except (TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(f"no result of {activity.name}: {type(error).__name__} {error}") from error


def _probed(data: dict[str, Any]) -> AppResult:
    stats = data.get("stats") or {}
    prompt, generated = int(stats.get("prompt_tokens", 0)), int(stats.get("generated_tokens", 0))
    begin, filled, end = (stats.get(f"{name}_ms") for name in ("inference_start", "prompt_eval_end", "inference_end"))
    # From the runner's statistics, as a shell's runs have it; around it where there are none.
    first = stats["first_token_ms"] - begin if begin and stats.get("first_token_ms") else data.get("first_token_ms")
    sample = Sample(
        load_s=_scaled(data.get("load_ms"), 1e-3),
        ttft_ms=_scaled(first, 1),
        prefill_tps=_rate(prompt, begin, filled),
        decode_tps=_rate(generated, filled, end),
        total_s=_scaled(data["load_ms"] + data["total_ms"] if "total_ms" in data else None, 1e-3),
        peak_mb=_scaled(data.get("peak_rss_kb") or None, 1024e-6),
        prompt_tokens=prompt,
        generated_tokens=generated,
    )
    text, error, context = (str(data.get(name, "")) for name in ("text", "error", "context"))
    loaded, peak, released = (data.get(f"pss_{when}_kb") or None for when in ("loaded", "peak", "released"))
    memory = Memory(_scaled(loaded, 1024e-6), round(peak * 1024e-6, 6), _scaled(released, 1024e-6)) if peak else None
    return AppResult(data.get("load_status"), sample, text, error, context, memory)


def _benchmarked(data: list[dict[str, Any]]) -> AppResult:
    """Parse upstream's list of metrics (BenchmarkMetric): those of the language model come after those of `forward`."""
    values = {str(one["metric"]): float(one["actualValue"]) for one in data}
    load = values.get("llm_model_load_time(ms)", values.get("model_load_time(ms)"))
    generate = values.get("generate_time(ms)")
    sample = Sample(
        load_s=_scaled(load, 1e-3),
        ttft_ms=None,
        prefill_tps=None,
        decode_tps=values.get("token_per_sec") or None,  # 0 without statistics
        total_s=_scaled(None if load is None or generate is None else load + generate, 1e-3),
        peak_mb=None,
        prompt_tokens=0,
        generated_tokens=0,
    )
    return AppResult(int(values["load_status"]), sample)


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value) * by, 6)


def _rate(tokens: int, begin: int | None, end: int | None) -> float | None:
    """Return tokens a second; None without statistics, or if no time passed."""
    if not tokens or begin is None or end is None or end <= begin:
        return None
    return round(tokens * 1000 / (end - begin), 2)
