"""A reader of contracts in recipes."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from kz_build.checks.contract import Contract, with_pins
from kz_build.core.yaml_schema import load


class _Recipe(BaseModel):
    contract: Contract
    line: str = ""


def read_contract(path: Path, root: Path) -> Contract:
    """Read the `contract:` of a recipe; `executorch: pinned` is the version of the recipe's line in the project at `root`.

    Raises ConfigError with every problem and its line.
    """
    recipe, _ = load(path, _Recipe, "recipes", path.name)
    if recipe.contract.executorch != "pinned":
        return recipe.contract
    from kz_build.pins.load import load_project

    return with_pins(recipe.contract, load_project(root).pins.line(recipe.line))
