"""What a page says of a build's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kz_build.report.record_facts import _licences

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
