"""The tables beside the modules of diagnose, as YAML: signatures, and forms of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def table(path: Path) -> dict[str, Any]:
    """Read one of kz's own YAML files, which a test validates; with libyaml where PyYAML has it, 15 times as fast."""
    import yaml

    loaded: dict[str, Any] = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded
