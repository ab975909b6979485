"""Results as JSON for programs."""

from __future__ import annotations

import json

from kz_build.core.plain_json import plain


def text(value: object) -> str:
    """Return any result as indented JSON with sorted keys."""
    return json.dumps(plain(value), indent=1, sort_keys=True)
