"""A model in an app of the device: how it is asked to load and generate, and what it leaves. Plain data.

The app is upstream's benchmark app (minibench). BenchmarkActivity is its own: it takes every language model for a text model,
runs `forward` first and loads the model twice. ProbeActivity is the one that kz adds (kz_build/device/probe): any runner, one load.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from shlex import quote
from typing import Any, NamedTuple

from kz_build.device.metrics import Sample
from kz_build.formats.pte_types import QNN, Pte

PACKAGE = "org.pytorch.minibench"
ZYGOTE = "Zygote-forked app"
EMULATED = "EMULATED: no app ran"
NONE = "no app ran"
TEXT, QNN_LLAMA = 1, 4
"""Model types of LlmModule (MODEL_TYPE_TEXT in LlmModule, MODEL_TYPE_QNN_LLAMA in jni_layer_llama.cpp)."""
_ITERATIONS = 2
"""The fewest of `forward` that upstream's trimmed mean survives from 1.4 on: of fewer it is no number, which Gson refuses."""
_APP_CONTEXT = re.compile(r"u:r:(untrusted|platform|priv|isolated)?_?app")


class Way(NamedTuple):
    """An activity that measures, and the file that it leaves in the app's folder."""

    activity: str
    result: str


PROBE = Way("kz.ProbeActivity", "files/kz_probe.json")
BENCHMARK = Way(f"{PACKAGE}.BenchmarkActivity", "files/benchmark_results.json")


@dataclass(frozen=True)
class Asked:
    """What the app shall do. Paths are the device's."""

    model: str
    tokenizer: str
    prompt: str
    model_type: int = TEXT
    seq_len: int = 128
    temperature: float = 0.0


@dataclass(frozen=True)
class Seen:
    """What the app saw. `load_status` is None where it did not come so far; `context` is the SELinux context of its process.

    The load is timed around it: upstream's own statistics of it are unset after an explicit one.
    """

    load_status: int | None
    sample: Sample
    text: str = ""
    error: str = ""
    context: str = ""


def model_type(pte: Pte) -> int:
    """The runner that a program needs: QNN's for upstream's QNN decoders, which have no `forward`."""
    names = {method.name for method in pte.methods}
    backends = {delegate.backend for method in pte.methods for delegate in method.delegates}
    return QNN_LLAMA if QNN in backends and "kv_forward" in names else TEXT


def start(way: Way, asked: Asked, run: str) -> str:
    """The command line that starts the app anew with it; every word quoted for the device's shell."""
    texts = {"run": run, "model": asked.model, "tokenizer": asked.tokenizer, "prompt": asked.prompt}
    numbers = {"model_type": asked.model_type, "seq_len": asked.seq_len}
    if way is BENCHMARK:
        texts = {
            "model_dir": asked.model.rpartition("/")[0],
            "tokenizer_path": asked.tokenizer,
            "prompt": asked.prompt,
        }
        numbers = {"num_iter": _ITERATIONS, "num_warm_up_iter": 0}
    words = ["am", "start", "-W", "-S", "-n", f"{PACKAGE}/{way.activity}"]
    for name, text in texts.items():
        words += ["--es", name, text]
    for name, number in numbers.items():
        words += ["--ei", name, str(number)]
    return " ".join(map(quote, [*words, "--ef", "temperature", f"{asked.temperature:g}"]))


def poll(way: Way) -> str:
    """The command line that asks for the result, and then for the app's process and its parent's name."""
    return (
        f"run-as {PACKAGE} cat {way.result} 2>/dev/null; echo; echo @@; "
        f"p=$(pidof {PACKAGE}) && echo $p && ps -o NAME= -p $(ps -o PPID= -p $p); true"
    )


class State(NamedTuple):
    """What a poll said: the result, None as long as there is no whole one, the process (0: it is gone), and its parent's name."""

    result: Any
    pid: int
    parent: str


def state(said: str) -> State:
    """The answer to `poll`."""
    text, _, process = f"\n{said}".rpartition("\n@@\n")
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    words = process.split()
    alive = bool(words) and words[0].isdecimal()
    return State(result, int(words[0]) if alive else 0, words[1] if alive and len(words) > 1 else "")


def process_kind(parent: str, context: str, emulated: bool) -> str:
    """What kind of process it was, as reports name it: by its parent's name, or by its SELinux context where nobody saw that."""
    if emulated:
        return EMULATED
    if parent.startswith("zygote") or (not parent and _APP_CONTEXT.match(context)):
        return ZYGOTE
    return f"process of {parent or 'a parent that was not seen'}"


def seen(way: Way, result: Any, run: str) -> Seen:
    """What an activity's result says. Raises ValueError for one that it cannot have written in that run."""
    try:
        if way is PROBE and result.get("run") != run:
            raise ValueError(f"the result of another run: {result.get('run')}")
        return _benchmarked(result) if way is BENCHMARK else _probed(result)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no result of {way.activity}: {type(error).__name__} {error}") from error


def _probed(said: dict[str, Any]) -> Seen:
    stats = said.get("stats") or {}
    prompt, generated = int(stats.get("prompt_tokens", 0)), int(stats.get("generated_tokens", 0))
    begin, filled, end = (stats.get(f"{name}_ms") for name in ("inference_start", "prompt_eval_end", "inference_end"))
    # From the runner's statistics, as a shell's runs have it; around it where there are none.
    first = stats["first_token_ms"] - begin if begin and stats.get("first_token_ms") else said.get("first_token_ms")
    sample = Sample(
        load_s=_scaled(said.get("load_ms"), 1e-3),
        ttft_ms=_scaled(first, 1),
        prefill_tps=_rate(prompt, begin, filled),
        decode_tps=_rate(generated, filled, end),
        total_s=_scaled(said["load_ms"] + said["total_ms"] if "total_ms" in said else None, 1e-3),
        peak_mb=_scaled(said.get("peak_rss_kb") or None, 1024e-6),
        prompt_tokens=prompt,
        generated_tokens=generated,
    )
    words = (str(said.get(name, "")) for name in ("text", "error", "context"))
    return Seen(said.get("load_status"), sample, *words)


def _benchmarked(said: list[dict[str, Any]]) -> Seen:
    """Upstream's list of metrics (BenchmarkMetric): those of the language model come after those of `forward`."""
    values = {str(one["metric"]): float(one["actualValue"]) for one in said}
    load = values.get("llm_model_load_time(ms)", values.get("model_load_time(ms)"))
    generate = values.get("generate_time(ms)")
    sample = Sample(
        load_s=_scaled(load, 1e-3),
        ttft_ms=None,
        prefill_tps=None,
        decode_tps=values.get("token_per_sec") or None,  # 0 where no statistics came
        total_s=_scaled(None if load is None or generate is None else load + generate, 1e-3),
        peak_mb=None,
        prompt_tokens=0,
        generated_tokens=0,
    )
    return Seen(int(values["load_status"]), sample)


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else round(float(value) * by, 6)


def _rate(tokens: int, begin: int | None, end: int | None) -> float | None:
    """Tokens a second; None where the statistics do not say it, or nothing went by."""
    if not tokens or begin is None or end is None or end <= begin:
        return None
    return round(tokens * 1000 / (end - begin), 2)
