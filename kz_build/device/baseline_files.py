"""A project's baselines: what runs on its devices took before, by baselines/<device>.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.yaml_schema import load

FOLDER = "baselines"


def baseline(root: Path, model: str, soc: str) -> dict[str, Any] | None:
    """The baseline of a device by ro.product.model and SoC, None where the project has none for it.

    Raises ConfigError with all that is wrong in any of the files.
    """
    paths = sorted((root / FOLDER).glob("*.yaml"))
    if not paths:
        return None
    from kz_build.device.baseline import Baseline  # pydantic

    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found.append(load(path, Baseline, "baselines", f"{FOLDER}/{path.name}")[0])
        except ConfigError as error:
            problems += error.problems or (Problem(path.name, 0, str(error)),)
    if problems:
        raise ConfigError("baselines are wrong:", tuple(problems), hint="docs/baselines.md describes every key")
    meant = [one for one in found if model in one["match"]["models"] and one["match"]["soc"] in ("", soc)]
    return meant[0] if meant else None
