"""What a page says of a build's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.core.plain_json import plain
from kz_build.device.metrics import Comparison, Memory, Sample, spreads
from kz_build.device.push_plan import Pushed
from kz_build.device.trial import Measured, Report
from kz_build.pins.load import load_project
from kz_build.report.record_facts import _device, _licences
from tests.conftest import ROOT

GOOD = b'{"components": [{"bom-ref": "x", "name": "x", "licenses": [{"license": {"id": "MIT"}}]}]}'


def test_a_bill_tells_the_licences(tmp_path: Path) -> None:
    (tmp_path / "sbom.json").write_bytes(GOOD)
    assert _licences(tmp_path / "sbom.json") == {"x": ("MIT",)}


@pytest.mark.parametrize(
    "data",
    [b"", GOOD[:40], b"[]", b'{"components": [1]}', b'{"components": [{}]}', b"[" * 100_000],
    ids=["empty", "cut", "list", "number", "no name", "deep"],
)
def test_a_damaged_bill_tells_none_and_stops_no_page(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "sbom.json").write_bytes(data)
    assert _licences(tmp_path / "sbom.json") == {}


def measured(words: int, memory: Memory | None, *worse: str) -> Measured:
    samples = (Sample(3.0, 100.0, 200.0, 20.0, 9.0, 50.0, 20, 64),)
    rows = tuple(Comparison("5 earlier runs", name, 1.0, 9.0, 800.0, 0.0, True) for name in worse)
    return Measured(
        0, samples, spreads(samples), ("none", "none"), False, rows, (), "", True, (30.0, 30.0), None, words, memory
    )  # fmt: skip


def test_the_page_says_each_figure_that_failed_the_run() -> None:
    """Also that of a longer prompt, and of memory."""
    report = Report(
        "S", False, "Maker Phone", "SM8750", "v79", "sample-0.1", "t", "m", "shell",
        Pushed("S", "/d", False, (), 0, 0, (), 0, 0, 0), (), "log.txt",
        measured(0, Memory(600.0, 900.0), "pss_peak_mb"), (measured(512, None, "ttft_ms"),),
    )  # fmt: skip
    assert len(report.failed) == 2
    figures = _device(load_project(ROOT), plain(report)).figures
    assert [one.title for one in figures if one.result == "worse"] == ["PSS at most", "first token, 512 words"]
