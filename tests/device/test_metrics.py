"""Figures of a run, of several, and against others."""

from __future__ import annotations

import json
import math

import pytest

from kz_build.device.metrics import Sample, Spread, compare, sample, spreads, without_marks

# As stats_to_json_string prints it at v1.2.0; at v1.4.1 rates stand before it and GPU figures may follow.
OBSERVED = {
    "prompt_tokens": 20, "generated_tokens": 50, "model_load_start_ms": 0, "model_load_end_ms": 0,
    "inference_start_ms": 1_795_000_004_200, "inference_end_ms": 1_795_000_006_813, "prompt_eval_end_ms": 1_795_000_004_313,
    "first_token_ms": 1_795_000_004_313, "aggregate_sampling_time_ms": 3, "SCALING_FACTOR_UNITS_PER_SECOND": 1000,
}  # fmt: skip
PROBED = {"pid": 7, "start_ms": 1_795_000_000_000.0, "end_ms": 1_795_000_007_000.0, "exit": 0, "max_rss_kb": 2_000_000}


def said(observed: object = OBSERVED, probed: object = PROBED) -> str:
    return f"I 00:00 loading\nPyTorchObserver {json.dumps(observed)}\ntext\nKzProbe {json.dumps(probed)}\n"


def test_a_run_is_timed_from_outside_where_upstreams_own_load_is_unset() -> None:
    found = sample(said())
    assert found == Sample(4.2, 113.0, 176.991, 20.0, 7.0, 2048.0, 20, 50)


def test_the_newer_form_gives_the_same_figures() -> None:
    newer = {"prefill_token_per_sec": 1.0, "decode_token_per_sec": 2.0, **OBSERVED, "gpu_total_bytes": 5}
    assert sample(said(newer)) == sample(said())


def test_figures_are_read_wherever_their_mark_stands() -> None:
    """llama_main's text may end without a newline, and logcat puts columns before a line."""
    observer = f"PyTorchObserver {json.dumps(OBSERVED)}"
    for line in (f"Paris.{observer}", f"11-22 10:00:00.000  42  42 I ExecuTorch: {observer}", f"{observer}  (end)"):
        output = f"{line}\nKzProbe {json.dumps(PROBED)}\n"
        assert sample(output) == sample(said()), line
    assert without_marks(f"It is\n\nParis.{observer}\nKzProbe {{}}\nend") == "It is\n\nParis.\nend"


def test_a_first_token_within_a_millisecond_is_a_value() -> None:
    start = OBSERVED["inference_start_ms"]
    found = sample(said({**OBSERVED, "first_token_ms": start, "prompt_eval_end_ms": start}))
    assert found and (found.ttft_ms, found.prefill_tps) == (0, None)


@pytest.mark.parametrize(
    "output",
    [said({**OBSERVED, "prompt_tokens": math.inf}), said({**OBSERVED, "generated_tokens": 10**400}), said(probed={**PROBED, "end_ms": 10**400}),
     "", "PyTorchObserver {}", said({}), said(probed={}), said([1]), "PyTorchObserver {nonsense\nKzProbe {}", said().replace("{", "")], ids=lambda output: f"{len(output)} characters",
)  # fmt: skip
def test_what_is_no_report_gives_none(output: str) -> None:
    assert sample(output) is None


def test_unset_stamps_give_no_figure_instead_of_a_wrong_one() -> None:
    unset = {**OBSERVED, "inference_start_ms": 0, "first_token_ms": 0, "prompt_eval_end_ms": 0}
    found = sample(said(unset))
    assert found and (found.load_s, found.ttft_ms, found.prefill_tps, found.decode_tps) == (None,) * 4


def one(load: float, decode: float | None) -> Sample:
    return Sample(load, 100.0, 10.0, decode, 9.0, 50.0, 1, 2)


def test_min_median_max_of_what_every_run_told() -> None:
    found = spreads([one(3, 10.0), one(1, None), one(2, 30.0)])
    assert found["load_s"] == Spread(1, 2, 3, 1)
    assert "decode_tps" not in found
    assert spreads([]) == {}


def test_worse_is_slower_or_fewer_beyond_the_tolerance_and_better_never() -> None:
    now = spreads([one(4.0, 10.0)])
    rows = {row.metric: row for row in compare(now, {"load_s": 3.0, "decode_tps": 12.0, "ttft_ms": 130.0}, "x", 15)}
    assert (rows["load_s"].worse, rows["load_s"].change) == (True, 33.3)
    assert (rows["decode_tps"].worse, rows["decode_tps"].change) == (True, -16.7)
    assert not rows["ttft_ms"].worse
    assert not any(row.worse for row in compare(now, {"load_s": 3.0, "decode_tps": 12.0}, "x", 40))
    assert compare(now, {"load_s": 0.0, "peak_mb": 0.0}, "x", 15) == ()
