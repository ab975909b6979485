"""What hatchling asks when it packs a wheel: our own project goes in as the template that `kz init --executorch` copies."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Template(BuildHookInterface[Any]):
    """Put the files of pins/template.py into a wheel; an editable installation has them in its checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"] |= {name: f"kz_build/template/{name}" for name in NAMES}


NAMES = (
    "baselines",
    "containers",
    "patches",
    "recipes",
    "pins.schema.json",
    "recipes.schema.json",
    "pins.lock",
    "pins.yaml",
)
