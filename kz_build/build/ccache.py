"""The compile cache: ccache, if the machine has it, in a folder of the store."""

from __future__ import annotations

from pathlib import Path

from kz_build.build.steps import Ccache
from kz_build.core.env import variable
from kz_build.core.process import find


def compile_cache(store: Path) -> Ccache | None:
    """Return ccache on PATH with `<store>/ccache`; None if there is none, or KZ_CCACHE=0 turns it off."""
    program = find("ccache")
    return Ccache(program, store / "ccache") if program and variable("KZ_CCACHE") != "0" else None
