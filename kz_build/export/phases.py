"""Phases of an export, recognised in upstream's output, with their time and memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

FIRST = "load"
"""The phase before a script's first output: imports and weights."""
# Lines of extension/llm/export/builder.py and export_llama_lib.py, and of llama.py's @log_info (wrappers/base_component.py).
_STARTS = (
    ("load", r"calling \w+::__init__\b"),
    ("export", r"\] - Exporting with:|\bExporting with:"),
    ("calibrate", r"Run calibration\.\.\."),
    ("quantize", r"calling \w+::quantize\b"),
    ("lower", r"Lowering model using following partitioner"),
    ("compile", r"calling \w+::compile\b"),
    ("save", r"Required memory for activation in bytes"),
)
_LINE = re.compile("|".join(f"(?P<p{i}>{pattern})" for i, (_, pattern) in enumerate(_STARTS)))


@dataclass(frozen=True)
class Phase:
    """The seconds of a phase, and the most bytes of RAM and of swap that its processes held at one time."""

    name: str
    seconds: float
    ram: int
    swap: int


def phase_of(line: str) -> str:
    """Return the phase that a line of output begins, '' for most lines."""
    match = _LINE.search(line)
    return _STARTS[int(match.lastgroup[1:])][0] if match and match.lastgroup else ""


def estimate(phases: Iterable[Phase]) -> dict[str, float]:
    """Return phase -> seconds of an earlier run, summed by name."""
    seconds: dict[str, float] = {}
    for phase in phases:
        seconds[phase.name] = seconds.get(phase.name, 0.0) + phase.seconds
    return seconds
