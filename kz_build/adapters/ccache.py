"""The compile cache: ccache, where the machine has it, in a folder of the store."""

from __future__ import annotations

from pathlib import Path

from kz_build.adapters.environment import variable
from kz_build.adapters.process import find
from kz_build.model.plan import Ccache


def compile_cache(store: Path) -> Ccache | None:
    """ccache on PATH with `<store>/ccache`; None where there is none, or KZ_CCACHE=0 says to do without."""
    program = find("ccache")
    return Ccache(program, store / "ccache") if program and variable("KZ_CCACHE") != "0" else None
