"""A reader of contracts in recipes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from kz_build.checks.contract import Contract
from kz_build.core.errors import ConfigError, Problem
from kz_build.core.validation import validate
from kz_build.core.yaml_lines import parse


class _Recipe(BaseModel):
    contract: Contract


def read_contract(path: Path, root: Path) -> Contract:
    """Read the `contract:` of a recipe; `executorch: pinned` is the version of the recipe's line in the project at `root`.

    Raises ConfigError with every problem and its line.
    """
    try:
        data, lines = parse(path.read_bytes(), path.name)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(data, dict) or not isinstance(data.get("contract"), dict):
        line = lines.get(("contract",), 0)
        raise ConfigError(f"{path.name} is not a recipe", (Problem(path.name, line, "`contract` is not a mapping"),))
    recipe, wrong = validate(_Recipe, data)
    if recipe is None:
        problems = (Problem(path.name, lines.get(at, 0), f"{'.'.join(map(str, at))}: {text}") for at, text, _ in wrong)
        raise ConfigError(
            f"the contract of {path.name} is wrong:",
            tuple(problems),
            hint="docs/reference/verbs/pte.md describes every key",
        )
    contract = recipe.contract
    if contract.executorch != "pinned":
        return contract
    from kz_build.pins.load import load_project

    pinned = load_project(root).pins.line(str(data.get("line")))
    return replace(contract, executorch=pinned.get("executorch") or pinned.get("executorch-wheel", ""))
