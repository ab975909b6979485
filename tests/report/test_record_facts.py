"""What a page says of a build's files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kz_build.core.check import Check, Status
from kz_build.core.plain_json import plain
from kz_build.core.stage_record import StageRecord
from kz_build.device.metrics import Comparison, Memory, Sample, spreads
from kz_build.device.push_plan import Pushed
from kz_build.device.trial import Measured, Report
from kz_build.pins.load import load_project
from kz_build.pins.project import RECORD
from kz_build.report.record_facts import _device, _licences, device_facts
from kz_build.report.report import report
from kz_build.report.text import table
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


def reported(process: str, checks: tuple[Check, ...], *series: Measured) -> Report:
    pushed = Pushed("S", "/d", False, (), 0, 0, (), 0, 0, 0)
    run, *lengths = series or (None,)
    return Report(
        "S", False, "Maker Phone", "SM8750", "v79", "sample-0.1", "t", "m", process, pushed, checks, "log.txt", run, tuple(lengths)
    )  # fmt: skip


def test_the_page_says_each_figure_that_failed_the_run() -> None:
    """Also that of a longer prompt, and of memory."""
    told = reported(
        "shell", (), measured(0, Memory(600.0, 900.0), "pss_peak_mb"), measured(512, None, "ttft_ms")
    )  # fmt: skip
    assert len(told.failed) == 2
    figures = _device(load_project(ROOT), plain(told)).figures
    assert [one.title for one in figures if one.result == "worse"] == ["PSS at most", "first token, 512 words"]


def test_the_last_report_of_the_app_on_a_device_is_in_all_views(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/sample", tmp_path / "sample", ignore=shutil.ignore_patterns("out", "dist"))
    project = load_project(tmp_path / "sample")
    line = project.pins.default
    for folder, one in (
        ((), reported("shell", (Check("S", "runner", Status.PASS, "12 tokens"), Check("S", "t", Status.WARN, "odd")))),
        (("in-app",), reported("app", (Check("S", "load", Status.FAIL, "it died"),))),
    ):
        StageRecord(project.out("device", line, "S", *folder) / RECORD, "key", facts={"report": plain(one)}).save()
    shell, app = device_facts(project, line)
    assert (shell.process, app.process, app.checks[0].evidence) == ("shell", "app", "it died")
    data = report(project, line)
    assert data["device"]["S"]["report"]["in_app"]["checks"][0]["evidence"] == "it died"  # type: ignore[index]
    assert table(data).splitlines()[-2:] == [
        "device S (Maker Phone) t m: 1 PASS, 1 WARN", "device S (Maker Phone) t m in an app: 1 FAIL",
    ]  # fmt: skip
