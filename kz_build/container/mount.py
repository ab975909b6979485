"""Files of this machine that a container shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bring:
    """Files of this machine that a build reads but never writes, and where the engine shows them: what of `only` (all
    where empty) lies in `source`, or `source` itself where that is a file. `identity` stands for their content, '' where
    nobody knows it."""

    source: Path
    to: Path
    only: tuple[str, ...]
    identity: str
