"""SDKs and NDKs that the user already has: their folders and versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kz_build.core.env import variable


def installed_folder(env: Sequence[str]) -> tuple[str, Path] | None:
    """Return (variable, folder) of the first variable that is set; by its real path, which compilers write down."""
    for name in env:
        if value := variable(name):
            return name, Path(value).expanduser().resolve()
    return None


def revision(folder: Path, identity: str) -> str:
    """Return the version that an identity file states, '' if it is absent or states none.

    `source.properties` is the NDK's (`Pkg.Revision = 28.2.13676358`); `sdk.yaml` is Qualcomm's, whose archive version is
    `version` + '.' + the first six digits of `build_id`.
    """
    try:
        text = (folder / identity).read_text(errors="replace")
    except OSError:
        return ""
    if identity.endswith(".properties"):
        match = re.search(r"^Pkg\.Revision\s*=\s*(\S+)", text, re.MULTILINE)
        return match[1] if match else ""
    version = re.search(r"^\s*version:\s*['\"]?v?([0-9.]+)", text, re.MULTILINE)
    build = re.search(r"^\s*build_id:\s*['\"]?v?([0-9]{6})", text, re.MULTILINE)
    return f"{version[1]}.{build[1]}" if version and build else version[1] if version else ""
