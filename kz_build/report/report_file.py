"""A report.json that somebody kept, perhaps on another machine: read with bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError

MOST_BYTES = 64 << 20
"""A larger file is no report: those of real lines have some hundred kilobytes."""
_HINT = "kz build and kz all write one to out/report/report.json"


def read(path: Path) -> dict[str, Any]:
    """Return the content of a report.json. Raises ConfigError if it is absent, too large, or no JSON object."""
    if not path.is_file():
        raise ConfigError(f"{path} is not a file", hint=_HINT)
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path} is not a report of kz: it is larger than {MOST_BYTES >> 20} MB", hint=_HINT)
    try:
        report = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a report of kz: {str(error)[:200]}", hint=_HINT) from None
    if not isinstance(report, dict):
        raise ConfigError(f"{path} is not a report of kz: it holds no JSON object", hint=_HINT)
    return report
