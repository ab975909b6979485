"""Which library runs which model, by a device's report or by what kz pte says of the files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kz_build.pins.load import load_project
from kz_build.pins.project import Project
from kz_build.report.facts import BuildFacts, ExportFacts, PairFacts
from kz_build.report.pair_facts import pair_facts
from tests.checks.test_pte_there import NEEDS, XNNPACK, library
from tests.conftest import ROOT, Kz
from tests.formats.ptes import Qnn, decoder
from tests.report.page_facts import facts

LINES = ("et-1.4", "et-1.5")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The real pins; in dist, two lines with a library of XNNPACK, and one with a model of it."""
    found = load_project(ROOT)._replace(root=tmp_path, store=tmp_path / "store")
    for line in LINES:
        library(found.dist_folder(line, "android", "lib", "libexecutorch.so"), *NEEDS)
    shutil.copy(XNNPACK, found.dist_folder(LINES[0], "m.pte"))
    return found


def builds() -> tuple[BuildFacts, ...]:
    return tuple(facts().builds[0]._replace(line=line) for line in LINES)


def model(recipe: str = "m", soc: str = "") -> ExportFacts:
    return facts().exports[0]._replace(line=LINES[0], recipe=recipe, file=f"{recipe}.pte", soc=soc, qnn="")


def pairs(project: Project, *models: ExportFacts) -> list[PairFacts]:
    return list(pair_facts(project, builds(), models, ()))


def test_a_model_that_no_device_ran_is_asked_for_with_the_libraries_of_all_lines(project: Project) -> None:
    own, other = pairs(project, model())
    assert (own.line, own.model, own.state, own.details) == ("et-1.4", "m", "PASS", ())
    assert own.untried == "kz device run --line et-1.4 --target android --recipe m"
    assert (other.line, other.model) == ("et-1.5", "et-1.4 m")
    assert other.untried == "kz device run --line et-1.5 --target android --pte dist/et-1.4/m.pte"


def test_what_fails_is_what_kz_pte_says(project: Project, kz: Kz) -> None:
    lib = library(project.dist_folder(LINES[0], "android", "lib", "libexecutorch.so"), *NEEDS[1:])
    path = project.dist_folder(LINES[0], "q.pte")
    path.write_bytes(decoder("kv", [Qnn("SM8650")]))
    rows = {(row.line, row.model): row for row in pairs(project, model(), model("q", "SM8750"))}
    assert [row.state for row in rows.values()] == ["FAIL", "FAIL", "PASS", "FAIL"]
    (why,) = rows["et-1.4", "m"].details
    assert why.startswith("backends: ") and "XnnpackBackend" in why
    done = kz("pte", path, "--lib", lib.parent.parent, "--soc", "SM8750")
    assert done.returncode == 8
    last = next(line for line in done.stderr.splitlines() if "will not load there" in line)
    names = [text.partition(": ")[0] for text in rows["et-1.4", "q"].details]
    assert names == ["arch", "backends"] and f"will not load there: {', '.join(names)}" in last


def test_a_model_that_is_gone_or_damaged_is_unknown_and_stops_no_report(project: Project) -> None:
    project.dist_folder(LINES[0], "cut.pte").write_bytes(XNNPACK.read_bytes()[:2000])
    rows = pairs(project, model("gone"), model("cut"))
    assert {row.state for row in rows} == {""} and len(rows) == 4
    assert "there is no " in rows[0].details[0] and "damaged or cut off" in rows[1].details[0]


def test_what_a_device_ran_is_not_asked_of_the_files(project: Project) -> None:
    device = facts().devices[1]._replace(line="et-1.4")
    ran, other = pair_facts(project, builds(), (model(),), (device,))
    assert (ran.line, ran.state, ran.emulated, ran.untried) == ("et-1.4", "PASS", True, "") and other.line == "et-1.5"
