"""The ages of pins: a wheel's is the day it was built."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kz_build.report.pin_facts import _made


@pytest.mark.parametrize(
    ("dates", "made"),
    [
        (((2025, 3, 1, 2, 3, 4), (2025, 12, 31, 0, 0, 0)), "2025-12-31"),
        (((1980, 1, 1, 0, 0, 0),), ""),
        (((2016, 1, 1, 0, 0, 0),), ""),
        (((2025, 13, 31, 0, 0, 0),), ""),
        (((2025, 1, 0, 0, 0, 0),), ""),
        ((), ""),
    ],
)
def test_a_wheel_is_as_old_as_its_newest_member(
    tmp_path: Path, dates: tuple[tuple[int, int, int, int, int, int], ...], made: str
) -> None:
    with zipfile.ZipFile(tmp_path / "w", "w") as archive:
        for number, date in enumerate(dates):
            archive.writestr(zipfile.ZipInfo(f"f{number}", date), b"x")
    assert _made(tmp_path / "w") == made


def test_what_is_no_zip_or_is_not_there_has_no_age(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK\3\4" + b"x" * 100)
    assert _made(tmp_path / "x") == _made(tmp_path / "nowhere") == _made(tmp_path) == ""
    with zipfile.ZipFile(tmp_path / "outside", "w") as archive:
        archive.writestr(zipfile.ZipInfo("../f", (2026, 1, 1, 0, 0, 0)), b"x")
    assert _made(tmp_path / "outside") == ""
