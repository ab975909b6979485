"""An export environment, for people and for shells."""

from __future__ import annotations

import shlex
from typing import Any

# What a shell has of its own already: searched as well, behind the environment's.
_SEARCHED = ("PATH",)
_NOT_FOR_SHELLS = ("HOME", "USER", "LOGNAME", "TERM", "LC_ALL", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


def text(recipe: str, found: Any) -> str:
    """What an environment holds, where it lies, and what to do with it."""
    width = max(map(len, found.holds))
    rows = [f"environment of {recipe}: " + ("made" if found.fresh else "there already"), f"  {found.folder}"]
    rows += [f"  {name:{width}}  {said}" for name, said in found.holds.items()]
    return "\n".join([*rows, f"next: kz export {recipe}", f'  or: eval "$(kz env {recipe} --shell)"'])


def shell(found: Any) -> str:
    """`export` lines for a POSIX shell."""
    rows = []
    for name, value in found.variables.items():
        if name in _SEARCHED:
            rows.append(f'export {name}={shlex.quote(str(found.folder / "bin"))}:"${name}"')
        elif name not in _NOT_FOR_SHELLS:
            rows.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(rows)
