"""A reader of a project's baselines, baselines/<device>.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, Problem
from kz_build.core.yaml_schema import load

FOLDER = "baselines"


def baseline(root: Path, model: str, soc: str) -> dict[str, Any] | None:
    """Return the baseline of a device by ro.product.model and SoC, None without one.

    Raises ConfigError with every problem of every file.
    """
    paths = sorted((root / FOLDER).glob("*.yaml"))
    if not paths:
        return None
    from kz_build.device.baseline import Baseline  # pydantic

    baselines: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            baselines.append(load(path, Baseline, "baselines", f"{FOLDER}/{path.name}")[0])
        except ConfigError as error:
            problems += error.problems or (Problem(path.name, 0, str(error)),)
    if problems:
        raise ConfigError("baselines are wrong:", tuple(problems), hint="docs/baselines.md describes every key")
    matches = [one for one in baselines if model in one["match"]["models"] and one["match"]["soc"] in ("", soc)]
    return matches[0] if matches else None
