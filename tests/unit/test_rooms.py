"""The house rules that a test can hold."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import kz_build
from kz_build.model.schema import json_schema
from tests.conftest import ROOT

PACKAGE = Path(kz_build.__file__).parent
# From each room, the rooms it may import.
ALLOWED = {
    "model": {"model"},
    "adapters": {"adapters", "model"},
    "stages": {"stages", "adapters", "model"},
    "views": {"views", "model"},
    "cli": {"cli", "stages", "adapters", "views", "model"},
}


def imports(path: Path) -> set[str]:
    """Rooms of kz_build that a file imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{a.name}" for a in node.names] if node.module == "kz_build" else [node.module]
        found |= {n.split(".")[1] for n in names if n.startswith("kz_build.")} - {"__version__"}
    return found


def test_imports_point_down_only() -> None:
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ALLOWED:
            seen += 1
            assert imports(path) <= ALLOWED[room], (
                f"{path.relative_to(PACKAGE)} imports {imports(path) - ALLOWED[room]}"
            )
    assert seen > 20


def test_stages_and_adapters_do_not_print() -> None:
    for room in ("model", "adapters", "stages"):
        for path in (PACKAGE / room).rglob("*.py"):
            called = [
                n.func.id
                for n in ast.walk(ast.parse(path.read_text()))
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
            ]
            assert not {"print", "exit", "input"} & set(called), path


def test_the_schema_in_the_repository_is_the_one_the_code_makes() -> None:
    on_disk = json.loads((ROOT / "pins.schema.json").read_text())
    assert on_disk == json_schema(), "run: kz schema > pins.schema.json"


def test_nothing_names_the_sample() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "examples/sample" not in path.read_text() and "minirt" not in path.read_text(), path
