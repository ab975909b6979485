"""Files of this machine that a container sees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """Files of this machine that a build only reads, and their path in the engine: what `only` (all if empty) names in
    `source`, or `source` itself if it is a file. `identity` stands for their content, '' if unknown."""

    source: Path
    to: Path
    only: tuple[str, ...]
    identity: str
