"""A stack on its way to another base: what is left to pick, and where it stops. Kept as one JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Session:
    """What `rebase`, `edit`, `import-pr` and `upstream` remember between two commands.

    `into` is the line that is written at the end and `version` its pin; `base` the commit below its stack. `stack_tip` is
    the stack as it was when this began, by the `digest` of its files. `old_base` and `old_tip` hold the commits to pick,
    `todo` those that are left; `picking` is the one in the worktree, `stopped` its subject, `before` the worktree's commit when it was begun.
    `tip` is how far it came. `patch` is the one that `upstream` prepares. `notes` say what happened on the way.
    """

    verb: str
    line: str
    source: str
    into: str
    version: str
    base: str
    old_base: str
    old_tip: str
    stack_tip: str
    digest: str
    tip: str
    todo: tuple[str, ...] = ()
    picking: str = ""
    stopped: str = ""
    before: str = ""
    patch: str = ""
    notes: tuple[str, ...] = ()

    def text(self) -> bytes:
        """As a file."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


def parse_session(data: bytes) -> Session:
    """Read what `text` wrote."""
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(data).items()}
    fields: dict[str, Any] = plain
    return Session(**fields)
