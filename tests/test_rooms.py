"""The house rules that a test can hold."""

from __future__ import annotations

import ast
import importlib
import json
import re
from functools import cache
from pathlib import Path

from importlinter.cli import lint_imports

import kz_build
from kz_build.core.validation import json_schema
from kz_build.pins.schema import Pins
from tests.conftest import ROOT

PACKAGE = Path(kz_build.__file__).parent


@cache
def syntax(path: Path) -> ast.Module:
    """What a module is, read once for all tests."""
    return ast.parse(path.read_text())


PRINTING = ("cli/", "core/terminal.py", "export/scripts/")


def test_imports_keep_the_contracts_of_pyproject_toml() -> None:
    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == 0, "lint-imports shows which import breaks it"


def test_only_the_command_line_and_progress_print() -> None:
    for path in PACKAGE.rglob("*.py"):
        if not path.relative_to(PACKAGE).as_posix().startswith(PRINTING):
            called = [
                n.func.id for n in ast.walk(syntax(path)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
            ]
            assert not {"print", "exit", "input"} & set(called), path


def test_the_schema_in_the_repository_is_the_one_the_code_makes() -> None:
    on_disk = json.loads((ROOT / "pins.schema.json").read_text())
    assert on_disk == json_schema(Pins), "run: kz schema > pins.schema.json"


def test_nothing_names_the_sample() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "examples/sample" not in path.read_text() and "minirt" not in path.read_text(), path


def test_the_page_on_architecture_names_the_rooms_and_types_that_there_are() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    layers = re.search(r"\nlayers = \[\n(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.S)
    assert layers and re.findall(r"^\| `(\w+)` \|", page, re.M) == re.findall(r'"(\w+)"', layers[1])
    types = re.findall(r"`((?:\w+\.)+[A-Z]\w+)`", page)
    assert len(types) > 9
    for module, _, name in (one.rpartition(".") for one in types):
        assert hasattr(importlib.import_module(f"kz_build.{module}"), name), f"{module}.{name}"
    for path in re.findall(r"`((?:kz_build/)?\w+/\w+\.(?:py|yaml|json))`", page):
        assert (PACKAGE.parent / path).is_file() or (PACKAGE / path).is_file(), path


def test_no_room_file_or_function_outgrows_the_house() -> None:
    for room in (path for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").is_file()):
        assert len(list(room.glob("*.py"))) - 1 <= 26, room.name
    for path in PACKAGE.rglob("*.py"):
        lines = path.read_text()
        assert lines.count("\n") <= 335, path
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 66, f"{path}: {node.name}"
