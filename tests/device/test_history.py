"""Series of runs: what is kept, what is compared, and what goes on where it stopped."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.device import history
from kz_build.device.history import Conditions, Series, comparable, kept_series, last_figures, resume
from kz_build.device.metrics import Memory, Sample, compare_history, retention, spreads, unsteady

COLD = Conditions("kz/phone:16", "shell", True, True, "model", "libraries", "command")


def runs(*speeds: float) -> list[Sample]:
    return [Sample(3.0, 100.0, 200.0, speed, 9.0, 50.0, 20, 64) for speed in speeds]


def noisy(seed: int, count: int = 5, middle: float = 20.0) -> list[Sample]:
    """Runs that differ by 2 %, as a phone's with fixed clocks."""
    source = random.Random(seed)
    return runs(*(round(source.gauss(middle, middle * 0.02), 3) for _ in range(count)))


def throttled(count: int) -> list[Sample]:
    """Runs of a phone that loses a third of its speed: 1.4-fold from its fastest to its slowest run."""
    return runs(*(20.0 / (1 + 0.4 * at / (count - 1)) for at in range(count)))


def kept(path: Path, samples: Sequence[Sample], conditions: Conditions = COLD, *, fresh: bool = False) -> None:
    series = Series(path, conditions)
    for sample in samples:
        series.add(sample)
    series.end("", fresh=fresh)


@pytest.mark.parametrize("count", [3, 4, 5, 10, 50])
def test_a_series_with_the_spread_of_throttling_is_no_baseline(count: int) -> None:
    why = unsteady(throttled(count))
    assert why.endswith("so it is no baseline"), why
    assert ("decode fell 1." in why and "tok/s" in why) == (count > 3) and ("scatters 1.40-fold" in why) == (count == 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_series_is_one(seed: int) -> None:
    assert unsteady(noisy(seed, 5 + seed)) == ""


def test_a_device_that_throttles_in_its_last_runs_or_gets_faster_is_seen() -> None:
    assert "fell 1.17-fold" in unsteady(runs(20, 20, 20, 20, 14.28))
    assert "rose 1.43-fold" in unsteady(runs(14, 14, 14, 20, 20))
    assert unsteady(runs(20, 18.5, 20, 20, 19)) == unsteady(runs(20)) == unsteady([]) == ""


def test_retention_is_of_the_last_fifth_against_the_first() -> None:
    assert retention(runs(20, 20, 18, 16, 15, 15, 15, 15, 14, 14)) == 0.7
    assert retention(runs(20, 20, 20, 20)) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_change_counts_only_outside_the_figures_own_noise(seed: int) -> None:
    earlier = noisy(seed, 15)
    (same,) = [row for row in compare_history(spreads(noisy(seed + 100)), earlier, 1) if row.metric == "decode_tps"]
    assert not same.worse and same.noise and not same.changed, same
    (slow,) = [row for row in compare_history(spreads(noisy(seed, 5, 15.0)), earlier, 15) if row.metric == "decode_tps"]
    assert slow.worse and slow.changed and slow.against == "15 earlier runs"
    (fast,) = [row for row in compare_history(spreads(noisy(seed, 5, 30.0)), earlier, 15) if row.metric == "decode_tps"]
    assert fast.changed and not fast.worse
    wide = runs(*(20 + at for at in range(-8, 9)))  # a figure that scatters by itself
    (lost,) = [row for row in compare_history(spreads(runs(*[16] * 5)), wide, 15) if row.metric == "decode_tps"]
    assert lost.change == -20 and not lost.worse
    assert compare_history(spreads(noisy(seed)), earlier[:4], 15) == (), "four runs tell no noise"


def test_the_last_kept_figures_of_each_thing_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    ours = replace(COLD, target="t", subject="m.pte")
    kept(path, runs(20, 22, 24), ours)
    kept(path, runs(30, 32, 34), replace(ours, libraries="of another build"))
    kept(path, runs(10), replace(ours, process="app"))
    kept(path, runs(1), replace(ours, words=500))
    kept(path, runs(1))  # of a kz that did not write what was measured
    worse = Series(path, ours)
    worse.add(runs(5)[0])
    worse.end("it was worse")
    figures = [(one["subject"], one["process"], one["spreads"]) for one in last_figures(path).values()]
    assert [(*of, by["decode_tps"]["median"]) for *of, by in figures] == [  # type: ignore[index]
        ("m.pte", "shell", 32),
        ("m.pte", "app", 10),
    ]


def test_kept_runs_of_the_same_conditions_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "out/runs.jsonl"
    kept(path, noisy(1))
    kept(path, noisy(2), replace(COLD, libraries="of another build"))
    refused = Series(path, COLD)
    for sample in throttled(5):
        refused.add(sample)
    refused.end(unsteady(refused.samples))
    now = resume(path, replace(COLD, libraries="of a third build"))
    now.samples += noisy(3)
    assert comparable(kept_series(path), now) == ((*noisy(1), *noisy(2)), (), "")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"fingerprint": "kz/phone:17"}, "another Android build"),
        ({"fixed_performance": False}, "another performance mode"),
        ({"cool": False}, "another temperature at the start"),
        ({"model": "exported again"}, "another .pte"),
        ({"process": "app"}, "another kind of process"),
    ],
)
def test_other_conditions_are_named_and_not_compared(tmp_path: Path, other: dict[str, object], said: str) -> None:
    path = tmp_path / "runs.jsonl"
    kept(path, noisy(1), replace(COLD, **other))  # type: ignore[arg-type]
    now = Series(path, COLD, noisy(2))
    assert comparable(kept_series(path), now) == ((), (), f"not compared with the last series: {said}")


