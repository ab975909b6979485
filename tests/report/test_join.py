"""kz report --join: one report of what several machines built, and nothing in it that this project's pins did not ask for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Kz

CELL = Path("sample-0.1", "linux-arm64")
RECORD = Path("out", "build", CELL, "manifest.json")


@pytest.fixture
def cell(built: Path, tmp_path: Path) -> Path:
    """What a job keeps: the records and the files of its target."""
    folder = tmp_path / "cell"
    for name in ("out/build", "out/audit", "out/papers", "dist"):
        shutil.copytree(
            built / name / CELL, folder / name / CELL, ignore=lambda at, names: {"library", "kz"} & set(names)
        )
    return folder


def test_a_report_of_cells_is_that_of_the_machine_that_built_them(
    kz: Kz, built: Path, cell: Path, sample: Path
) -> None:
    joined = kz("-C", str(sample), "report", "--join", str(cell), "--json")
    assert joined.returncode == 0, joined.stderr
    result = json.loads(joined.stdout)
    assert (result["cells"], result["missing"]) == (["sample-0.1/linux-arm64"], [])
    there = json.loads(kz("-C", str(built), "report", "--json").stdout)
    assert result["lines"]["sample-0.1"]["build"] == there["build"]
    assert result["lines"]["sample-0.1"]["audit"] == there["audit"]
    assert (sample / "dist" / CELL / "lib" / "libminirt.so").read_bytes() == (
        built / "dist" / CELL / "lib" / "libminirt.so"
    ).read_bytes()
    page = kz("-C", str(sample), "report", "--join", str(cell), "--html")
    assert page.returncode == 0 and "1 build" in page.stdout


def test_a_cell_that_no_job_built_fails_the_report(kz: Kz, cell: Path, sample: Path) -> None:
    pins = sample / "pins.yaml"
    pins.write_text(
        pins.read_text().replace(
            "lines:\n", "lines:\n  later: {minirt: v0.1.0, ziglang: 0.14.1, cmake: 4.1.2, ninja: 1.13.0}\n"
        )
    )
    done = kz("-C", str(sample), "report", "--join", str(cell))
    assert done.returncode == 7 and "no folder has these cells of the matrix:\n  later/linux-arm64\n" in done.stderr
    assert "build linux-arm64" in done.stdout


def older(cell: Path) -> None:
    record = json.loads((cell / RECORD).read_text())
    record["stacks"][0]["tree"] = "1" * 40
    (cell / RECORD).write_text(json.dumps(record))


def hostile(cell: Path) -> None:
    record = json.loads((cell / RECORD).read_text())
    (cell / RECORD).write_text(json.dumps({**record, "sources": [{"name": [], "version": 1}], "stacks": [7]}))


def moved(cell: Path) -> None:
    (cell / RECORD).write_text((cell / RECORD).read_text().replace('"v0.1.0"', '"v0.0.9"'))


def other(cell: Path) -> None:
    (cell / "out/build/sample-0.1/linux-arm64").rename(cell / "out/build/sample-0.1/mine")


def linked(cell: Path) -> None:
    (cell / "dist" / CELL / "passwd").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda cell: shutil.rmtree(cell / "out"), 2, "has no cell: there is no out/build/LINE/TARGET/manifest.json"),
        (other, 2, "has sample-0.1/mine, which is no cell of this project"),
        (lambda cell: (cell / RECORD).write_text("{}"), 3, "was not written by kz"),
        (hostile, 3, "was not written by kz"),
        (older, 3, f"minirt was tree {'1' * 40}, pins.lock has"),
        (moved, 3, "minirt was v0.0.9, pins.yaml has v0.1.0"),
        (lambda cell: (cell / "dist" / CELL / "lib/libminirt.so").write_bytes(b"x"), 3, "libminirt.so is not the file that was built"),
        (linked, 3, "passwd is no regular file"),
    ],
)  # fmt: skip
def test_a_cell_that_is_not_of_this_project_changes_nothing(
    kz: Kz, cell: Path, sample: Path, change: Callable[[Path], object], code: int, words: str
) -> None:
    change(cell)
    done = kz("-C", str(sample), "report", "--join", str(cell))
    assert done.returncode == code and words in done.stderr, done.stderr
    assert not (sample / "dist").exists()


def test_two_folders_with_the_same_cell_are_refused(kz: Kz, cell: Path, sample: Path) -> None:
    copy = shutil.copytree(cell, cell.with_name("copy"))
    done = kz("-C", str(sample), "report", "--join", str(cell), str(copy))
    assert done.returncode == 2 and "sample-0.1/linux-arm64 is in" in done.stderr
