"""Figures of a device that kz compares its runs with: baselines/<device>.yaml (docs/reference/baselines.md)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from kz_build.core.yaml_schema import load, load_all
from kz_build.pins.source_schema import Name, Strict, Text

Positive = Annotated[float, Field(gt=0, strict=False)]


class Match(Strict):
    """Which devices it is for: all conditions must hold."""

    models: list[Text] = Field(min_length=1, description="ro.product.model")
    soc: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9]*$")] = ""


class Figures(Strict):
    """One measurement. Compared only with runs of the same recipe in the same kind of process."""

    recipe: Name
    process: Literal["app", "shell"] = Field(description="app: forked by Zygote; shell: a program under adbd's shell")
    date: datetime.date | None = Field(description="null where nobody knows it")
    source: Text = Field(description="where the figures stand in public, or who measured them")
    note: str = ""
    load_s: Positive | None = None
    ttft_ms: Positive | None = None
    prefill_tps: Positive | None = None
    decode_tps: Positive | None = None
    total_s: Positive | None = None
    peak_mb: Positive | None = None


class Baseline(Strict):
    device: Text
    match: Match
    tolerance: Annotated[float, Field(gt=0, le=100, strict=False)] = Field(
        default=15, description="percent that a figure may be worse"
    )
    figures: list[Figures]


FOLDER = "baselines"


def baseline(root: Path, device: str, soc: str) -> Baseline | None:
    """Return the baseline of a device by its manufacturer and ro.product.model (`Google Pixel 9 Pro`), and its SoC; None without one.

    Raises ConfigError with every problem of every file.
    """

    def read(path: Path) -> Baseline:
        return load(path, Baseline, FOLDER, f"{FOLDER}/{path.name}")[0]

    matches = (one for one in load_all(root / FOLDER, read, FOLDER) if one.match.soc in ("", soc))
    return next((one for one in matches if any(f" {device}".endswith(f" {m}") for m in one.match.models)), None)