def test_another_number_of_tokens_is_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    kept(path, [replace(one, prompt_tokens=7, generated_tokens=at) for at, one in enumerate(noisy(1), 60)])
    words = "7 tokens of the prompt then, 20 now, 60 to 64 tokens generated then, 64 now"
    assert comparable(kept_series(path), Series(path, COLD, noisy(2))).differs.endswith(words)
    other = Series(path, replace(COLD, command="of another model"), noisy(2))
    assert comparable(kept_series(path), other) == ((), (), ""), "that is not the same thing"


def test_memory_is_compared_with_that_of_earlier_series(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for seed in range(6):
        if seed:
            earlier = comparable(kept_series(path), Series(path, COLD, noisy(seed))).memory
            assert [one.pss_peak_mb for one in earlier] == [600.0 + at for at in range(seed)]
        series = Series(path, COLD)
        for sample in noisy(seed):
            series.add(sample)
        series.end("", memory=Memory(None, 600.0 + seed, 50.0))
    earlier = comparable(kept_series(path), Series(path, COLD, noisy(9))).memory
    assert compare_history(spreads([Memory(None, 800, 50)]), earlier[:4], 15) == (), "four tell no noise"
    peak, released = compare_history(spreads([Memory(None, 800, 50)]), earlier, 15)
    assert (peak.metric, peak.worse, released.metric, released.worse) == ("pss_peak_mb", True, "pss_released_mb", False)


def test_a_change_that_was_accepted_begins_a_new_history(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    kept(path, noisy(1))
    kept(path, noisy(2, middle=15.0), fresh=True)
    assert comparable(kept_series(path), Series(path, COLD, noisy(3)))[0] == tuple(noisy(2, middle=15.0))


def test_a_killed_series_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    begun = Series(path, COLD)
    for sample in noisy(1, 3):
        begun.add(sample, 31.5)
    with path.open("a") as file:
        file.write('{"series": "' + begun.name)  # the machine went down within a line
    again = resume(path, COLD)
    assert (again.samples, again.resumed) == (noisy(1, 3), 3)
    assert resume(path, replace(COLD, libraries="of another build")).samples == []
    again.add(noisy(1, 4)[3])
    again.end("")
    assert resume(path, COLD).samples == [] and kept_series(path)[0].samples == tuple(noisy(1, 4))
    lines = path.read_text().splitlines()
    assert len(lines) == 6 and json.loads(lines[0])["battery_celsius"] == 31.5 and json.loads(lines[4])["run"] == 4


def test_an_unfinished_series_of_another_day_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    Series(path, COLD).add(noisy(1)[0])
    monkeypatch.setattr(history, "STALE_SECONDS", -1)
    assert resume(path, COLD).samples == []


def test_the_runs_of_an_abandoned_series_are_not_those_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"
    old = Series(path, COLD)
    with monkeypatch.context() as last_winter:
        winter = time.gmtime(0)
        last_winter.setattr(time, "gmtime", lambda: winter)
        for sample in noisy(1, 3, middle=5.0):
            old.add(sample)
    begun = resume(path, COLD)
    assert begun.samples == []
    begun.add(noisy(2)[0])
    again = resume(path, COLD)  # killed a minute ago
    assert again.samples == noisy(2)[:1]
    for sample in noisy(2)[1:]:
        again.add(sample)
    again.end("")
    assert [one.samples for one in kept_series(path)] == [tuple(noisy(2))]


def test_lines_of_others_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('[]\n{}\n{"series": 1, "sample": 2}\n{"series": "x", "sample": {"load": 1}}\nnonsense\n\xff\n')
    kept(path, noisy(1))
    assert len(kept_series(path)) == 1 and kept_series(tmp_path / "none.jsonl") == ()
