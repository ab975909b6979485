"""SDKs and NDKs that the user already has: their folders and versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kz_build.core.env import variable
from kz_build.pins.load import LOCAL
from kz_build.pins.pins import Source
from kz_build.pins.project import Project
from kz_build.sources.replaced import file_in, folder_of


class InstalledSdk(NamedTuple):
    """An SDK of the user's: the variable, or the file, that names its folder, the version that it states ('' for none), and why it is not
    the pinned one ('' if it is)."""

    named_by: str
    folder: Path
    revision: str
    problem: str

    @property
    def remove(self) -> str:
        """Return what makes kz use another one."""
        return f"take it out of {LOCAL}" if self.named_by.startswith(LOCAL) else f"unset {self.named_by}"


def installed(project: Project, line: str, source: Source) -> InstalledSdk | None:
    """Return the installed SDK that pins.local.yaml or a variable names for a source, compared with its pin; None without one."""
    options, version = source.options.get("installed"), project.pins.line(line)[source.name]
    if not options:
        return None
    if project.pins.replacement(source.name):
        folder = folder_of(project, line, source)
        place = (
            (f"{LOCAL}: sources.{source.name}.folder", folder.resolve())
            if folder and not file_in(project, line, source, folder)
            else None
        )
    else:
        place = installed_folder(options["env"])
    if not place:
        return None
    published = source.options["published"].get(version) or {}
    wanted, own = published.get("revision") or version, revision(place[1], options["identity"])
    problem = f"says it is {own}" if own else f"has no {options['identity']} that says which version it is"
    if version != wanted:
        version += f" ({wanted})"
    return InstalledSdk(*place, own, "" if own == wanted else f"{problem}; the pin is {version}")


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
