"""What reports remember: a line for each report with other facts, and what changed between the last two."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.report.changes import changes
from kz_build.report.diff import Kind
from kz_build.report.facts import Facts
from kz_build.report.history import LINES, History, read, remember
from kz_build.report.html import page
from kz_build.report.trends import build_trend, size_trends
from tests.report.page_facts import facts


@pytest.fixture
def project(sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Project:
    monkeypatch.setenv("KZ_CACHE", str(tmp_path / "store"))
    return load_project(sample)


def sized(size: int) -> Facts:
    """Facts with a library of another size, from another build."""
    of = facts()
    (build,) = of.builds
    file = build.files[0]._replace(sections=((".text", size), (".data", 100)))
    return replace(of, builds=(build._replace(files=(file,), key=f"{size:064}", seconds=float(size)),))


def test_only_other_facts_add_a_line(project: Project) -> None:
    first = remember(project, facts())
    data = (project.out("report") / LINES).read_bytes()
    assert len(first.runs) == 1 and first.previous is None
    assert remember(project, facts()) == first and (project.out("report") / LINES).read_bytes() == data
    second = remember(project, sized(500))
    assert len(second.runs) == 2 and second.previous == first.runs[0]
    assert remember(project, sized(500)) == second
    assert len(data) < 2000, "lines are small"


def test_a_damaged_line_is_left_out_and_the_file_stays_bounded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kz_build.report.history.MOST_RUNS", 4)
    for size in range(7):
        history = remember(project, sized(size))
    path = project.out("report") / LINES
    assert len(history.runs) == len(path.read_bytes().splitlines()) == 4
    lines = path.read_bytes().splitlines()
    hostile = [b"[]", b"{", b'{"facts": 1}', b"\xff", b"[" * 5000, lines[0].replace(b'"builds":{', b'"builds":{"x":1,')]
    path.write_bytes(b"\n".join([*hostile, *lines[-2:]]))
    assert len(read(path.parent)) == 2
    path.write_bytes(b"x" * (1 << 20))
    assert read(path.parent) == ()
    (project.out("report") / "reports.json").write_text('{"before": [], "now": 7}')
    assert remember(project, sized(3)).before == {}


def kinds(now: Facts, history: History) -> list[tuple[Kind, str]]:
    return [(row.kind, row.what) for row in changes(now, history)]


def test_a_patch_breaks_stays_broken_and_holds_again(project: Project) -> None:
    where = "l1 up 0001-x on main"
    assert kinds(facts(state="applies"), remember(project, facts(state="applies"))) == []
    assert kinds(facts(), remember(project, facts())) == [(Kind.WORSE, where)]
    (row,) = changes(facts(), remember(project, facts()))
    assert "since cccccccccc 2026-03-10" in row.evidence and row.next == "kz history --line l1 --why"
    assert kinds(facts("other"), remember(project, facts("other"))) == [(Kind.STILL, where)]
    assert kinds(facts(state="moved"), remember(project, facts(state="moved"))) == [(Kind.FIXED, where)]
    assert kinds(facts(state="unknown"), remember(project, facts(state="unknown"))) == []


def test_the_first_report_shows_what_is_broken(project: Project) -> None:
    assert kinds(facts(), remember(project, facts())) == [(Kind.STILL, "l1 up 0001-x on main")]


def test_a_check_that_fails_now_is_newly_failing(project: Project) -> None:
    def with_check(status: str) -> Facts:
        check = {"file": "liba.so", "check": "elf", "status": status, "evidence": "text", "required": True}
        report = {
            "kz": "0",
            "line": "l1",
            "pins": {},
            "overrides": [],
            "single_source": [],
            "audit": {"t": {"checks": [check]}},
        }
        return replace(facts(state="applies"), reports={"l1": report})

    remember(project, with_check("PASS"))
    assert kinds(with_check("FAIL"), remember(project, with_check("FAIL"))) == [(Kind.WORSE, "l1 audit t liba.so: elf")]
    kept = json.loads((project.out("report") / "reports.json").read_text())
    kept["before"]["l1"] = {"kz": 1}
    assert kinds(with_check("FAIL"), History(remember(project, with_check("FAIL")).runs, kept["before"])) == []


def test_sizes_and_seconds_of_each_other_build_are_trends(project: Project) -> None:
    for size in (200, 200, 300, 250):
        history = remember(project, sized(size))
    (trend,) = size_trends(history)
    assert trend.name == "l1/android/lib/text.so"
    assert [(step.report, step.total, step.change) for step in trend.steps] == [
        (1, 300, 0),
        (2, 400, 100),
        (3, 350, -50),
    ]
    assert [build.seconds for build in build_trend(history)] == [200.0, 300.0, 250.0]


def test_an_override_is_told_once_for_all_lines(project: Project) -> None:
    report = {"kz": "0", "pins": {}, "single_source": [], "overrides": [{"where": "sources.up", "value": "mine"}]}
    reports = {line: {**report, "line": line} for line in ("l1", "l2")}
    of = replace(facts(state="applies"), lines=("l1", "l2"), reports=reports)
    assert kinds(of, remember(project, of)) == [(Kind.STILL, "overrides sources.up")]


def test_a_device_is_shown_beside_its_figures_of_the_report_before(project: Project) -> None:
    def with_median(median: float) -> Facts:
        of = facts()
        device, emulated = of.devices
        figure = device.figures[0]._replace(median=median)
        return replace(of, devices=(device._replace(figures=(figure,)), emulated))

    remember(project, with_median(17.25))
    data = page(with_median(15.5), remember(project, with_median(15.5))).decode()
    assert (
        '<td class="n">15.5 tok/s</td><td class="trend"><svg class="trend" role="img" aria-label="17.25 tok/s, 15.5 tok/s">'
        in data
    )
    assert "<small>17.25 before</small>" in data
