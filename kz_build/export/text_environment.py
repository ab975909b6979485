"""An export environment as text, and as shell variables."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kz_build.export.environment import Environment

# A shell has these already: its own folders are searched after the environment's.
_SEARCHED = ("PATH",)
_NOT_FOR_SHELLS = ("HOME", "USER", "LOGNAME", "TERM", "LC_ALL", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


def text(recipe: str, environment: Environment) -> str:
    """Describe an environment: its folder, its contents, and how to use it."""
    width = max(map(len, environment.holds))
    rows = [
        f"environment of {recipe}: " + ("made" if environment.fresh else "there already"),
        f"  {environment.folder}",
    ]
    rows += [f"  {name:{width}}  {text}" for name, text in environment.holds.items()]
    return "\n".join([*rows, f"next: kz export {recipe}", f'  or: eval "$(kz env {recipe} --shell)"'])


def shell(environment: Environment) -> str:
    """Return `export` lines for a POSIX shell."""
    rows = []
    for name, value in environment.variables.items():
        if name in _SEARCHED:
            rows.append(f'export {name}={shlex.quote(str(environment.folder / "bin"))}:"${name}"')
        elif name not in _NOT_FOR_SHELLS:
            rows.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(rows)
