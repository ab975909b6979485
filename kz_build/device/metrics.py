"""Figures of a run on a device, of several runs, and comparisons of them. Plain data.

Upstream's runners print one line `PyTorchObserver {json}` a prompt (extension/llm/runner/stats.h, v1.2.0 to v1.4.1), with the
real-time clock's milliseconds. Its time of loading is unset after an explicit load, so kz measures that from outside: from
the process's start to the start of inference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

OBSERVER, PROBE = "PyTorchObserver ", "KzProbe "
_JSON = json.JSONDecoder()


class Metric(NamedTuple):
    """One figure: its unit, what people call it, and whether less of it is better."""

    name: str
    title: str
    unit: str
    less: bool


METRICS = (
    Metric("load_s", "model load", "s", True),
    Metric("ttft_ms", "first token", "ms", True),
    Metric("prefill_tps", "prefill", "tok/s", False),
    Metric("decode_tps", "decode", "tok/s", False),
    Metric("total_s", "total", "s", True),
    Metric("peak_mb", "peak RSS", "MB", True),
)


MEMORY = (
    Metric("pss_loaded_mb", "PSS with the model loaded", "MB", True),
    Metric("pss_peak_mb", "PSS at most", "MB", True),
    Metric("pss_released_mb", "PSS after its release", "MB", True),
)


@dataclass(frozen=True)
class Memory:
    """Proportional set size of a process, in a run of its own that is not timed, in 10^6 bytes; None for an unknown figure. A runner
    in a shell never releases its model: its process ends."""

    pss_loaded_mb: float | None
    pss_peak_mb: float
    pss_released_mb: float | None = None


@dataclass(frozen=True)
class Sample:
    """One run in a process of its own; None for an unknown figure. `peak_mb` in 10^6 bytes."""

    load_s: float | None
    ttft_ms: float | None
    prefill_tps: float | None
    decode_tps: float | None
    total_s: float | None
    peak_mb: float | None
    prompt_tokens: int
    generated_tokens: int


class Spread(NamedTuple):
    """A figure over several runs. `mad` is the median absolute deviation from the median."""

    min: float
    median: float
    max: float
    mad: float


@dataclass(frozen=True)
class Comparison:
    """A figure compared with an earlier one. `change` in percent, positive if it is more; `noise` is how many percent earlier runs
    differ without a cause, None if that is unknown; `worse` beyond both noise and tolerance."""

    against: str
    metric: str
    before: float
    now: float
    change: float
    noise: float | None
    worse: bool

    @property
    def changed(self) -> bool:
        """Whether it is another level, and not noise: later runs are compared with this one."""
        return self.noise is not None and abs(self.change) > max(self.noise, STEP)


def lines_of(output: str, mark: str) -> list[dict[str, Any]]:
    """Parse the JSON object behind a mark, wherever the mark is in a line: behind the model's text, or behind logcat's columns.

    What is no JSON object is skipped.
    """
    objects = []
    for line in output.splitlines():
        for behind in line.split(mark)[1:]:
            try:
                value, _ = _JSON.raw_decode(behind)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                objects.append(value)
    return objects


def without_marks(output: str) -> str:
    """Return the output without the figures in it: of a line with a mark, what stands before the mark."""
    lines = []
    for line in output.splitlines():
        head = line.split(OBSERVER)[0].split(PROBE)[0]
        if head or head == line:
            lines.append(head)
    return "\n".join(lines)


def sample(output: str) -> Sample | None:
    """Read a run's figures from the output of kz_probe and the runner; None if one of them is absent or invalid."""
    observed, probed = lines_of(output, OBSERVER), lines_of(output, PROBE)
    if not observed or not probed:
        return None
    runner, probe = observed[-1], probed[-1]
    try:
        start, first, filled, end = (
            float(runner[f"{key}_ms"]) for key in ("inference_start", "first_token", "prompt_eval_end", "inference_end")
        )
        began, ended, peak = (float(probe[key]) for key in ("start_ms", "end_ms", "max_rss_kb"))
        prompt, generated = int(float(runner["prompt_tokens"])), int(float(runner["generated_tokens"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return Sample(
        load_s=_seconds(start - began),
        # The runners' clock has milliseconds: 0 is a first token within one, if both stamps are set.
        ttft_ms=round(first - start, 3) if 0 < start <= first < math.inf else None,
        prefill_tps=_rate(prompt, filled - start),
        decode_tps=_rate(generated, end - filled) if filled > 0 else None,
        total_s=_seconds(ended - began),
        peak_mb=_positive(peak * 1024 / 1e6),
        prompt_tokens=prompt,
        generated_tokens=generated,
    )


def figures_text(run: Sample) -> str:
    return ", ".join(f"{m.title} {v:g} {m.unit}" for m in METRICS if (v := getattr(run, m.name)) is not None)


def _positive(value: float) -> float | None:
    return round(value, 3) if value > 0 and math.isfinite(value) else None


def _seconds(milliseconds: float) -> float | None:
    return _positive(milliseconds / 1000)


def _rate(tokens: int, milliseconds: float) -> float | None:
    return _positive(tokens / milliseconds * 1000) if milliseconds > 0 else None


def spreads(samples: Sequence[Sample | Memory]) -> dict[str, Spread]:
    """Return the spread of each figure that every run has."""
    by_name = {}
    for metric in (*METRICS, *MEMORY):
        values = [value for one in samples if (value := getattr(one, metric.name, None)) is not None]
        if values and len(values) == len(samples):
            middle = median(values)
            away = median(abs(value - middle) for value in values)
            by_name[metric.name] = Spread(min(values), round(middle, 3), max(values), round(away, 3))
    return by_name


ENOUGH = 5
"""Runs that tell a figure's noise; with fewer, nothing is compared."""
DEVIATIONS = 3 * 1.4826
"""How many MADs from the median count as a change: three standard deviations, were the noise normal. Leys and others, "Detecting
outliers: Do not use standard deviation around the mean, use absolute deviation around the median", J. Exp. Soc. Psychol. 49 (2013)."""
STEP = 5.0
"""Percent below which a change starts no new history, however small the noise."""
DRIFT, SCATTER = 1.1, 1.4
"""What a series may not reach: of its halves' speeds the ratio, and of its fastest and slowest run. Clocks that are not fixed make
9 to 51 % between two runs of the same code (apps/benchmarks/BENCHMARK_SPEC.md of react-native-executorch), throttling 1.4-fold."""


def compare(
    now: Mapping[str, Spread], before: Mapping[str, float], against: str, tolerance: float
) -> tuple[Comparison, ...]:
    """Compare medians with published figures; `tolerance` in percent."""
    return _rows(now, {name: (value, None) for name, value in before.items()}, against, tolerance)


def compare_history(
    now: Mapping[str, Spread], earlier: Sequence[Sample | Memory], tolerance: float
) -> tuple[Comparison, ...]:
    """Compare medians with those of earlier runs under the same conditions: worse is what exceeds their own noise and the tolerance."""
    if len(earlier) < ENOUGH:
        return ()
    before = {
        name: (spread.median, round(DEVIATIONS * spread.mad / spread.median * 100, 1))
        for name, spread in spreads(earlier).items()
        if spread.median
    }
    return _rows(now, before, f"{len(earlier)} earlier runs", tolerance)


def _rows(
    now: Mapping[str, Spread], before: Mapping[str, tuple[float, float | None]], against: str, tolerance: float
) -> tuple[Comparison, ...]:
    rows = []
    for metric in (*METRICS, *MEMORY):
        then, noise = before.get(metric.name, (0, None))
        if then and metric.name in now:
            value = now[metric.name].median
            change = round((value - then) / then * 100, 1)
            worse = (change if metric.less else -change) > max(tolerance, noise or 0)
            rows.append(Comparison(against, metric.name, then, value, change, noise, worse))
    return tuple(rows)


def unsteady(samples: Sequence[Sample]) -> str:
    """Return why a series is no baseline, '' if it may be one: its decode speed drifts, as it does when a device throttles, or scatters."""
    speeds = [one.decode_tps for one in samples if one.decode_tps]
    if len(speeds) < 2 or len(speeds) < len(samples):
        return ""
    half = len(speeds) // 2
    first, last = median(speeds[:half]), median(speeds[-half:])
    fold = max(first, last) / min(first, last)
    if half > 1 and fold >= DRIFT:
        return (
            f"decode {'fell' if last < first else 'rose'} {fold:.2f}-fold within the series, from {first:,.2f} to {last:,.2f} tok/s: "
            "its runs were not made under the same conditions, so it is no baseline"
        )
    if (scatter := max(speeds) / min(speeds)) >= SCATTER:
        return f"decode scatters {scatter:.2f}-fold, from {min(speeds):,.2f} to {max(speeds):,.2f} tok/s, so it is no baseline"
    return ""


def retention(samples: Sequence[Sample]) -> float | None:
    """Return how much of its speed a device keeps: decode of the last fifth of the runs against the first."""
    speeds = [one.decode_tps for one in samples if one.decode_tps]
    fifth = len(speeds) // 5
    return round(median(speeds[-fifth:]) / median(speeds[:fifth]), 3) if fifth else None
