"""Phases of an export, as upstream's own output tells them, and what each took. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

FIRST = "load"
"""What a script does before it says anything: imports and weights."""
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
    """What one phase took: seconds, and the most bytes of RAM and of swap that its processes held at one time."""

    name: str
    seconds: float
    ram: int
    swap: int


def phase_of(line: str) -> str:
    """The phase that a line of output begins, '' for most lines."""
    found = _LINE.search(line)
    return _STARTS[int(found.lastgroup[1:])][0] if found and found.lastgroup else ""


def estimate(phases: tuple[Phase, ...]) -> dict[str, float]:
    """Phase -> seconds of an earlier run; those of one name together."""
    found: dict[str, float] = {}
    for phase in phases:
        found[phase.name] = found.get(phase.name, 0.0) + phase.seconds
    return found
