"""The house rules that a test can hold."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from importlinter.cli import lint_imports

import kz_build
from kz_build.pins.schema import json_schema
from tests.conftest import ROOT

PACKAGE = Path(kz_build.__file__).parent
PRINTING = ("cli/", "core/terminal.py", "export/text_course.py", "export/scripts/")


def test_imports_keep_the_contracts_of_pyproject_toml() -> None:
    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == 0, "lint-imports shows which import breaks it"


def test_only_the_command_line_and_progress_print() -> None:
    for path in PACKAGE.rglob("*.py"):
        if not path.relative_to(PACKAGE).as_posix().startswith(PRINTING):
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
